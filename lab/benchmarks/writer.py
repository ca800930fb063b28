r"""Time the writer of pretraining data against others.

    python -m lab.benchmarks.writer --input_file=text.txt \
        --spm_model_file=30k-clean.model

Every program runs as a whole process, in turn, for several rounds. Medians are
printed as a Markdown table, with the peak memory of the largest process. Model
Garden's writer is part of tf-models-official. The original is included if a
checkout of it and a Python that can run it are given. Above the table are the
seconds that albert_tf needs for a few lines.

    python -m lab.benchmarks.writer --input_file=text.txt \
        --spm_model_file=30k-clean.model --scale_megabytes=1000 \
        --max_seq_lengths=512 --dupe_factors=1 --workers=2 --most_mib=150

runs only albert_tf, once, on a text of that size: the input repeated, with
words exchanged. It fails if a process uses more than 150 MiB.
"""

import dataclasses
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile

from albert_tf.common import options, ranges
from albert_tf.common.options import checked, option

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Lines of the input that show how fast the program starts.
_FEW_LINES = 8
# In a generated text one of so many words is another one.
_EXCHANGED = 8


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
    scale_megabytes: int = option(
        0,
        "Run only albert_tf, once, on a generated text of this size; 0: no.",
        within=ranges.Range(0, 1_000_000),
    )
    most_mib: int = option(
        0,
        "With --scale_megabytes: fail if a process uses more memory; 0: any.",
        within=ranges.Range(0, 1_000_000),
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
    """Return the programs to compare; those of albert_tf are the first."""
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


def write_few_lines(source: str, target: str) -> None:
    """Write the first lines of a text."""
    with open(source, encoding="utf-8") as stream:
        lines = [next(stream, "") for _ in range(_FEW_LINES)]
    pathlib.Path(target).write_text("".join(lines), "utf-8")


def write_text(source: str, target: str, size: int) -> None:
    """Write a text of a size: another one, repeated with words exchanged.

    Args:
        source: A text with one sentence per line.
        target: Where to write; the same size gives the same text.
        size: Characters, about.
    """
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


def run(settings: BenchmarkOptions) -> None:
    """Print how fast the programs are.

    Raises:
        SystemExit: A program failed, or used more memory than allowed.
    """
    with tempfile.TemporaryDirectory() as place:
        if settings.scale_megabytes:
            _measure_scale(settings, place)
        else:
            _measure_start(settings, place)
            _compare_all(settings)


def _measure_start(settings: BenchmarkOptions, place: str) -> None:
    text, output = os.path.join(place, "few.txt"), os.path.join(place, "x")
    write_few_lines(settings.input_file, text)
    few = dataclasses.replace(settings, input_file=text, workers="1")
    case = make_cases(few, 128, 1, output)[0]
    seconds = [run_once(case, output)[0] for _ in range(settings.rounds)]
    print(f"{_FEW_LINES} lines: {statistics.median(seconds):.2f} s\n")


def _measure_scale(settings: BenchmarkOptions, place: str) -> None:
    text = os.path.join(place, "text.txt")
    write_text(settings.input_file, text, settings.scale_megabytes * 10**6)
    megabytes = os.path.getsize(text) / 1e6
    print(f"{megabytes:,.0f} MB of generated text, one run each\n")
    print("| S | passes | program | s | MB/s | peak MiB |")
    print("| ---: | ---: | --- | ---: | ---: | ---: |", flush=True)
    large = dataclasses.replace(
        settings, input_file=text, model_garden=False, original_dir=None
    )
    for length in map(int, settings.max_seq_lengths.split(",")):
        for passes in map(int, settings.dupe_factors.split(",")):
            folder = os.path.join(place, "records")
            output = os.path.join(folder, "x")
            for case in make_cases(large, length, passes, output):
                os.mkdir(folder)
                seconds, peak = run_once(case, output)
                shutil.rmtree(folder)
                print(
                    f"| {length} | {passes} | {case.name} | {seconds:.1f} | "
                    f"{megabytes / seconds:.2f} | {peak:.0f} |",
                    flush=True,
                )
                refuse_much_memory(peak, settings.most_mib)


def refuse_much_memory(peak: float, most: int) -> None:
    """Fail if a process used more than `most` MiB; 0 allows everything.

    Raises:
        SystemExit: It did.
    """
    if most and peak > most:
        raise SystemExit(f"{peak:.0f} MiB are more than --most_mib={most}.")


def _compare_all(settings: BenchmarkOptions) -> None:
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
