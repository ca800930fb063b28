r"""Start exports of one model, each in new processes with one core.

    python -m lab.benchmarks.first_answer served/small/1 served/small_onnx \
        served/small_lite
    python -m lab.benchmarks.first_answer served/squad_onnx \
        --line='{"question": "Who walked?", "context": "Mara and Ivo walked."}'

The exports are SavedModels and folders with answer.py. For each it prints the
bytes of its files, the seconds from the start of a process to its first answer,
the largest memory that this process has held until then, the milliseconds for
one line after it, and the largest difference from the numbers of the first
folder, where both have as many. Medians of all processes; the folders take
turns.
"""

import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import time
from typing import Any

# Of 20 words.
LINE = {
    "text": "Mara gave Ivo the lamp, and they walked along the old harbour "
    "until the last ferry had left for the island."
}
TIMES = 200


def start(folder: str, line: dict[str, Any], began: float) -> dict[str, Any]:
    """Answer in this process; `began` is when it was started."""
    if pathlib.Path(folder, "saved_model.pb").exists():
        import tensorflow as tf
        import tensorflow_text  # noqa: F401 - operations of the tokenizer.

        loaded = tf.saved_model.load(folder)
        function = loaded.signatures["serving_default"]

        def ask() -> dict[str, Any]:
            outputs = function(
                **{name: tf.constant([value]) for name, value in line.items()}
            )
            return {n: v.numpy().tolist()[0] for n, v in outputs.items()}

    else:
        sys.path.insert(0, folder)
        import answer

        model = answer.Model()

        def ask() -> dict[str, Any]:
            return model.answers([line])[0]

    first = ask()
    seconds = time.time() - began
    mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    times = []
    for _ in range(TIMES):
        before = time.perf_counter()
        ask()
        times.append(time.perf_counter() - before)
    numbers = {}
    for name, value in first.items():
        values = value if isinstance(value, list) else [value]
        numbers[name] = [x for x in values if isinstance(x, float)]
    return {
        "s": seconds,
        "mib": mib,
        "ms": 1000 * statistics.median(times),
        "numbers": numbers,
    }


def measure(folder: str, line: str) -> dict[str, Any]:
    """Run `start` in a new process with one core."""
    core = {min(os.sched_getaffinity(0))}
    options = [f"--line={line}", f"--began={time.time()}"]
    done = subprocess.run(
        [sys.executable, __file__, folder, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=True,
        preexec_fn=lambda: os.sched_setaffinity(0, core),
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    return json.loads(done.stdout)


def main() -> None:
    """Measure all folders in turn, or do the work of one process."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folders", nargs="+")
    parser.add_argument(
        "--line",
        default=json.dumps(LINE),
        help="What is asked, as a line of JSON for answer.py: a text of 20 "
        "words if it is not given",
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--began", type=float, help=argparse.SUPPRESS)
    settings = parser.parse_args()
    if settings.began:
        line = json.loads(settings.line)
        print(json.dumps(start(settings.folders[0], line, settings.began)))
        return
    rounds = [
        [measure(folder, settings.line) for folder in settings.folders]
        for _ in range(settings.rounds)
    ]
    print("| | MB on disk | first answer, s | MiB | ms | difference |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for i, folder in enumerate(settings.folders):
        found = [turn[i] for turn in rounds]
        s, mib, ms = (
            statistics.median(each[key] for each in found)
            for key in ("s", "mib", "ms")
        )
        files = (f for f in pathlib.Path(folder).rglob("*") if f.is_file())
        size = sum(f.stat().st_size for f in files) / 1e6
        wanted = rounds[0][0]["numbers"]
        differences = [
            abs(a - b)
            for name, values in found[0]["numbers"].items()
            if name in wanted and len(values) == len(wanted[name])
            for a, b in zip(values, wanted[name], strict=True)
        ]
        far = f"{max(differences):.0e}" if differences else ""
        print(
            f"| {folder} | {size:.1f} | {s:.2f} | {mib:.0f} | {ms:.1f} "
            f"| {far} |"
        )


if __name__ == "__main__":
    main()
