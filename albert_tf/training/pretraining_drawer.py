"""What draws the examples of a pretraining from its records."""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from albert_tf.common import errors
from albert_tf.data import (
    arrangements,
    drawing,
    examples,
    marks,
    masking,
    passages,
    permutation,
    span_corruption,
    tfrecord,
)
from albert_tf.text import tokenization
from albert_tf.training import pretraining_options

# Passages of each file that are searched for markers and documents.
_LOOKED_AT = 1000
# The drawer of each `--objective` that has one of its own; see `Masks`.
DRAWERS: Mapping[str, Callable[[masking.Masker, int], drawing.Drawer]] = {
    "plm": permutation.PermutationDrawer,
    "spans": span_corruption.SpanDrawer,
}


def make_drawer(
    recipe: pretraining_options.RecipeOptions,
    masks: masking.MaskingOptions,
    tokenizer: tokenization.AnyTokenizer,
    *,
    records: str,
    max_seq_length: int,
    num_segments: int,
) -> drawing.Drawer:
    """Return what draws masks, and of passages also segments and labels.

    Args:
        records: One of `layouts.KINDS`.
        num_segments: Segment ids of the model.
    """
    if recipe.objective == "spans" and tokenizer.pad_id != 0:
        raise errors.UserError(
            "`objective=spans` needs a vocabulary whose id 0 is padding; here "
            f"it is {tokenizer.pieces[0]!r}. Choose records of another "
            "vocabulary, or another objective."
        )
    vocabulary = masking.Vocabulary(
        tokenizer.vocab_size,
        tokenizer.cls_id,
        tokenizer.sep_id,
        tokenizer.mask_id,
        np.zeros(0, np.uint8),  # The records say where words start.
    )
    masker = masking.Masker(masks, vocabulary)
    drawer = DRAWERS.get(recipe.objective, drawing.Masks)(
        masker, max_seq_length
    )
    if records == "instances":
        return drawer
    masks_alone = isinstance(drawer, drawing.Masks)
    if not masks_alone:  # It chooses its targets after the segments.
        no_masks = dataclasses.replace(masks, masked_lm_prob=0.0)
        masker = masking.Masker(no_masks, vocabulary)
    tasks = arrangements.parse(recipe.sentence_objective)
    passage_drawer = passages.PassageDrawer(
        drawing.Masks(masker, max_seq_length),
        tasks,
        _count_task_segments(recipe, num_segments),
        recipe.passages.task_shares,
        recipe.passages.levels,
        _encode_markers(recipe, tokenizer),
        recipe.passages.task_embeddings,
    )
    return (
        passage_drawer if masks_alone else drawing.Chain(passage_drawer, drawer)
    )


def _count_task_segments(
    recipe: pretraining_options.RecipeOptions, num_segments: int
) -> int:
    """Return how many segment ids each task of a pretraining has."""
    if not recipe.passages.task_embeddings:
        return num_segments
    num_tasks = len(arrangements.parse(recipe.sentence_objective))
    per_task, remainder = divmod(num_segments, max(1, num_tasks))
    if num_tasks < 2 or per_task < 2 or remainder:
        raise errors.UserError(
            f"`task_embeddings=True` has {num_segments} rows of embeddings for "
            f"segments and {num_tasks} task(s). It is for several tasks of "
            "`sentence_objective`, each with equally many rows, two or more. "
            f"Give the config type_vocab_size={2 * max(2, num_tasks)}, or "
            "leave the option out."
        )
    return per_task


def _encode_markers(
    recipe: pretraining_options.RecipeOptions,
    tokenizer: tokenization.AnyTokenizer,
) -> dict[tuple[int, ...], int]:
    """Return the class of each discourse marker by its ids, longest first."""
    labels: dict[tuple[int, ...], int] = {}
    for label, names in enumerate(recipe.passages.markers):
        for name in names:
            pieces = tuple(tokenizer.encode(name))
            if not pieces or labels.setdefault(pieces, label) != label:
                raise errors.UserError(
                    f"`markers_file={recipe.passages.markers_file}` has "
                    f"{name!r}, whose pieces are none or those of a marker of "
                    "another class. Leave one of them out."
                )
    return dict(sorted(labels.items(), key=lambda item: -len(item[0])))


def _first_passages(paths: Sequence[str]) -> Iterator[dict[str, Any]]:
    for path in paths:
        for record in itertools.islice(tfrecord.read_records(path), _LOOKED_AT):
            yield examples.decode(record)


def check_documents(
    drawer: drawing.Drawer | None, paths: Sequence[str], option: str
) -> None:
    """Refuse tasks about two documents if the first passages are of one."""
    tasks = drawer.tasks if isinstance(drawer, passages.PassageDrawer) else ()
    # The other tasks need no second document.
    pair_tasks = [
        name
        for name in tasks
        if arrangements.ARRANGEMENTS[name].least_sentences > 1
    ]
    if not pair_tasks:
        return
    documents: set[tuple[int, ...]] = set()
    for passage in _first_passages(paths):
        documents.add(tuple(passage["document"]))
        if len(documents) > 1:
            return
    raise errors.UserError(
        f"`sentence_objective` has {pair_tasks[0]}, which needs text of "
        f"several documents in `{option}`, but the first {_LOOKED_AT:,} "
        "passages of each file are of one. Write records of text with empty "
        "lines between documents, or choose another task."
    )


def check_sentences(
    drawer: drawing.Drawer | None, paths: Sequence[str], option: str
) -> None:
    """Refuse first passages that give a task no label, or hold special ids.

    Where all would have the same label there is a warning.
    """
    if isinstance(drawer, drawing.Chain):
        drawer = drawer.first
    if not isinstance(drawer, passages.PassageDrawer):
        return
    most, vocabulary = 0, drawer.masks.masker.vocabulary
    for passage in _first_passages(paths):
        starts = np.array(passage["marks"]) & marks.SENTENCE
        most = max(most, arrangements.count_sentences(starts))
        if {vocabulary.cls_id, vocabulary.mask_id} & {*passage["tokens"]}:
            raise errors.UserError(
                f"`{option}` has a passage with [CLS] or [MASK] among its "
                "pieces. Write the records again, from text alone."
            )
    for name in drawer.tasks:
        task = arrangements.ARRANGEMENTS[name]
        if most >= max(2, task.least_sentences):
            continue
        said = (
            f"`sentence_objective` has {name}, for passages of several "
            f"sentences; the first {_LOOKED_AT:,} of each file of `{option}` "
            f"have {most} at most. Write records of text with one sentence a "
            "line, or choose another task."
        )
        if name != "reordering":  # Its label counts the sentences, too.
            raise errors.UserError(said)
        logging.warning("%s", said)


def check_markers(
    recipe: pretraining_options.RecipeOptions,
    drawer: drawing.Drawer | None,
    paths: Sequence[str],
    option: str,
) -> None:
    """Refuse discourse markers that the first passages do not have."""
    if not isinstance(drawer, passages.PassageDrawer) or not drawer.markers:
        return
    for passage in _first_passages(paths):
        # Zeros at the end may be left out of each.
        pairs = zip(passage["tokens"], passage["marks"], strict=False)
        packed = [id_ << marks.BITS | bits for id_, bits in pairs]
        pieces = np.array(packed, np.int64)
        if arrangements.find_markers(pieces, drawer.markers):
            return
    raise errors.UserError(
        f"`markers_file={recipe.passages.markers_file}` matches nothing in the "
        f"first {_LOOKED_AT:,} passages of each file of `{option}`: no second "
        "or later sentence begins with a marker and goes on. Name markers of "
        "this text."
    )
