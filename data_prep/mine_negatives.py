r"""Make triplets from pairs: find texts that are close, but not the answer.

    python -m data_prep.mine_negatives --train_file=pairs.jsonl \
        --teacher=albert_small_en --output_file=triplets.jsonl
    python -m albert_tf.run_embeddings --train_examples=triplets \
        --train_file=triplets.jsonl ...

The pairs are those that run_embeddings learns. The negatives of a pair are the
nearest second texts of other pairs. The output has JSON lines with text,
positive and negative, in the order of the pairs; a pair without negatives has
none. Started again after an interruption, the command asks the teacher for what
is missing: docs/embeddings.md.
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
    Output="output_file cached_dir",
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
        "The model whose vectors say what is close: a run of run_embeddings or "
        "distill, a checkpoint with config and vocabulary beside it, such as a "
        "folder of sentence-transformers, a SavedModel of vectors, or a folder "
        "teacher-embedding-... of an earlier start.",
    )
    teacher_vectors: str | None = option(
        None,
        "In place of --teacher: NumPy files with a row for each text of "
        "--train_file, in order: text and text_pair of the first pair, of the "
        "second, and so on.",
    )
    max_seq_length: int = shared_options.max_seq_length(
        "longer is cut; a run and a SavedModel have their own"
    )
    cached_dir: str | None = option(
        None,
        "Folder in which the teacher's vectors stay, for other starts. "
        "Default: that of --output_file.",
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
    read = data.read(files.require_file(path, "train_file"), data.PAIRS)
    examples = list(rows.raise_bad_lines(read))
    rows.require_examples(examples, path)
    pairs = [example.texts for example in examples]
    candidates = [*dict.fromkeys(second for _, second in pairs)]
    settings.chosen.require_texts(len(candidates), path)
    files.make_folder(os.path.dirname(output), "output_file")
    texts = [text for pair in pairs for text in pair]
    if settings.teacher:
        texts = [*dict.fromkeys(texts)]  # Each is asked once.
    vectors, numbers = _vectors(settings, texts), {}
    for number, text in enumerate(texts):
        numbers.setdefault(text, number)
    mined = negatives.mine(
        pairs,
        candidates,
        vectors[[numbers[first] for first, _ in pairs]],
        vectors[[numbers[text] for text in candidates]],
        settings.chosen,
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
        _report(np.array(counts), settings)


def _vectors(settings: MiningOptions, texts: Sequence[str]) -> np.ndarray:
    """Return the vectors of texts, float32 [texts, width], of length 1."""
    given, teacher = None, teacher_signal.VectorInfo(0)
    if settings.teacher:
        teacher = teacher_signal.describe_vectors(settings.teacher)
    else:
        given = teacher_vectors.FileVectors(settings.teacher_vectors)
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
        settings.teacher, lambda hard, _: hard, vectors=given
    )
    signal.prepare(asked, examples)
    folder = settings.cached_dir or os.path.dirname(settings.output_file)
    targets = signal.outputs(examples, folder)
    (name,) = targets.names
    return np.concatenate([part[name] for part in targets.parts()])


def _report(counts: np.ndarray, settings: MiningOptions) -> None:
    chosen = settings.chosen
    none = int((counts == 0).sum())
    short = int((counts < chosen.negatives).sum()) - none
    limits = f"`max_share={chosen.max_share}`, `skip_ranks={chosen.skip_ranks}`"
    if none == len(counts):
        raise errors.UserError(
            f"`train_file={settings.train_file}`: none of {none} pairs has a "
            f"negative within {limits}. Allow more, or name another model."
        )
    logging.info(
        "Wrote %s: %d triplets of %d pairs.",
        settings.output_file,
        counts.sum(),
        len(counts) - none,
    )
    if none or short:
        logging.warning(
            "Within %s, %d of %d pairs have no negative and are left out; %d "
            "have fewer than `negatives=%d`.",
            limits,
            none,
            len(counts),
            short,
            chosen.negatives,
        )


if __name__ == "__main__":
    options.run_script(run, MiningOptions)
