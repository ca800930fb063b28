"""A batch as rows without padding: the same numbers at real positions."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model import modeling, row_layouts
from tests.conftest import LAYER_ATOL, tiny_config

HEADS = 2
MASK = tf.constant([[1, 1, 0], [1, 1, 1]])


def test_rows_are_real_positions_and_come_back_to_them():
    layout = row_layouts.RowLayout(MASK, HEADS)
    x = tf.reshape(tf.range(1.0, 13), [2, 3, 2])
    rows = layout.pack(x)
    np.testing.assert_array_equal(
        rows, [[1, 2], [3, 4], [7, 8], [9, 10], [11, 12]]
    )
    expected = x.numpy()
    expected[0, 2] = 0
    np.testing.assert_array_equal(layout.unpack(rows), expected)


def test_heads_are_split_and_merged():
    layout = row_layouts.RowLayout(MASK, HEADS)
    size = 4
    rows = tf.reshape(tf.range(5 * 3 * HEADS * size), [5, -1])
    split = tf.reshape(rows, [5, 3, HEADS, size])
    for kind, part in enumerate(layout.split(rows)):
        assert part.shape == (2, HEADS, 3, size)
        for head in range(HEADS):
            of_head = split[:, kind, head].numpy()
            # Position 2 of the first sequence reads the row of position 0.
            expected = of_head[[[0, 1, 0], [2, 3, 4]]]
            np.testing.assert_array_equal(part[:, head], expected)
    value = layout.split(rows)[2]
    merged = tf.reshape(split[:, 2], [5, -1])
    np.testing.assert_array_equal(layout.merge(value), merged)


@pytest.fixture
def encoder():
    tf.random.set_seed(1)
    return modeling.AlbertModel(tiny_config(num_hidden_layers=2))


def make_batch(mask):
    ids = np.random.default_rng(2).integers(5, 400, mask.shape)
    return {
        "input_ids": tf.constant(ids, tf.int32),
        "input_mask": tf.constant(mask, tf.int32),
        "segment_ids": tf.constant(ids % 2, tf.int32),
    }


def test_encoder_without_padding_gives_the_same_numbers_at_real_positions(
    encoder,
):
    mask = np.arange(10) < np.array([[4], [10], [1], [7]])
    mask[1, 3:5] = False  # A gap, as in a mask of somebody else's.
    batch = make_batch(mask)
    expected = encoder(batch)
    actual = encoder(batch, skip_padding=True)
    real = mask[:, :, None]
    np.testing.assert_allclose(
        actual["sequence_output"],
        expected["sequence_output"] * real,
        atol=LAYER_ATOL,
    )
    np.testing.assert_allclose(
        actual["pooled_output"], expected["pooled_output"], atol=LAYER_ATOL
    )


@pytest.mark.parametrize("converted", [False, True])
@pytest.mark.parametrize("rows", [0, 2])
def test_a_batch_without_any_token_gives_finite_numbers(
    encoder, rows, converted
):
    batch = make_batch(np.zeros([rows, 4]))
    if converted:
        encoder.convert_for_serving()
    outputs = encoder(batch, skip_padding=True)
    assert outputs["sequence_output"].shape == (rows, 4, 16)
    assert np.isfinite(outputs["pooled_output"]).all()
