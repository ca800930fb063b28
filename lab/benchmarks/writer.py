r"""Time the writer of pretraining data against Model Garden's.

    python -m lab.benchmarks.writer --input_file=text.txt \
        --spm_model_file=30k-clean.model

Every program runs as a whole process, in turn, for several rounds. Medians are
printed as a Markdown table, with the peak memory of the largest process. Model
Garden's writer is part of tf-models-official and writes next-sentence records.

    python -m lab.benchmarks.writer --input_file=text.txt \
        --spm_model_file=30k-clean.model --scale_megabytes=1000 \
        --dupe_factors=1 --workers=2

runs only albert_tf, once, on a text of that size: the input repeated, with
words exchanged.
"""

import argparse
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence

from albert_tf.data import tfrecord

# In a generated text one of so many words is another one.
_EXCHANGED = 8
# An intermediate process, so that the peak is only that of this run.
_MEASURED = """
import resource, subprocess, sys, time
begun = time.perf_counter()
done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)
seconds = time.perf_counter() - begun
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
print(seconds, peak)
sys.exit(done.returncode)
"""


def make_commands(
    settings: argparse.Namespace, passes: int
) -> dict[str, list[str]]:
    """Return the programs to compare, without their inputs and outputs."""
    shared = [
        f"--max_seq_length={settings.max_seq_length}",
        f"--dupe_factor={passes}",
        "--max_predictions_per_seq=20",
    ]
    commands = {
        f"albert_tf, {workers} worker(s)": [
            "data_prep.create_pretraining_data",
            *shared,
            f"--spm_model_file={settings.spm_model_file}",
            f"--num_workers={workers}",
            # As in the other: single sentences get a random partner.
            "--single_segment_policy=random",
        ]
        for workers in settings.workers.split(",")
    }
    if not settings.scale_megabytes:
        commands["Model Garden"] = [
            "official.nlp.data.create_pretraining_data",
            *shared,
            "--tokenization=SentencePiece",
            f"--sp_model_file={settings.spm_model_file}",
            "--do_whole_word_mask",
            "--max_ngram_size=3",
        ]
    return commands


def run_once(
    module: str, options: Sequence[str], text: str
) -> tuple[float, float, int]:
    """Return seconds, peak MiB and records of one run in fresh processes."""
    with tempfile.TemporaryDirectory() as folder:
        program = [sys.executable, "-m", module, *options]
        files = [f"--input_file={text}", f"--output_file={folder}/x"]
        done = subprocess.run(
            [sys.executable, "-c", _MEASURED, *program, *files],
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise SystemExit(f"{module} failed:\n{done.stderr[-2000:]}")
        seconds, peak = map(float, done.stdout.split())
        records = tfrecord.count_records(f"{folder}/x")
        return seconds, peak, records


def write_text(source: str, target: str, size: int) -> None:
    """Write a text of about so many characters, the same for the same size."""
    chance = random.Random(12345)
    lines = pathlib.Path(source).read_text("utf-8").split("\n")
    words = [word for line in lines for word in line.split()]
    written = 0
    with open(target, "w", encoding="utf-8") as stream:
        while written < size:
            for line in lines:
                parts = line.split(" ") if line else []
                begin = chance.randrange(_EXCHANGED)
                for place in range(begin, len(parts), _EXCHANGED):
                    parts[place] = words[int(chance.random() * len(words))]
                written += stream.write(" ".join(parts) + "\n")
                if written >= size:
                    break
            stream.write("\n")


def compare(settings: argparse.Namespace, text: str, passes: int) -> None:
    """Run all programs in turn and print their rows of the table."""
    commands: Mapping[str, Sequence[str]] = make_commands(settings, passes)
    rows: dict[str, list[tuple[float, float, int]]] = {n: [] for n in commands}
    for _ in range(1 if settings.scale_megabytes else settings.rounds):
        for name, (module, *options) in commands.items():
            rows[name].append(run_once(module, options, text))
    megabytes = pathlib.Path(text).stat().st_size / 1e6
    for name, found in rows.items():
        seconds, peak, records = map(
            statistics.median, zip(*found, strict=True)
        )
        print(
            f"| {passes} | {name} | {seconds:.2f} | {megabytes / seconds:.2f} "
            f"| {records / seconds:,.0f} | {peak:.0f} |",
            flush=True,
        )


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--input_file", required=True, help="A sentence per line.")
    add("--spm_model_file", required=True, help="The vocabulary.")
    add("--rounds", type=int, default=3, help="Runs of each program.")
    add("--max_seq_length", type=int, default=512)
    add("--dupe_factors", default="1,10", help="Passes to try.")
    add("--workers", default="1,2", help="Numbers of workers to try.")
    add("--scale_megabytes", type=int, default=0, help="See above.")
    settings = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = settings.input_file
        if settings.scale_megabytes:
            text = f"{folder}/text.txt"
            size = settings.scale_megabytes * 10**6
            write_text(settings.input_file, text, size)
        print("| passes | program | s | MB/s | records/s | peak MiB |")
        print("| ---: | --- | ---: | ---: | ---: | ---: |")
        for passes in map(int, settings.dupe_factors.split(",")):
            compare(settings, text, passes)


if __name__ == "__main__":
    main()
