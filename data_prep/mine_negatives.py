r"""Make triplets from pairs: find texts that are close, but not the answer.

    python -m data_prep.mine_negatives --train_file=pairs.jsonl \
        --teacher=albert_small_en --output_file=triplets.jsonl
    python -m albert_tf.run_embeddings --train_examples=triplets \
        --train_file=triplets.jsonl ...

The negatives are second texts of other pairs. After an interruption the same
command asks the teacher for what is missing: docs/embeddings.md.
"""

import os
import sys

if not __package__:  # Run by its path: find the packages beside this folder.
    sys.path.insert(0, os.path.dirname(os.path.dirname(__file__)))

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import logging

from albert_tf.common import (
    errors,
    files,
    imports,
    options,
    outputs,
    progress,
    rows,
    shared_options,
    strict_json,
)
from albert_tf.common.options import checked, option, shown
from albert_tf.finetuning import packing
from albert_tf.tasks.embedding import data, negatives, task

teacher_signal = imports.later("albert_tf.finetuning.teacher_signal")
teacher_vectors = imports.later("albert_tf.finetuning.teacher_vectors")


@dataclasses.dataclass(frozen=True)
@checked
@shown(
    Model="teacher teacher_vectors max_seq_length",
    Data="train_file",
    Output="output_file",
)
class MiningOptions:
    """Options of the script."""

    train_file: str = option(
        help="TSV, CSV or JSON lines with text and text_pair."
    )
    output_file: str = option(
        help="JSON lines to write, with text, positive and negative."
    )
    teacher: str | None = option(
        None,
        "The model whose vectors say what is close: any that --teacher of "
        "distill takes.",
    )
    teacher_vectors: str | None = option(
        None,
        "In place of --teacher: NumPy files with a row for each text of "
        "--train_file, in order: both of the first pair, of the second, ...",
    )
    max_seq_length: int = shared_options.max_seq_length(
        "longer is cut; a run and a SavedModel have their own"
    )
    chosen: negatives.NegativeOptions = negatives.NegativeOptions()

    def __post_init__(self) -> None:
        if bool(self.teacher) == bool(self.teacher_vectors):
            raise errors.UserError(
                "`teacher` and `teacher_vectors`: exactly one of the two is "
                "needed, to say which texts are close."
            )
        if self.output_file.lower().endswith((".tsv", ".csv", rows.PARQUET)):
            raise errors.UserError(
                f"`output_file={self.output_file}` would be read as a table, "
                "but has JSON lines. Use a name such as triplets.jsonl."
            )


def run(settings: MiningOptions) -> None:
    path, output = settings.train_file, settings.output_file
    outputs.check(settings, "output_file", [output])
    items = data.read(files.require_file(path, "train_file"), data.PAIRS)
    pairs = [example.texts for example in rows.raise_bad_lines(items)]
    _check(pairs, settings)
    files.make_folder(os.path.dirname(output), "output_file")
    texts = [text for pair in pairs for text in pair]
    if settings.teacher:
        texts = [*dict.fromkeys(texts)]  # Each is asked once.
    mined = negatives.mine(
        pairs, texts, _vectors(settings, texts), settings.chosen
    )
    counts = []
    with (
        progress.Progress("mining", len(pairs), "pairs") as bar,
        files.replace_atomically(output) as stream,
    ):
        for (first, second), others in zip(pairs, mined, strict=True):
            triplet = {"text": first, "positive": second}
            for other in others:
                line = {**triplet, "negative": other}
                text = strict_json.dumps(line, ensure_ascii=False) + "\n"
                stream.write(text.encode())
            counts.append(len(others))
            bar.update(len(counts))
        _report(counts, settings)


def _check(pairs: Sequence[tuple[str, ...]], settings: MiningOptions) -> None:
    rows.require_examples(pairs, settings.train_file)
    there, chosen = len({second for _, second in pairs}), settings.chosen
    needed = 1 + chosen.skip_ranks + chosen.negatives
    if there < needed:
        raise errors.UserError(
            f"`train_file={settings.train_file}` has {there} different texts "
            f"as `text_pair`; `negatives={chosen.negatives}` after "
            f"`skip_ranks={chosen.skip_ranks}`, beside the answer, need "
            f"{needed}. Give more pairs, or ask for fewer negatives."
        )


def _vectors(settings: MiningOptions, texts: Sequence[str]) -> np.ndarray:
    """Return the vectors of texts, float32 [texts, width], of length 1."""
    vectors, teacher = None, teacher_signal.VectorInfo(0)
    if settings.teacher_vectors:
        vectors = teacher_vectors.FileVectors(settings.teacher_vectors)
    else:
        teacher = teacher_signal.describe_vectors(settings.teacher)
    tokenizer: Any = None  # The teacher has one.
    asked = task.EmbeddingTask(
        tokenizer,
        settings.max_seq_length,
        task.EmbeddingOptions(train_examples=data.TEXTS),
        task.VectorFacts(
            text_pooling=teacher.text_pooling,
            projection_size=teacher.projection_size,
        ),
    )
    examples = [packing.TextExample(n, (t,)) for n, t in enumerate(texts)]
    signal = teacher_signal.TeacherSignal(
        settings.teacher, lambda hard, _: hard, vectors=vectors
    )
    signal.prepare(asked, examples)
    # They stay beside the output, for another start.
    folder = os.path.dirname(settings.output_file)
    targets = signal.outputs(examples, folder)
    (name,) = targets.names
    return np.concatenate([part[name] for part in targets.parts()])


def _report(counts: Sequence[int], settings: MiningOptions) -> None:
    chosen, none = settings.chosen, counts.count(0)
    if none == len(counts):
        raise errors.UserError(
            f"`train_file={settings.train_file}`: none of {none} pairs has a "
            f"negative within `max_share={chosen.max_share}` after "
            f"`skip_ranks={chosen.skip_ranks}`. Allow more, or name another "
            "model."
        )
    logging.info("Wrote %d triplets of %d pairs.", sum(counts), len(counts))
    if short := sum(count < chosen.negatives for count in counts):
        logging.warning(
            "%d pairs have fewer than `negatives=%d` within the share; %d of "
            "them have none and are left out.",
            short,
            chosen.negatives,
            none,
        )


if __name__ == "__main__":
    options.run_script(run, MiningOptions)
