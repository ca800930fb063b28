"""Pooling: against sums written out, and what padding changes."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.config import TEXT_POOLINGS
from albert_tf.model.network import pooling
from tests.albert_tf.model import passes


@pytest.fixture
def inputs():
    """A pair, a single text, a pair without padding, nothing but padding."""
    lengths, second = [7, 5, 9, 0], [3, 9, 1, 9]
    places = np.arange(9)
    mask = places < np.array(lengths)[:, np.newaxis]
    rng = np.random.default_rng(0)
    segments = places >= np.array(second)[:, np.newaxis]  # At padding, too.
    segments = segments * (1 + (places > 5))  # A third counts as the second.
    return {
        "input_ids": rng.integers(5, 90, [4, 9], np.int32),
        "input_mask": mask.astype(np.int32),
        "segment_ids": segments.astype(np.int32),
    }


def pool(kind, x, inputs):
    tensors = {name: tf.constant(value) for name, value in inputs.items()}
    return pooling.pool(kind, tf.constant(x), tensors)


def mean(rows):
    return sum(rows) / len(rows) if len(rows) else np.zeros(6, np.float32)


def expected(kind, x, mask, segments):
    """Pool one sequence [S, H]."""
    if kind == "cls":
        return x[0]
    if kind in ("mean", "max"):
        return getattr(x[mask > 0], kind)(0)
    real, second = mask > 0, segments > 0
    u, v = (mean(x[real & kind]) for kind in (~second, second))
    return np.concatenate([u, v, abs(u - v), u * v])


@pytest.mark.parametrize("kind", ["pair", *TEXT_POOLINGS])
def test_pooling_is_what_its_docstring_says(inputs, kind):
    """Numbers at padding count nothing; the dtype stays."""
    x = np.random.default_rng(1).normal(size=[4, 9, 6]).astype(np.float32)
    at_padding = np.where(inputs["input_mask"][..., np.newaxis], x, 1e6)
    at_padding[3] = x[3]
    found = pool(kind, at_padding.astype(np.float32), inputs)
    assert pool(kind, x.astype(np.float16), inputs).dtype == tf.float16
    for row in range(3):
        wanted = expected(
            kind, x[row], inputs["input_mask"][row], inputs["segment_ids"][row]
        )
        np.testing.assert_allclose(found[row], wanted, rtol=1e-6, atol=1e-6)
    assert np.isfinite(found[3]).all()


def test_tokens_count_that_any_other_attends_to(inputs):
    """Token 3 attends to all, but nobody to it; nobody is token 5."""
    x = tf.random.stateless_normal([4, 9, 6], [0, 1])
    pairs = np.ones([4, 9, 9], np.int32)
    pairs[:, :, 3] = 0
    pairs[:, 5] = 0
    alike = np.ones([4, 9], np.int32)
    alike[:, 3] = 0
    np.testing.assert_array_equal(
        pool("pair", x, {**inputs, "input_mask": pairs}),
        pool("pair", x, {**inputs, "input_mask": alike}),
    )


def test_pooler_is_a_dense_layer_with_tanh_in_float32(small_config):
    pooler = passes.fill(pooling.Pooler("p", 6, 4, small_config))
    x = tf.cast(tf.random.stateless_normal([3, 6], [1, 2]), tf.bfloat16)
    y = pooler(x)
    assert (y.shape, y.dtype) == ([3, 4], tf.float32)
    kernel, bias = pooler.kernel.numpy(), pooler.bias.numpy()
    wide = tf.cast(x, tf.float32).numpy()
    np.testing.assert_allclose(y, np.tanh(wide @ kernel + bias), atol=0.02)
