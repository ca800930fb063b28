"""Time how commands start: to the help, and to a refused option.

    python benchmarks/start.py

Each command is a whole process: one that ends with `--help`, and one that
refuses an option that does not exist. The processes run in turn, and the median
seconds are printed as a Markdown table. Neither should import TensorFlow.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

import side_by_side

# All commands but beam_pretraining_data, which has its own environment.
MODULES = [
    *(
        f"albert_tf.{name}"
        for name in (
            "run_pretraining run_classifier run_squad run_race run_glue "
            "ensemble predict export export_train_step convert_checkpoint "
            "demo write_run_card zip_glue_submission"
        ).split()
    ),
    *(
        f"data_prep.{name}"
        for name in (
            "extract_passages split_sentences train_sentencepiece "
            "train_wordpiece compare_vocabularies create_pretraining_data "
            "inspect_records create_finetuning_data make_demo_data"
        ).split()
    ),
]


def time_process(command: Sequence[str]) -> float:
    """Return the seconds that a command of this project takes.

    Args:
        command: What follows `python`.
    """
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=side_by_side.ROOT,
        env={**os.environ, **side_by_side.ENVIRONMENT},
    )
    return time.perf_counter() - began


def time_refusals(modules: Sequence[str], rounds: int) -> list[list[str]]:
    """Time `--help` and an unknown option; return a row for each module."""
    costs: dict[str, dict[str, list[float]]] = {
        module: {"--help": [], "--no_such_option=1": []} for module in modules
    }
    for _ in range(rounds):
        for module, options in costs.items():
            for option, found in options.items():
                found.append(time_process(["-m", module, option]))
    return [
        [
            module,
            *(f"{statistics.median(found):.2f}" for found in options.values()),
        ]
        for module, options in costs.items()
    ]


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the options."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--rounds", type=int, default=3, help="Default: %(default)s")
    return parser


def main() -> None:
    """Print the table."""
    settings = make_parser().parse_args()
    rows = time_refusals(MODULES, settings.rounds)
    header = ["command", "help", "refused"]
    print(*side_by_side.format_table(header, rows), sep="\n")


if __name__ == "__main__":
    main()
