"""Parts that keep little, against plain operations: values and gradients."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model import fused_ops, layers, lean_ops

RTOL = {"float32": 1e-5, "bfloat16": 2e-2, "float16": 2e-3}


def plain_attend(query, key, value, *biases):
    scores = tf.matmul(query, key, transpose_b=True)
    probabilities = fused_ops.PLAIN.softmax(scores, *biases)
    context = tf.transpose(tf.matmul(probabilities, value), [0, 2, 1, 3])
    return tf.reshape(context, [*context.shape[:2], -1])


def plain_gelu_linear(x, kernel, bias):
    return layers.linear(fused_ops.PLAIN.gelu(x), kernel, bias)


PLAIN = {
    "attend": plain_attend,
    "linear": layers.linear,
    "gelu_linear": plain_gelu_linear,
}


def arguments_of(name, dtype):
    """Arguments that have gradients, and the others."""
    generator = np.random.default_rng(6)

    def normal(*shape):
        return tf.cast(generator.normal(size=shape), dtype)

    if name != "attend":
        return [normal(2, 5, 8), normal(8, 6), normal(6)], []
    bias = np.zeros([2, 1, 1, 5], np.float32)
    bias[1, ..., 3:] = -10000.0
    biases = [tf.constant(bias), tf.cast(normal(3, 5, 5), tf.float32)]
    return [normal(2, 3, 5, 4) for _ in range(3)], biases


def run(function, watched, others):
    """The result, and its gradients."""
    with tf.GradientTape() as tape:
        tape.watch(watched)
        result = function(*watched, *others)
        loss = tf.reduce_sum(tf.sin(tf.cast(result, tf.float32)))
    return [result, *tape.gradient(loss, watched)]


@pytest.mark.parametrize("dtype", sorted(RTOL))
@pytest.mark.parametrize("name", sorted(PLAIN))
def test_lean_equals_plain(name, dtype):
    arguments = arguments_of(name, dtype)
    plain = run(PLAIN[name], *arguments)
    lean = run(getattr(lean_ops, name), *arguments)
    for one, other in zip(plain, lean, strict=True):
        assert other.dtype == dtype
        one, other = (tf.cast(x, tf.float32).numpy() for x in (one, other))
        scale = max(1.0, np.abs(one).max())
        np.testing.assert_allclose(other, one, atol=RTOL[dtype] * scale, rtol=0)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", sorted(PLAIN))
def test_lean_works_in_a_graph(name, compiled):
    watched, others = arguments_of(name, "float32")
    eager = run(getattr(lean_ops, name), watched, others)

    @tf.function(jit_compile=compiled)
    def whole(watched, others):
        return run(getattr(lean_ops, name), watched, others)

    for one, other in zip(eager, whole(watched, others), strict=True):
        np.testing.assert_allclose(other, one, atol=1e-5)


def test_attend_takes_a_mask_of_pairs():
    heads, _ = arguments_of("attend", "float32")
    same = np.arange(5)[:, None] // 3 == np.arange(5) // 3
    bias = tf.constant((1 - same[None, None]) * -10000.0, tf.float32)
    plain = run(plain_attend, heads, [bias])
    lean = run(lean_ops.attend, heads, [bias])
    for one, other in zip(plain, lean, strict=True):
        np.testing.assert_allclose(other, one, atol=1e-5)


def test_attend_computes_the_probabilities_again():
    """The gradient's softmax is another one than that of the result."""
    heads, others = arguments_of("attend", "float32")

    @tf.function
    def step(heads):
        return run(lean_ops.attend, heads, others)

    graph = step.get_concrete_function(heads).graph
    softmaxes = [op for op in graph.get_operations() if op.type == "Softmax"]
    assert len(softmaxes) == 2


def test_fork_adds_the_gradients_of_all_uses():
    weights = [tf.constant([1.0, 2.0]), tf.constant(3.0)]
    with tf.GradientTape() as tape:
        tape.watch(weights)
        first, number, *rest = lean_ops.fork(*weights)
        second, third, later, _ = lean_ops.fork(*rest)
        loss = tf.reduce_sum(5.0 * first + 7.0 * second + 11.0 * later)
        loss += number * third
    gradients = tape.gradient(loss, weights)
    np.testing.assert_allclose(gradients[0], [23.0, 23.0])
    np.testing.assert_allclose(gradients[1], 6.0)
