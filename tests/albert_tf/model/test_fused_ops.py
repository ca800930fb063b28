"""The fused forms against the definitions, values and gradients."""

import math

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model import fused_ops
from tests.reference import encoder as reference

RTOL = {"float32": 1e-5, "bfloat16": 2e-2, "float16": 2e-3}


def inputs_of(name):
    """Arguments of a function; the first has the precision of the model."""
    generator = np.random.default_rng(6)

    def normal(*shape):
        return tf.constant(generator.normal(size=shape) * 3, tf.float32)

    if name == "gelu":
        return [normal(2, 3, 50)]
    if name == "layer_norm":
        return [normal(2, 3, 50) + 5, normal(50), normal(50)]
    bias = np.zeros([2, 1, 1, 7], np.float32)
    bias[1, ..., 4:] = -10000.0
    return [normal(2, 3, 5, 7), tf.constant(bias), normal(3, 5, 7)]


def run(ops, name, dtype):
    """The result, and its gradients by the first inputs."""
    first, *rest = inputs_of(name)
    first = tf.cast(first, dtype)
    watched = [first] if name == "softmax" else [first, *rest]
    with tf.GradientTape() as tape:
        tape.watch(watched)
        result = getattr(ops, name)(first, *rest)
        assert result.dtype == dtype
        loss = tf.reduce_sum(tf.sin(tf.cast(result, tf.float32)))
    gradients = tape.gradient(loss, watched)
    assert gradients[0].dtype == dtype
    return [tf.cast(x, tf.float32).numpy() for x in [result, *gradients]]


@pytest.mark.parametrize("dtype", sorted(RTOL))
@pytest.mark.parametrize("name", fused_ops.Ops._fields)
def test_fused_equals_plain(name, dtype):
    plain = run(fused_ops.PLAIN, name, dtype)
    fused = run(fused_ops.FUSED, name, dtype)
    for one, other in zip(plain, fused, strict=True):
        # Upstream gradients are at most 1, and what is kept is rounded.
        scale = max(1.0, np.abs(one).max())
        np.testing.assert_allclose(one, other, atol=RTOL[dtype] * scale, rtol=0)


@pytest.mark.parametrize("name", fused_ops.Ops._fields)
def test_fused_ops_work_inside_a_compiled_graph(name):
    eager = run(fused_ops.FUSED, name, "float32")

    @tf.function(jit_compile=True)
    def whole(first, *rest):
        return getattr(fused_ops.FUSED, name)(first, *rest)

    np.testing.assert_allclose(whole(*inputs_of(name)), eager[0], atol=1e-5)


def test_softmax_masks_padding():
    probabilities = run(fused_ops.FUSED, "softmax", "float32")[0]
    assert (probabilities[1, ..., 4:] == 0).all()
    np.testing.assert_allclose(probabilities.sum(-1), 1, rtol=1e-6)


@pytest.mark.parametrize("name", fused_ops.Ops._fields)
def test_serving_ops_equal_plain_ops(name):
    """In float32, which it computes in either way; gelu is the tanh form."""
    plain = run(fused_ops.PLAIN, name, "float32")[0]
    served = run(fused_ops.SERVING, name, "float32")[0]
    np.testing.assert_allclose(served, plain, atol=1e-6, rtol=1e-6)


def test_gelu_is_the_tanh_form():
    x = np.linspace(-6, 6, 241)
    expected = reference.gelu(x)
    exact = x / 2 * (1 + np.vectorize(math.erf)(x / 2**0.5))
    assert np.abs(expected - exact).max() > 4e-4
    for ops in (fused_ops.PLAIN, fused_ops.FUSED, fused_ops.SERVING):
        actual = ops.gelu(tf.constant(x, tf.float32))
        np.testing.assert_allclose(actual, expected, atol=1e-6, rtol=0)
