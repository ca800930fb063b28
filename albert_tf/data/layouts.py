"""The features of each kind of record: names, shapes and types.

The writers encode by these layouts (`tfrecord.encode_batch`) and training
parses by them (`parsing.parse`).
"""

import dataclasses
from typing import Literal

# `next_sentence_labels` of a record without a sentence-order label. The
# original takes it too: its one-hot vector is all zeros, so is the loss.
NO_LABEL = -1


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
    """

    name: str
    shape: tuple[int, ...]
    dtype: Literal["int64", "float32"]
    padding: int | None = None


Layout = tuple[Feature, ...]


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
        `token_boundary` [S], 1 where a word starts, padded with 0;
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
        Feature("input_mask", sequence, "int64"),
        Feature("segment_ids", sequence, "int64"),
        Feature("token_boundary", sequence, "int64"),
        Feature("masked_lm_positions", predictions, "int64"),
        Feature("masked_lm_ids", predictions, "int64"),
        Feature("masked_lm_weights", predictions, "float32"),
        Feature("next_sentence_labels", (1,), "int64"),
    )


def with_padding(layout: Layout) -> Layout:
    """Return the layout of records that hold all padding."""
    return tuple(dataclasses.replace(f, padding=None) for f in layout)


def without_masks(layout: Layout) -> Layout:
    """Return the layout of records that training masks by itself."""
    return tuple(f for f in layout if not f.name.startswith("masked_lm_"))


def classification_layout(
    max_seq_length: int, *, regression: bool = False
) -> Layout:
    """Return the features of a classification or regression record.

    Source: the original's classifier_utils.file_based_convert_examples_to_
    features.

    Returns:
        `input_ids`, `input_mask`, `segment_ids` [S], padded with 0;
        `label_ids` scalar; `is_real_example` scalar, 0 for examples that only
        fill up the last batch.
    """
    sequence = (max_seq_length,)
    return (
        Feature("input_ids", sequence, "int64", 0),
        Feature("input_mask", sequence, "int64", 0),
        Feature("segment_ids", sequence, "int64", 0),
        Feature("label_ids", (), "float32" if regression else "int64"),
        Feature("is_real_example", (), "int64"),
    )


def squad_layout(max_seq_length: int, *, is_training: bool) -> Layout:
    """Return the features of a window over a paragraph.

    Source: the original's squad_utils.FeatureWriter.

    Returns:
        `unique_ids` scalar, counts the windows from 1,000,000,000 on;
        `input_ids`, `input_mask`, `segment_ids` [S], padded with 0;
        `p_mask` [S], 1 where no answer may begin or end: question, markers but
        [CLS], padding; in training also the scalars `start_positions`,
        `end_positions`, positions of the answer's first and last piece, 0 where
        the window holds none, and `is_impossible`, 1 for these windows.
    """
    sequence = (max_seq_length,)
    features = [
        Feature("unique_ids", (), "int64"),
        Feature("input_ids", sequence, "int64", 0),
        Feature("input_mask", sequence, "int64", 0),
        Feature("segment_ids", sequence, "int64", 0),
        Feature("p_mask", sequence, "int64", 1),
    ]
    if is_training:
        features += [
            Feature("start_positions", (), "int64"),
            Feature("end_positions", (), "int64"),
            Feature("is_impossible", (), "int64"),
        ]
    return tuple(features)
