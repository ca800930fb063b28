"""Time the writer of pretraining data against others.

    python benchmarks/writer.py --input_file=text.txt \
        --spm_model_file=30k-clean.model

Every program runs as a whole process, in turn, for several rounds. Medians are
printed as a Markdown table, with the peak memory of the largest process. Model
Garden's writer is part of tf-models-official. The original is included if a
checkout of it and a Python that can run it are given.
"""

import dataclasses
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from albert_tf.common import options, ranges  # noqa: E402
from albert_tf.common.options import checked, option  # noqa: E402


@dataclasses.dataclass(frozen=True)
@checked
class BenchmarkOptions:
    """Options of this benchmark."""

    input_file: str = option(help="One text file, one sentence per line.")
    spm_model_file: str = option(help="SentencePiece model.")
    rounds: int = option(
        3, "Runs of each program; medians are shown.", within=ranges.RUNS
    )
    max_seq_lengths: str = option("512,128", "Lengths to try.")
    dupe_factors: str = option("1,10", "Passes to try.")
    workers: str = option("1,2", "Numbers of workers to try.")
    model_garden: bool = option(True, "Whether to run Model Garden's writer.")
    original_dir: str | None = option(
        None, "Folder with the original's create_pretraining_data.py."
    )
    original_python: str = option(
        sys.executable, "Python that can run the original."
    )


@dataclasses.dataclass(frozen=True)
class Case:
    """One program with its options."""

    name: str
    command: list[str]
    folder: str


def make_cases(
    settings: BenchmarkOptions, length: int, passes: int, output: str
) -> list[Case]:
    """Return the programs to compare."""
    shared = [
        f"--input_file={os.path.abspath(settings.input_file)}",
        f"--output_file={output}",
        f"--max_seq_length={length}",
        f"--dupe_factor={passes}",
        "--max_predictions_per_seq=20",
    ]
    model = os.path.abspath(settings.spm_model_file)
    module = [sys.executable, "-m", "data_prep.create_pretraining_data"]
    cases = [
        Case(
            f"albert_tf, {workers} worker(s)",
            [
                *module,
                *shared,
                f"--spm_model_file={model}",
                f"--num_workers={workers}",
                # As in the original: single sentences get a random partner.
                "--single_segment_policy=random",
            ],
            str(ROOT),
        )
        for workers in map(int, settings.workers.split(","))
    ]
    if settings.model_garden:
        cases.append(
            Case(
                "Model Garden (next-sentence records)",
                [
                    *(sys.executable, "-m"),
                    "official.nlp.data.create_pretraining_data",
                    *shared,
                    "--tokenization=SentencePiece",
                    f"--sp_model_file={model}",
                    "--do_whole_word_mask",
                    "--max_ngram_size=3",
                ],
                str(ROOT),
            )
        )
    if settings.original_dir:
        cases.append(
            Case(
                "original",
                [
                    settings.original_python,
                    *("-m", "albert.create_pretraining_data"),
                    *shared,
                    f"--spm_model_file={model}",
                    f"--vocab_file={model}",
                ],
                settings.original_dir,
            )
        )
    return cases


def run_once(case: Case, output: str) -> tuple[float, float]:
    """Return seconds and peak MiB of one run in fresh processes.

    Raises:
        SystemExit: The program failed.
    """
    os.makedirs(case.folder, exist_ok=True)
    # An intermediate process, so that the peak is only that of this run.
    code = (
        "import resource, subprocess, sys, time\n"
        "begun = time.perf_counter()\n"
        "done = subprocess.run(sys.argv[1:], capture_output=True)\n"
        "seconds = time.perf_counter() - begun\n"
        "usage = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "print(done.returncode, seconds, usage.ru_maxrss / 1024)\n"
        "sys.stderr.buffer.write(done.stderr[-2000:])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *case.command],
        cwd=case.folder,
        capture_output=True,
        text=True,
        check=True,
    )
    status, seconds, peak = done.stdout.split()
    if int(status):
        raise SystemExit(f"{case.name} failed:\n{done.stderr}")
    if not any(pathlib.Path(output).parent.glob("*")):
        raise SystemExit(f"{case.name} wrote nothing.")
    return float(seconds), float(peak)


def count_records(folder: pathlib.Path) -> int:
    """Count the records of the files in a folder, without TensorFlow."""
    count = 0
    for path in folder.glob("x*"):
        if path.suffix in (".json", ".md", ".png"):
            continue
        with open(path, "rb") as stream:
            while head := stream.read(12):
                stream.seek(int.from_bytes(head[:8], "little") + 4, 1)
                count += 1
    return count


def run(settings: BenchmarkOptions) -> None:
    """Run all programs in turn and print a table."""
    megabytes = os.path.getsize(settings.input_file) / 1e6
    print(f"{megabytes:.1f} MB of text, medians of {settings.rounds} rounds\n")
    print("| S | passes | program | s | MB/s | records/s | peak MiB | speed |")
    print("| ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: |")
    for length in map(int, settings.max_seq_lengths.split(",")):
        for passes in map(int, settings.dupe_factors.split(",")):
            _compare(settings, length, passes, megabytes)


def _compare(
    settings: BenchmarkOptions, length: int, passes: int, megabytes: float
) -> None:
    results: dict[str, list[tuple[float, float]]] = {}
    counts: dict[str, int] = {}
    for _ in range(settings.rounds):
        with tempfile.TemporaryDirectory() as place:
            names = [
                case.name for case in make_cases(settings, length, passes, "")
            ]
            for index, name in enumerate(names):
                folder = pathlib.Path(place, str(index))
                folder.mkdir()
                output = str(folder / "x")
                case = make_cases(settings, length, passes, output)[index]
                results.setdefault(name, []).append(run_once(case, output))
                counts[name] = count_records(folder)
    medians = {
        name: [statistics.median(column) for column in zip(*rows, strict=True)]
        for name, rows in results.items()
    }
    slowest = max(seconds for seconds, _ in medians.values())
    for name, (seconds, peak) in medians.items():
        print(
            f"| {length} | {passes} | {name} | {seconds:.2f} | "
            f"{megabytes / seconds:.2f} | {counts[name] / seconds:,.0f} | "
            f"{peak:.0f} | {slowest / seconds:.1f}x |",
            flush=True,
        )


if __name__ == "__main__":
    options.run_script(run, BenchmarkOptions)
