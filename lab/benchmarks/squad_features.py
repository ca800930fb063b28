"""Time SQuAD features against Hugging Face's fast tokenizer.

    python -m lab.benchmarks.squad_features --input_file=dev-v2.0.json \
        --spm_model_file=30k-clean.model

Both make training features with answer positions in one process and one thread;
this project up to the bytes of the TFRecord file, the other up to lists of
numbers. Each round is a new process; loading modules and the vocabulary is not
counted. Medians are printed as a Markdown table. Hugging Face needs a Python
with transformers, which may be another one.
"""

import collections
import dataclasses
import inspect
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable

from albert_tf.common import errors, options, ranges
from albert_tf.common.options import checked, option

ROOT = pathlib.Path(__file__).resolve().parents[2]


@dataclasses.dataclass(frozen=True)
@checked
class BenchmarkOptions:
    """Options of this benchmark."""

    input_file: str = option(help="SQuAD's JSON file, with answers.")
    spm_model_file: str = option(help="SentencePiece model.")
    rounds: int = option(
        5, "Runs of each program; medians are shown.", within=ranges.RUNS
    )
    max_seq_length: int = option(
        384, "Tokens of a sequence.", within=ranges.TOKENS
    )
    doc_stride: int = option(
        128, "As in run_squad, for both.", within=ranges.TOKENS
    )
    max_query_length: int = option(
        64,
        "For this project only; the other does not truncate.",
        within=ranges.TOKENS,
    )
    huggingface_python: str | None = option(
        sys.executable, "Python with transformers; empty to skip Hugging Face."
    )


def measure_ours(
    input_file: str, vocabulary: str, length: int, stride: int, query: int
) -> None:
    """Print questions, windows and seconds."""
    import time

    from albert_tf.data import layouts, tfrecord
    from albert_tf.finetuning.squad import squad_data, squad_features
    from albert_tf.text import tokenization

    tokenizer = tokenization.Tokenizer(vocabulary)
    settings = squad_features.WindowOptions(stride, query)
    layout = layouts.squad_layout(length, is_training=True)
    begun = time.perf_counter()
    questions, _ = squad_data.read(input_file, "input_file")
    windows = squad_features.make_windows(
        questions, tokenizer, settings, length
    )
    positions = squad_features.find_answers(windows, questions)
    with open(os.devnull, "wb") as stream:
        for values in squad_features.make_features(
            windows, tokenizer, length, positions
        ):
            messages = tfrecord.encode_batch(layout, values)
            stream.write(b"".join(tfrecord.frame_batch(messages)))
    seconds = time.perf_counter() - begun
    print(len(questions), len(windows), seconds)


def measure_huggingface(
    input_file: str, vocabulary: str, length: int, stride: int, query: int
) -> None:
    """Print questions, windows and seconds; runs without this project."""
    import json
    import time

    import transformers

    del query
    transformers.logging.set_verbosity_error()
    # A folder with the model as spiece.model, and a config.json.
    tokenizer = transformers.AutoTokenizer.from_pretrained(vocabulary)
    assert tokenizer.is_fast
    begun = time.perf_counter()
    with open(input_file, encoding="utf-8") as stream:
        content = json.load(stream)
    rows = [
        (entry["question"].strip(), paragraph["context"], entry["answers"])
        for article in content["data"]
        for paragraph in article["paragraphs"]
        for entry in paragraph["qas"]
    ]
    windows = 0
    for first in range(0, len(rows), 1000):
        questions, contexts, answers = zip(
            *rows[first : first + 1000], strict=True
        )
        encoded = tokenizer(
            list(questions),
            list(contexts),
            truncation="only_second",
            max_length=length,
            # The overlap of two windows.
            stride=stride,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
            padding="max_length",
        )
        spans = []
        for index, offsets in enumerate(encoded["offset_mapping"]):
            sequence = encoded.sequence_ids(index)
            begin = sequence.index(1)
            end = len(sequence) - 1 - sequence[::-1].index(1)
            given = answers[encoded["overflow_to_sample_mapping"][index]]
            start = given[0]["answer_start"] if given else -1
            stop = start + len(given[0]["text"]) if given else -1
            if not given or offsets[begin][0] > start or offsets[end][1] < stop:
                spans.append((0, 0))
                continue
            while begin < len(offsets) and offsets[begin][0] <= start:
                begin += 1
            while offsets[end][1] >= stop:
                end -= 1
            spans.append((begin - 1, end + 1))
        windows += len(spans)
    print(len(rows), windows, time.perf_counter() - begun)


def run_once(
    python: str, measure: Callable[..., None], arguments: tuple[str | int, ...]
) -> list[float]:
    """Return questions, windows and seconds of one run in a fresh process.

    Raises:
        errors.UserError: The program failed.
    """
    code = f"import os, sys\n{inspect.getsource(measure)}\n"
    code += f"{measure.__name__}(*{arguments!r})\n"
    done = subprocess.run(
        [python, "-c", code],
        cwd=ROOT,
        env={
            **os.environ,
            "RAYON_NUM_THREADS": "1",
            "TOKENIZERS_PARALLELISM": "false",
            "OMP_NUM_THREADS": "1",
        },
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise errors.UserError(
            f"{measure.__name__} failed with {python}:\n{done.stderr[-2000:]}"
        )
    return [float(number) for number in done.stdout.split()[-3:]]


def run(settings: BenchmarkOptions) -> None:
    """Run the programs in turn and print a table."""
    input_file = os.path.abspath(settings.input_file)
    model = os.path.abspath(settings.spm_model_file)
    lengths = (
        settings.max_seq_length,
        settings.doc_stride,
        settings.max_query_length,
    )
    results = collections.defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(model, os.path.join(folder, "spiece.model"))
        config = pathlib.Path(folder, "config.json")
        config.write_text('{"model_type": "albert"}')
        for _ in range(settings.rounds):
            results["albert_tf"].append(
                run_once(
                    sys.executable, measure_ours, (input_file, model, *lengths)
                )
            )
            if settings.huggingface_python:
                results["Hugging Face, fast tokenizer"].append(
                    run_once(
                        settings.huggingface_python,
                        measure_huggingface,
                        (input_file, folder, *lengths),
                    )
                )
    print(f"medians of {settings.rounds} rounds, one thread\n")
    print("| program | questions | windows | s | questions/s |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name, rows in results.items():
        questions, windows, _ = rows[0]
        seconds = statistics.median(row[2] for row in rows)
        print(
            f"| {name} | {questions:,.0f} | {windows:,.0f} | {seconds:.2f} | "
            f"{questions / seconds:,.0f} |"
        )


if __name__ == "__main__":
    options.run_script(run, BenchmarkOptions)
