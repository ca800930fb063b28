r"""Time how commands start: refusals, and the first result of each.

    python -m lab.benchmarks.start
    python -m lab.benchmarks.start --work

The first table has, for each command, the seconds of a whole process that ends
with `--help`, and of one that refuses an option that does not exist. Neither
should import TensorFlow.

With --work each command does its work on a tiny input, from generated stories
to answers, and ends: one step of a training, one sentence for an answer. `demo`
is interrupted when its page is ready. The table has the seconds of the process,
and how many of them are imports, those of the functions included: the sum that
`python -X importtime` reports for the same process. Both tables are in
Markdown, medians of --rounds.
"""

import argparse
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

from lab.benchmarks import side_by_side

# All commands.
MODULES = [
    *(
        f"albert_tf.{name}"
        for name in (
            "run_pretraining run_classifier run_squad run_race run_glue "
            "ensemble predict export convert_checkpoint "
            "demo write_run_card"
        ).split()
    ),
    *(
        f"data_prep.{name}"
        for name in (
            "extract_passages split_sentences train_sentencepiece "
            "train_wordpiece create_pretraining_data inspect_records "
            "make_word_embeddings create_finetuning_data make_demo_data"
        ).split()
    ),
]


# Tasks for a model that `run_pretraining` has trained for a step.
_FINETUNING = (
    "--albert_config_file=albert_tiny --spm_model_file=tiny.model "
    "--init_checkpoint=pretrained --max_seq_length=36 --train_batch_size=8 "
    "--warmup_step=0 --save_checkpoints_steps=1 "
)
# What is done, and how: a command reads what those before it wrote.
WORK = {
    "make_demo_data": "data_prep.make_demo_data --output_dir=demo "
    "--num_stories=100 --num_task_examples=100",
    "split_sentences": "data_prep.split_sentences --language=en "
    "--input_file=demo/ABOUT.txt --output_file=sentences.txt",
    "train_sentencepiece": "data_prep.train_sentencepiece --vocab_size=400 "
    "--input_file=demo/corpus/train.txt,demo/corpus/glossary.txt "
    "--output_prefix=tiny",
    "train_wordpiece": "data_prep.train_wordpiece --vocab_size=300 "
    "--input_file=demo/corpus/train.txt --output_prefix=pieces",
    "extract_passages": "data_prep.extract_passages "
    "--squad_file=squad/dev-v2.0.json --output_file=passages.txt",
    "create_pretraining_data": "data_prep.create_pretraining_data "
    "--input_file=demo/corpus/train.txt --output_file=train.tfrecord "
    "--spm_model_file=tiny.model --max_seq_length=36 "
    "--max_predictions_per_seq=5 --dupe_factor=1",
    "inspect_records": "data_prep.inspect_records --num_examples=1 "
    "--input_file=train.tfrecord --spm_model_file=tiny.model",
    "make_word_embeddings": "data_prep.make_word_embeddings "
    "--input_file=train.tfrecord --albert_config_file=albert_tiny "
    "--output_file=words.npy",
    "create_finetuning_data": "data_prep.create_finetuning_data "
    "--task_name=cola --input_file=demo/glue/CoLA/train.tsv "
    "--output_file=cola.tfrecord --spm_model_file=tiny.model "
    "--is_training=true --max_seq_length=36",
    "run_pretraining, tiny": "albert_tf.run_pretraining "
    "--albert_config_file=albert_tiny --spm_model_file=tiny.model "
    "--input_file=train.tfrecord --output_dir=pretrained --max_seq_length=36 "
    "--max_predictions_per_seq=5 --train_batch_size=8 --num_train_steps=1 "
    "--num_warmup_steps=0",
    "run_pretraining, base": "albert_tf.run_pretraining "
    "--albert_config_file=base.json --input_file=train.tfrecord "
    "--output_dir=base --max_seq_length=36 --max_predictions_per_seq=5 "
    "--train_batch_size=8 --num_train_steps=1 --num_warmup_steps=0",
    "run_classifier, a step": "albert_tf.run_classifier --task_name=cola "
    "--data_dir=demo/glue --output_dir=cola --do_train --train_step=1 "
    + _FINETUNING,
    "run_classifier, answers": "albert_tf.run_classifier "
    "--task_name=cola --data_dir=demo/glue --output_dir=cola --do_eval "
    "--do_predict --train_step=1 " + _FINETUNING,
    "run_squad, a step": "albert_tf.run_squad --squad_version=2.0 "
    "--train_file=squad/train-v2.0.json --output_dir=answers "
    "--do_train --train_step=1 --max_query_length=12 --doc_stride=12 "
    + _FINETUNING,
    "run_race, a step": "albert_tf.run_race --data_dir=race "
    "--output_dir=choices --do_train --train_step=1 --max_qa_length=16 "
    + _FINETUNING,
    "run_glue, one task": "albert_tf.run_glue --tasks=cola "
    "--data_dir=demo/glue --output_dir=glue --spm_model_file=tiny.model "
    "--init_checkpoint=pretrained --albert_config_file=albert_tiny "
    "--overrides='--max_seq_length=36 --train_batch_size=8 --train_step=1 "
    "--warmup_step=0 --do_predict'",
    "ensemble": "albert_tf.ensemble cola,glue/cola --output_dir=ensemble",
    "predict, with a run": "albert_tf.predict sentence.tsv --run_dir=cola "
    "--output_file=predictions.jsonl",
    "export": "albert_tf.export --run_dir=cola --export_dir=served/1",
    "predict, with a SavedModel": "albert_tf.predict sentence.tsv "
    "--saved_model=served/1 --output_file=answers.jsonl",
    "demo": "albert_tf.demo --saved_model=served/1 --port=0",
    "convert_checkpoint": "albert_tf.convert_checkpoint --from=pretrained "
    "--to=converted/model.ckpt --format=tf1",
    "write_run_card": "albert_tf.write_run_card --output_dir=pretrained",
}
# What commands that serve until they are interrupted print when they are ready.
READY = {"demo": "Open http://"}
OWN_TEXT = side_by_side.ROOT / "tests" / "fixtures" / "own_text"
SENTENCE = "text\nThe walker goes to the mill.\n"
# A line of `-X importtime`: microseconds of a module without those it imports.
IMPORT_LINE = re.compile(r"^import time: +(\d+) \|", re.MULTILINE)


def run_process(
    command: Sequence[str],
    folder: pathlib.Path = side_by_side.ROOT,
    ready: str | None = None,
) -> tuple[float, subprocess.CompletedProcess[str]]:
    """Run a command of this project.

    Args:
        command: What follows `python`.
        folder: Where it runs.
        ready: Part of a line of its standard error, at which it is
            interrupted. None: it ends by itself.

    Returns:
        Its seconds, until it is ready or ends, and how it ended.
    """
    began = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        cwd=folder,
        env={
            **os.environ,
            **side_by_side.ENVIRONMENT,
            "PYTHONPATH": str(side_by_side.ROOT),
        },
    ) as process:
        assert process.stderr
        lines = []
        for line in process.stderr:
            lines.append(line)
            if ready and ready in line:
                break
        else:
            process.wait()
        seconds = time.perf_counter() - began
        process.send_signal(signal.SIGINT)
        lines += process.stderr
    return seconds, subprocess.CompletedProcess(
        command, process.returncode, "", "".join(lines)
    )


def time_process(command: Sequence[str]) -> float:
    """Return the seconds that a command takes, see `run_process`."""
    return run_process(command)[0]


def import_seconds(text: str) -> float:
    r"""Return the sum over all modules that `-X importtime` reports.

    Example:
        import_seconds("import time:   1500 |   2000 | os\n") = 0.0015
    """
    return sum(map(int, IMPORT_LINE.findall(text))) / 1e6


def other_lines(text: str) -> str:
    """Return the lines that are not of `-X importtime`."""
    lines = text.splitlines()
    return "\n".join(x for x in lines if not x.startswith("import time:"))


def time_work(rounds: int) -> list[list[str]]:
    """Have commands work on a tiny input; return a row for each.

    Args:
        rounds: How often; each begins in an empty folder.

    Raises:
        SystemExit: A command fails.
    """
    costs: dict[str, list[tuple[float, float]]] = {name: [] for name in WORK}
    config = side_by_side.read_config(str(side_by_side.BASE_CONFIG))
    base = json.dumps({**config, "vocab_size": 400})
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "sentence.tsv").write_text(SENTENCE)
            pathlib.Path(folder, "base.json").write_text(base)
            shutil.copytree(OWN_TEXT / "squad", f"{folder}/squad")
            shutil.copytree(OWN_TEXT / "race/dev", f"{folder}/race/train")
            for name, line in WORK.items():
                command = ["-X", "importtime", "-m", *shlex.split(line)]
                ready = READY.get(name)
                seconds, done = run_process(
                    command, pathlib.Path(folder), ready
                )
                if done.returncode and not ready:
                    raise SystemExit(f"{line}\n{other_lines(done.stderr)}")
                costs[name].append((seconds, import_seconds(done.stderr)))
    return [
        [
            name,
            *(f"{statistics.median(x):.1f}" for x in zip(*found, strict=True)),
        ]
        for name, found in costs.items()
    ]


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
    add(
        "--work",
        action="store_true",
        help="Time the first result of each command instead of refusals.",
    )
    return parser


def main() -> None:
    """Print the table."""
    settings = make_parser().parse_args()
    if settings.work:
        rows = time_work(settings.rounds)
        header = ["command", "seconds", "of them imports"]
    else:
        rows = time_refusals(MODULES, settings.rounds)
        header = ["command", "help", "refused"]
    print(*side_by_side.format_table(header, rows), sep="\n")


if __name__ == "__main__":
    main()
