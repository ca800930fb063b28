"""Biases of attention: against their definitions, and what they change."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.network import attention_bias
from albert_tf.model.network.encoder import AlbertModel
from tests.albert_tf.model import passes
from tests.conftest import tiny_config


def expected(heads, length):
    """Token by token; the first one has no bias."""
    bias = np.zeros([heads, length, length], np.float32)
    for head in range(heads):
        slope = 0.5 * 0.25 ** (head // 2)
        for attending in range(1, length):
            for attended in range(length):
                distance = abs(attended - attending)
                is_right = attended > attending
                looks_right = head % 2 == 1
                back = 1 if is_right == looks_right else 4
                bias[head, attending, attended] = -slope * distance * back
    return bias


@pytest.mark.parametrize(("heads", "length"), [(1, 1), (3, 5), (4, 9)])
def test_alibi_is_what_its_docstring_says(heads, length):
    found = attention_bias.alibi_bias(heads, tf.constant(length))
    assert found.dtype == tf.float32
    np.testing.assert_array_equal(found, expected(heads, length))


def test_every_first_token_of_a_row_of_texts_has_no_bias():
    positions = tf.constant([[0, 1, 2, 0, 1, 2, 3], [0, 1, 2, 3, 4, 0, 1]])
    config = tiny_config(position_bias="alibi", num_attention_heads=4)
    _, found = attention_bias.make(
        config,
        {"input_mask": tf.ones_like(positions), "position_ids": positions},
    )
    found = found.numpy()
    whole = expected(4, 7)
    assert found.shape == (2, 4, 7, 7)
    for row, (first, second) in zip(found, ((0, 3), (0, 5)), strict=True):
        wanted = whole.copy()
        wanted[:, [first, second]] = 0
        np.testing.assert_array_equal(row, wanted)


def test_masks_of_tokens_and_of_pairs_become_biases(small_config):
    mask = tf.constant([[1, 1, 0], [1, 0, 0]])
    (bias,) = attention_bias.make(small_config, {"input_mask": mask})
    np.testing.assert_array_equal(bias, (mask[:, None, None] - 1) * 10000)
    pairs = tf.constant([[[1, 1, 0], [0, 1, 0], [0, 0, 1]]])
    (bias,) = attention_bias.make(small_config, {"input_mask": pairs})
    np.testing.assert_array_equal(bias, (pairs[:, None] - 1) * 10000)


def test_offsets_follow_the_positions_of_rows_of_several_texts():
    _, offsets, same = attention_bias.make(
        tiny_config(position_bias="relative"),
        {
            "input_mask": tf.ones([1, 3], tf.int32),
            "segment_ids": tf.constant([[0, 1, 1]]),
            "position_ids": tf.constant([[0, 1, 0]]),
        },
    )
    assert offsets.numpy().tolist() == [[[[0, -1, 0], [1, 0, 1], [0, -1, 0]]]]
    assert same.numpy().tolist() == [[[[1, 0, 0], [0, 1, 1], [0, 1, 1]]]]


def test_the_bias_counts_in_every_layer(small_config):
    biased, plain = (
        AlbertModel(dataclasses.replace(small_config, position_bias=bias))
        for bias in ("alibi", "none")
    )
    plain.set_weights(biased.get_weights())
    batch = {"input_ids": tf.constant([[5, 6, 7, 8, 5, 6]])}
    for one, other in zip(
        *(model(batch)["all_encoder_layers"] for model in (biased, plain)),
        strict=True,
    ):
        assert np.abs(one - other).max() > 1e-4


@pytest.mark.parametrize("is_causal", [False, True])
def test_distances_have_a_number_from_the_table(is_causal):
    """A loop over heads and positions; rows of several texts, too."""
    table = np.random.default_rng(4).normal(size=[32, 3]).astype(np.float32)
    positions = np.array([[0, 1, 2, 0, 1], [0, 300, 20, 9, 127]])
    found = attention_bias.bucket_bias(
        tf.constant(table), tf.constant(positions), is_causal
    )
    for row, head, i, j in np.ndindex(2, 3, 5, 5):
        distance = positions[row, j] - positions[row, i]
        bucket = attention_bias.bucket_ids(np.array([distance]), is_causal)[0]
        assert found[row, head, i, j] == table[bucket, head]
    alone = attention_bias.bucket_bias(
        tf.constant(table), tf.constant(positions[1]), is_causal
    )
    np.testing.assert_array_equal(alone, found[1])
    config = tiny_config(position_bias="buckets")
    inputs = {"input_mask": tf.ones([2, 5]), "position_ids": positions}
    _, bias = attention_bias.make(config, inputs, table, is_causal=is_causal)
    np.testing.assert_array_equal(bias, found)
    encoder = AlbertModel(config)
    name = "bert/encoder/relative_attention_bias"
    assert passes.named(encoder)[name].shape == [32, 2]


def test_buckets_of_some_distances():
    """By hand: up to 7 (causal: 15) tokens away each has its own."""
    distances = np.array([0, -1, -7, -8, -12, -50, -90, -999, 1, 7, 50, 128])
    found = attention_bias.bucket_ids(distances, is_causal=False)
    assert found.tolist() == [0, 1, 7, 8, 9, 13, 14, 15, 17, 23, 29, 31]
    found = attention_bias.bucket_ids(distances, is_causal=True)
    assert found.tolist() == [0, 1, 7, 8, 12, 24, 29, 31, 0, 0, 0, 0]
