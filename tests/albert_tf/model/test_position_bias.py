"""The position bias: against its definition, and what it changes."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model import modeling, position_bias


def expected(heads, length):
    """Token by token."""
    bias = np.zeros([heads, length, length], np.float32)
    for head in range(heads):
        slope = 0.5 * 0.25 ** (head // 2)
        for attending in range(length):
            for attended in range(length):
                distance = abs(attended - attending)
                is_right = attended > attending
                looks_right = head % 2 == 1
                back = 1 if is_right == looks_right else 4
                bias[head, attending, attended] = -slope * distance * back
    return bias


@pytest.mark.parametrize(("heads", "length"), [(1, 1), (3, 5), (4, 9)])
def test_alibi_is_what_its_docstring_says(heads, length):
    found = position_bias.alibi(heads, tf.constant(length))
    assert found.dtype == tf.float32
    np.testing.assert_array_equal(found, expected(heads, length))


@pytest.fixture
def encoders(small_config):
    """An encoder with the bias, and the same weights without."""
    config = dataclasses.replace(small_config, position_bias="alibi")
    biased, plain = map(modeling.AlbertModel, (config, small_config))
    for one, other in zip(biased.variables, plain.variables, strict=True):
        assert one.name == other.name
        other.assign(one)
    return biased, plain


def test_the_bias_counts_before_the_softmax_of_every_layer(
    encoders, small_config, monkeypatch
):
    """With a bias that is 0 the outputs are those without one."""
    biased, plain = encoders
    batch = {"input_ids": tf.constant([[5, 6, 7, 8, 5, 6]])}
    others = [biased(batch), plain(batch)]
    far = [
        np.abs(one - other).max()
        for one, other in zip(
            *(o["all_encoder_layers"] for o in others), strict=True
        )
    ]
    assert min(far) > 1e-4
    heads = small_config.num_attention_heads
    monkeypatch.setattr(
        position_bias, "alibi", lambda _, length: tf.zeros([heads, length, 1])
    )
    np.testing.assert_array_equal(
        biased(batch)["sequence_output"], others[1]["sequence_output"]
    )
