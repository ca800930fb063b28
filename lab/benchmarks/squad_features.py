r"""Time SQuAD features against Hugging Face's fast tokenizer.

    python -m lab.benchmarks.squad_features --input_file=dev-v2.0.json \
        --spm_model_file=30k-clean.model

Both make training features with answer positions in one thread; this project up
to the bytes of the TFRecord file, the other up to lists of numbers. A turn is
the whole file; loading modules and the vocabulary is not counted. Questions are
truncated to 64 tokens here, and not there.
"""

import argparse
import json
import os
import pathlib
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from lab.benchmarks import side_by_side

QUESTION = 64
# One thread.
os.environ |= {
    "OMP_NUM_THREADS": "1",
    "RAYON_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


def build_albert_tf(
    settings: argparse.Namespace,
) -> tuple[side_by_side.Turn, str]:
    """Make features with this project."""
    from albert_tf.data import tfrecord
    from albert_tf.tasks.squad import data as squad_data
    from albert_tf.tasks.squad import features as squad_features
    from albert_tf.text import tokenization

    length = settings.max_seq_length
    tokenizer = tokenization.Tokenizer(settings.spm_model_file)
    window = squad_features.PassageWindows(settings.doc_stride, QUESTION)
    layout = squad_features.squad_layout(length, is_training=True)

    def turn() -> float:
        questions = squad_data.read(settings.input_file, "input_file")
        windows = squad_features.make_windows(
            questions, tokenizer, window, length
        )
        positions = squad_features.find_answers(windows, questions)
        with open(os.devnull, "wb") as stream:
            for values in squad_features.make_features(
                windows, tokenizer, length, positions
            ):
                messages = tfrecord.encode_batch(layout, values)
                stream.write(b"".join(tfrecord.frame_batch(messages)))
        return len(questions)

    return turn, "bytes of records"


def find_span(
    offsets: Sequence[tuple[int, int]],
    sequence: Sequence[int | None],
    given: Sequence[Mapping[str, Any]],
) -> tuple[int, int]:
    """Return the tokens of an answer; (0, 0) if the window has none."""
    begin = sequence.index(1)
    end = len(sequence) - 1 - sequence[::-1].index(1)
    start = given[0]["answer_start"] if given else -1
    stop = start + len(given[0]["text"]) if given else -1
    if not given or offsets[begin][0] > start or offsets[end][1] < stop:
        return 0, 0
    while begin < len(offsets) and offsets[begin][0] <= start:
        begin += 1
    while offsets[end][1] >= stop:
        end -= 1
    return begin - 1, end + 1


def build_hugging_face(
    settings: argparse.Namespace,
) -> tuple[side_by_side.Turn, str]:
    """Make features as Hugging Face's example does; without this project."""
    import transformers

    transformers.logging.set_verbosity_error()
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(settings.spm_model_file, f"{folder}/spiece.model")
        config = pathlib.Path(folder, "config.json")
        config.write_text('{"model_type": "albert"}')
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    assert tokenizer.is_fast

    def turn() -> float:
        with open(settings.input_file, encoding="utf-8") as stream:
            content = json.load(stream)
        rows = [
            (entry["question"].strip(), paragraph["context"], entry["answers"])
            for article in content["data"]
            for paragraph in article["paragraphs"]
            for entry in paragraph["qas"]
        ]
        spans = []
        for first in range(0, len(rows), 1000):
            questions, contexts, answers = zip(
                *rows[first : first + 1000], strict=True
            )
            encoded = tokenizer(
                list(questions),
                list(contexts),
                truncation="only_second",
                max_length=settings.max_seq_length,
                # The overlap of two windows.
                stride=settings.doc_stride,
                return_overflowing_tokens=True,
                return_offsets_mapping=True,
                padding="max_length",
            )
            for index, offsets in enumerate(encoded["offset_mapping"]):
                row = encoded["overflow_to_sample_mapping"][index]
                sequence = encoded.sequence_ids(index)
                spans.append(find_span(offsets, sequence, answers[row]))
        return len(rows)

    return turn, "lists of numbers"


BUILDERS = {"albert_tf": build_albert_tf, "hugging_face": build_hugging_face}


def main() -> None:
    """Measure, or be a worker."""
    parser = side_by_side.make_parser(
        __doc__, list(BUILDERS), "hugging_face", rounds=5
    )
    add = parser.add_argument
    add("--input_file", required=True, help="SQuAD's JSON, with answers.")
    add("--spm_model_file", required=True, help="The vocabulary.")
    add("--max_seq_length", type=int, default=384)
    add("--doc_stride", type=int, default=128)
    settings = side_by_side.parse(
        parser, BUILDERS, lambda s: BUILDERS[s.serve](s)
    )
    side_by_side.compare("lab.benchmarks.squad_features", settings, "questions")


if __name__ == "__main__":
    main()
