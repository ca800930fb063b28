r"""Make triplets from pairs: find texts that are close, but not the answer.

    python -m data_prep.mine_negatives --train_file=pairs.jsonl \
        --teacher=albert_small_en --output_file=triplets.jsonl
    python -m albert_tf.run_embeddings --train_examples=triplets \
        --train_file=triplets.jsonl ...

The negatives are second texts of other pairs. After an interruption the same
command asks the teacher for what is missing, and mines from the start:
docs/retrieval.md.

Source: de Souza P. Moreira et al., arXiv 2407.15831 (NV-Retriever), section 3,
positive-aware mining by a share of the positive's score.
"""

import os
import sys

if not __package__:  # Run by its path: find the packages beside this folder.
    sys.path.insert(0, os.path.dirname(os.path.dirname(__file__)))

import dataclasses
from collections.abc import Iterator, Sequence
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
    prompts,
    ranges,
    rows,
    shared_options,
    strict_json,
)
from albert_tf.common.options import checked, option, shown
from albert_tf.finetuning import packing
from albert_tf.tasks.embedding import data, retrieval, task

teacher_signal = imports.later("albert_tf.finetuning.teacher_signal")
teacher_vectors = imports.later("albert_tf.finetuning.teacher_vectors")


@dataclasses.dataclass(frozen=True)
@checked
@shown(
    Model="teacher teacher_vectors query_prompt passage_prompt max_seq_length",
    Data="train_file negatives max_share skip_ranks draw_from random_seed",
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
    query_prompt: str | None = option(
        None,
        "The name of the teacher's prompt before `text`; empty: none. Default: "
        "the teacher's default.",
        needs="teacher",
    )
    passage_prompt: str | None = option(
        None, "The same before `text_pair`.", needs="teacher"
    )
    max_seq_length: int = shared_options.max_seq_length(
        "longer is cut; a run and a SavedModel have their own"
    )
    negatives: int = option(
        1, "Negatives of each pair, at most.", within=ranges.Range(1, 1000)
    )
    max_share: float = option(
        0.95,
        "The largest cosine of a negative, as a share of the positive's. What "
        "is closer is often an answer that nobody marked.",
        within=ranges.Range(above=0, high=1),
    )
    skip_ranks: int = option(
        0,
        "Leave out so many of the nearest texts that are no answers.",
        within=ranges.Range(0, 10**6),
    )
    draw_from: int | None = option(
        None,
        "Draw them at random from so many of the nearest that are left. "
        "Default: take the nearest.",
        within=ranges.Range(1, 10**6),
    )
    random_seed: int = option(
        12345, "For --draw_from.", within=ranges.WRITER_SEED
    )

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
        if self.draw_from and self.draw_from < self.negatives:
            raise errors.UserError(
                f"`draw_from={self.draw_from}` is less than "
                f"`negatives={self.negatives}`. Draw from at least as many."
            )


def mine(
    pairs: Sequence[tuple[str, ...]],
    texts: Sequence[str],
    vectors: np.ndarray,
    options: MiningOptions,
    before: Sequence[str] = ("", ""),
) -> Iterator[list[str]]:
    """Yield the negatives of each pair, the nearest first; there may be none.

    They are second texts, but not equal to the first one, not in a pair with a
    text that equals it, and less close than the positive.

    Args:
        texts: Those of all pairs; the vectors are theirs.
        vectors: float [texts, width], of length 1.
        before: What stands in `texts` before first and second ones.
    """
    row_of = {text: row for row, text in enumerate(texts)}
    candidates = [*dict.fromkeys(second for _, second in pairs)]
    numbers = {text: number for number, text in enumerate(candidates)}
    excluded: dict[str, list[int]] = {}
    for both in pairs:  # Either text may be the first one elsewhere.
        partners = [numbers[text] for text in both if text in numbers]
        for text in both:
            excluded.setdefault(text, []).extend(partners)
    cosines = retrieval.cosines(
        vectors[[row_of[before[0] + first] for first, _ in pairs]],
        vectors[[row_of[before[1] + text] for text in candidates]],
    )
    for pair, (row, (first, second)) in enumerate(
        zip(cosines, pairs, strict=True)
    ):
        positive = row[numbers[second]]
        row[excluded[first]] = -np.inf
        is_above = (row > options.max_share * positive) | (row >= positive)
        skipped = max(0, options.skip_ranks - int(is_above.sum()))
        row[is_above] = -np.inf
        most = skipped + (options.draw_from or options.negatives)
        best = np.argpartition(-row, min(most, len(row)) - 1)[:most]
        best = best[np.lexsort((best, -row[best]))][skipped:]
        best = best[row[best] > -np.inf]
        if options.draw_from:
            random = np.random.default_rng([options.random_seed, pair])
            drawn = random.permutation(len(best))[: options.negatives]
            best = best[np.sort(drawn)]
        yield [candidates[number] for number in best]


def run(settings: MiningOptions) -> None:
    path, output = settings.train_file, settings.output_file
    outputs.check(settings, "output_file", [output])
    items = data.read(files.require_file(path, "train_file"), data.PAIRS)
    pairs = [example.texts for example in rows.raise_bad_lines(items)]
    _check(pairs, settings)
    files.make_folder(os.path.dirname(output), "output_file")
    teacher = None
    before = "", ""
    if settings.teacher:
        teacher = teacher_signal.describe_vectors(settings.teacher)
        before = _prompts(settings, teacher.prompting)
    texts = [p + t for pair in pairs for p, t in zip(before, pair, strict=True)]
    if teacher:
        texts = [*dict.fromkeys(texts)]  # Each is asked once.
    vectors = _vectors(settings, texts, teacher)
    pairs = [*dict.fromkeys(pairs)]
    mined = mine(pairs, texts, vectors, settings, before)
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
    blank = [
        n for n, pair in enumerate(pairs, 1) if not all(map(str.strip, pair))
    ]
    if blank:
        raise errors.UserError(
            f"`train_file={settings.train_file}`: a text of example {blank[0]} "
            f"is empty; {len(blank)} examples are like that. Leave them out."
        )
    there = len({second for _, second in pairs})
    needed = 1 + settings.skip_ranks + settings.negatives
    if there < needed:
        raise errors.UserError(
            f"`train_file={settings.train_file}` has {there} different texts "
            f"as `text_pair`; `negatives={settings.negatives}` after "
            f"`skip_ranks={settings.skip_ranks}`, beside the answer, need "
            f"{needed}. Give more pairs, or ask for fewer negatives."
        )


def _prompts(
    settings: MiningOptions, known: prompts.PromptOptions
) -> tuple[str, str]:
    """Return what the teacher reads before queries and passages."""
    names = settings.query_prompt, settings.passage_prompt
    if None in names:
        prompts.warn(known, "Name `query_prompt` and `passage_prompt`.")
    query, passage = (
        prompts.PromptOptions(None, name).with_defaults(
            known.prompts, known.prompt
        )
        for name in names
    )
    return query.before, passage.before


def _vectors(
    settings: MiningOptions,
    texts: Sequence[str],
    teacher: Any,
) -> np.ndarray:
    """Return the vectors of texts, float32 [texts, width], of length 1.

    `teacher` is a `teacher_signal.VectorInfo`; None for vectors in files.
    """
    vectors = None
    if settings.teacher_vectors:
        vectors = teacher_vectors.FileVectors(settings.teacher_vectors)
    teacher = teacher or teacher_signal.VectorInfo(0)
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
    none = counts.count(0)
    if none == len(counts):
        raise errors.UserError(
            f"`train_file={settings.train_file}`: none of {none} pairs has a "
            f"negative within `max_share={settings.max_share}` after "
            f"`skip_ranks={settings.skip_ranks}`. Allow more, or name another "
            "model."
        )
    logging.info("Wrote %d triplets of %d pairs.", sum(counts), len(counts))
    if short := sum(count < settings.negatives for count in counts):
        logging.warning(
            "%d pairs have fewer than `negatives=%d` within the share; %d of "
            "them have none and are left out.",
            short,
            settings.negatives,
            none,
        )


if __name__ == "__main__":
    options.run_script(run, MiningOptions)
