"""Rows of several instances: what is in them, and that nothing is lost."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data import drawing, masking, packed_rows
from tests.albert_tf.data import short_records

COUNT = 40
PACKING = packed_rows.Packing(short_records.LAYOUT)


def plan(tokens, predictions, max_tokens=128, max_predictions=20):
    found = packed_rows.pack_rows(
        np.array(tokens), np.array(predictions), max_tokens, max_predictions
    )
    assert found.shape[1] == packed_rows.MAX_INSTANCES
    count = len(tokens)
    return [[n for n in row if n < count] for row in found.tolist()]


@pytest.mark.parametrize(
    ("tokens", "predictions", "rows"),
    [
        # The longest comes first and goes where least room is.
        ([60, 128, 50, 70, 8], [0] * 5, [[1], [3, 2, 4], [0]]),
        # A row of 100 has 28 left, one of 90 has 38.
        ([100, 90, 28, 38], [0] * 4, [[0, 2], [1, 3]]),
        ([64] * 5, [0] * 5, [[0, 1], [2, 3], [4]]),  # In their order.
        # No more predictions than in a record, no more than the places.
        ([50, 40, 30], [10, 11, 10], [[0, 2], [1]]),
        # The row with most room has no predictions left.
        ([70, 68, 59, 40], [15, 0, 0, 10], [[0], [1, 2], [3]]),
        ([4] * 20, [0] * 20, [[*range(16)], [*range(16, 20)]]),
    ],
)
def test_a_row_holds_what_fits(tokens, predictions, rows):
    assert plan(tokens, predictions) == rows


def test_every_instance_is_in_one_row_that_holds_it():
    generator = np.random.default_rng(1)
    tokens = generator.integers(4, 129, 200)
    predictions = np.minimum(20, np.rint(tokens * 0.15).astype(int))
    found = plan(tokens, predictions)
    assert sorted(sum(found, [])) == list(range(200))
    for row in found:
        assert tokens[row].sum() <= 128 and predictions[row].sum() <= 20
    # The rows could not be fewer than this; best fit comes near.
    assert len(found) <= 1.1 * np.ceil(tokens.sum() / 128)


def rows_of(records, packing=PACKING):
    """The rows of some records, string [rows, K]."""
    encoded = short_records.encode(records, packing.layout)
    dataset = tf.data.Dataset.from_tensor_slices(encoded)
    return tf.stack(list(packing.pack(dataset)))


def by_number(instances):
    return sorted(instances, key=lambda values: values["input_ids"][1])


def assert_same(found, expected):
    assert len(found) == len(expected)
    for ours, theirs in zip(by_number(found), by_number(expected), strict=True):
        for name, value in ours.items():
            np.testing.assert_array_equal(value, theirs[name], err_msg=name)


def test_joined_instances_are_those_of_the_records():
    records = short_records.make(COUNT)
    joined = packed_rows.join(rows_of(records), PACKING.layout)
    batch = {name: value.numpy() for name, value in joined.items()}
    assert_same(short_records.unpack(batch), records)
    used = (batch["instance_ids"] > 0).mean()
    alone = np.mean([r["input_mask"].mean() for r in records])
    assert used > 0.85 > 0.7 > alone
    # What is no instance is marked.
    padding = batch["instance_ids"] == 0
    for name in ("input_ids", "segment_ids", "position_ids"):
        assert not batch[name][padding].any()
    absent = np.arange(packed_rows.MAX_INSTANCES) >= batch["instance_ids"].max(
        1, keepdims=True
    )
    assert absent.any() and not batch["cls_positions"][absent].any()
    assert (batch["next_sentence_labels"][absent] == -1).all()
    no_word = batch["masked_lm_weights"] == 0
    assert not batch["masked_lm_positions"][no_word].any()
    assert batch["is_real_example"].tolist() == [1] * len(batch["input_ids"])


def test_each_instance_is_masked_by_a_number_of_its_own():
    rows, numbers = rows_of(short_records.make(COUNT)), []

    def mask(batch, found):
        numbers.extend(found.numpy().tolist())
        return batch

    packed_rows.join(rows, PACKING.layout, mask)
    assert len(set(numbers)) == len(numbers) == COUNT


def test_rows_have_room_for_the_masks_of_training():
    """The masker says how many pieces it hides at most."""
    masker = masking.Masker(
        masking.MaskingOptions(max_predictions_per_seq=2),
        masking.Vocabulary(60, 2, 3, 4, np.zeros(0, np.uint8)),
    )
    masks = drawing.Masks(masker, short_records.LENGTH)
    packing = packed_rows.Packing(short_records.UNMASKED, masks)
    rows = rows_of(short_records.make(COUNT), packing)
    instances = tf.math.count_nonzero(rows != "", 1).numpy()
    # Each hides a piece at least.
    assert instances.max() == 2 and instances.sum() == COUNT
