"""The features of each kind of record: names, shapes and types.

The writers encode by these layouts (`tfrecord.encode_batch`) and training
parses by them (`parsing.parse`).
"""

import dataclasses
from typing import Literal

from albert_tf.data import marks

# `next_sentence_labels` of a record without a sentence-order label. The
# original takes it too: its one-hot vector is all zeros, so is the loss.
NO_LABEL = -1
# How the names of a teacher's outputs begin in the records of a student.
TEACHER = "teacher_"
# Outputs with a number for each token of a record.
TOKEN_OUTPUTS = (
    *("start_logits", "end_logits"),
    *("start_log_probs", "end_log_probs"),
)


@dataclasses.dataclass(frozen=True)
class Feature:
    """One entry of a record.

    Attributes:
        name: The key in the `tf.train.Example`.
        shape: `()` for one number, `(n,)` for exactly n of them.
        dtype: How the numbers are stored. `parse` returns int64 as int32.
        padding: For a feature with a number for each token: what padding has.
            Records may leave out the padding at the end. None: they hold all
            numbers of the shape.
        low, high: The smallest and the largest number that parsing lets pass.
            Default: those of int32.
        missing: Each number of a record without the feature, which parsing
            adds. None: it is refused.
    """

    name: str
    shape: tuple[int, ...]
    dtype: Literal["int64", "float32"]
    padding: int | None = None
    # Not in `repr`, which tells feature files apart.
    low: int = dataclasses.field(default=-(2**31), repr=False)
    high: int = dataclasses.field(default=2**31 - 1, repr=False)
    missing: int | None = dataclasses.field(default=None, repr=False)


Layout = tuple[Feature, ...]

# Kinds of records to pretrain on: `pretraining_layout` and `passage_layout`.
KINDS = ("instances", "passages")

# The original's weights are 0 and 1; other programs' are not far above.
_MAX_WEIGHT = 100


def _flag(
    name: str, shape: tuple[int, ...], padding: int | None = None
) -> Feature:
    """Return a feature of zeros and ones."""
    return Feature(name, shape, "int64", padding, 0, 1)


def sequences(shape: tuple[int, ...]) -> Layout:
    """Return the inputs of a model, padded with 0."""
    return (
        Feature("input_ids", shape, "int64", 0),
        _flag("input_mask", shape, 0),
        Feature("segment_ids", shape, "int64", 0),
    )


# 0 for examples that only fill up the last batch.
REAL = _flag("is_real_example", ())


def _position(name: str, shape: tuple[int, ...], length: int) -> Feature:
    return Feature(name, shape, "int64", None, 0, length - 1)


def for_model(layout: Layout, vocab_size: int, type_vocab_size: int) -> Layout:
    """Return the layout with the ids of a model as the only allowed ones."""
    sizes = {
        "input_ids": vocab_size,
        "tokens": vocab_size,
        "masked_lm_ids": vocab_size,
        "segment_ids": type_vocab_size,
    }
    return tuple(
        dataclasses.replace(feature, low=0, high=sizes[feature.name] - 1)
        if feature.name in sizes
        else feature
        for feature in layout
    )


def pretraining_layout(
    max_seq_length: int, max_predictions_per_seq: int
) -> Layout:
    """Return the features of a pretraining record.

    Source: the original's create_pretraining_data.write_instance_to_example_
    files; the names are kept so that either program reads the other's files.

    Args:
        max_seq_length: Tokens of a sequence, S, special ones included.
        max_predictions_per_seq: Length P of the prediction lists. Records made
            with `--do_permutation` hold twice the number given to the writer.

    Returns:
        `input_ids` [S], pieces after masking, padded with 0;
        `input_mask` [S], 1 for real tokens, 0 for padding;
        `segment_ids` [S], 0 up to the first [SEP], 1 after it, 0 for padding;
        `token_boundary` [S], 1 where a word starts, padded with 0; no record
        that holds masks needs it;
        `masked_lm_positions` [P], ascending, padded with 0;
        `masked_lm_ids` [P], the hidden pieces, padded with 0;
        `masked_lm_weights` [P], 1.0 for a prediction, 0.0 for padding;
        `next_sentence_labels` [1], the sentence-order label: 0 for segments in
        their order, 1 for exchanged ones (or a random second segment),
        `NO_LABEL` for a single segment, which counts for masked words only.
    """
    sequence, predictions = (max_seq_length,), (max_predictions_per_seq,)
    return (
        Feature("input_ids", sequence, "int64"),
        _flag("input_mask", sequence),
        Feature("segment_ids", sequence, "int64"),
        dataclasses.replace(_flag("token_boundary", sequence), missing=0),
        _position("masked_lm_positions", predictions, max_seq_length),
        Feature("masked_lm_ids", predictions, "int64"),
        Feature(
            "masked_lm_weights", predictions, "float32", None, 0, _MAX_WEIGHT
        ),
        Feature("next_sentence_labels", (1,), "int64", None, NO_LABEL, 1),
    )


def with_padding(layout: Layout) -> Layout:
    """Return the layout of records that hold all padding."""
    return tuple(dataclasses.replace(f, padding=None) for f in layout)


def passage_layout(max_seq_length: int) -> Layout:
    """Return the features of a passage: consecutive sentences of a document.

    Returns:
        `tokens` [S - 2], pieces without [CLS] and [SEP], padded with 0, unless
        passages cross documents, which a [SEP] divides then; `marks` [S - 2],
        bits of `marks`; `document` scalar, a number of the document that the
        first piece belongs to, which follows from its text.
    """
    pieces = (max_seq_length - 2,)
    return (
        Feature("tokens", pieces, "int64", 0),
        Feature("marks", pieces, "int64", 0, 0, 2**marks.BITS - 1),
        Feature("document", (), "int64", None, 0),
    )


def mask_layout(max_seq_length: int, num_predictions: int) -> Layout:
    """Return the features of `pretraining_layout` that masking decides."""
    return tuple(
        feature
        for feature in pretraining_layout(max_seq_length, num_predictions)
        if feature.name == "input_ids" or feature.name.startswith("masked_lm_")
    )


def without_masks(layout: Layout) -> Layout:
    """Return the layout of records that training masks by itself."""
    return tuple(
        dataclasses.replace(feature, missing=None)
        for feature in layout
        if not feature.name.startswith("masked_lm_")
    )


def classification_layout(
    max_seq_length: int, *, num_labels: int = 2**31, regression: bool = False
) -> Layout:
    """Return the features of a classification or regression record.

    Source: the original's classifier_utils.file_based_convert_examples_to_
    features.

    Returns:
        `input_ids`, `input_mask`, `segment_ids` [S], padded with 0;
        `label_ids` scalar; `is_real_example` scalar, 0 for examples that only
        fill up the last batch.
    """
    return (
        *sequences((max_seq_length,)),
        Feature("label_ids", (), "float32")
        if regression
        else Feature("label_ids", (), "int64", None, 0, num_labels - 1),
        REAL,
    )


def with_labels(layout: Layout, num_labels: int) -> Layout:
    """Return the layout of multi-label records: `label_ids` 0 or 1 [labels]."""
    return tuple(
        _flag(feature.name, (num_labels,))
        if feature.name == "label_ids"
        else feature
        for feature in layout
    )


def choice_layout(max_seq_length: int, num_options: int) -> Layout:
    """Return the features of a question with options.

    The sequences lie one behind the other, as in the original; a batch has
    them as [questions, options, S].
    """
    return (
        *sequences((num_options, max_seq_length)),
        Feature("label_ids", (), "int64", None, 0, num_options - 1),
        REAL,
    )
