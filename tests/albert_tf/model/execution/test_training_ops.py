"""Operations of training against plain ones: values and gradients."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model import seeds
from albert_tf.model.execution import plain, training_ops, xla
from tests.albert_tf.model import passes

RTOL = {"float32": 1e-5, "bfloat16": 2e-2, "float16": 2e-3}
NAMES = (
    "attention",
    "feed_forward",
    "layer_norm",
    "linear",
    "feed_forward erf",
)


def arguments_of(name, dtype):
    """Arguments that have gradients; attention also has two biases."""
    generator = np.random.default_rng(6)

    def normal(*shape, dtype=dtype):
        return tf.cast(generator.normal(size=shape), dtype)

    if name == "linear":
        return [normal(2, 5, 8), normal(8, 6), normal(6)]
    if name == "layer_norm":
        wide = normal(8, dtype="float32"), normal(8, dtype="float32")
        return [normal(2, 5, 8) * 3 + 5, *wide]
    if "feed_forward" in name:
        first = normal(8, 6), normal(6)
        return [normal(2, 5, 8), *first, normal(6, 8), normal(8)]
    mask = np.zeros([2, 1, 1, 6], np.float32)
    mask[1, ..., 3:] = -10000.0
    by_pair = normal(2, 1, 5, 6, dtype="float32")
    by_head = normal(3, 5, 6, dtype="float32")
    vectors = normal(2, 3, 5, 4), normal(2, 3, 6, 4), normal(2, 3, 6, 4)
    return [*vectors, tf.constant(mask), by_pair, by_head]


def run(module, name, arguments, dropout=tf.identity):
    """The result, and its gradients."""
    name, *form = name.split()
    function = getattr(module, name)
    if name == "feed_forward":
        act = "_".join(["gelu", *form])
        function = functools.partial(function, hidden_act=act)
    if name == "layer_norm":
        function = functools.partial(function, epsilon=0.5)
    with tf.GradientTape() as tape:
        tape.watch(arguments)
        if name == "attention":
            *vectors, mask, by_pair, by_head = arguments
            biases = [mask, by_pair, by_head]
            result = function(*vectors, biases, dropout)
        else:
            result = function(*arguments)
        loss = tf.reduce_sum(tf.sin(tf.cast(result, tf.float32)))
    return [result, *tape.gradient(loss, arguments)]


def assert_same(actual, expected, rtol):
    for one, other in zip(actual, expected, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        one, other = (tf.cast(x, tf.float32).numpy() for x in (one, other))
        # Upstream gradients are at most 1, and what is kept is rounded.
        scale = max(1.0, np.abs(other).max())
        np.testing.assert_allclose(one, other, atol=rtol * scale, rtol=0)


@pytest.mark.parametrize("dtype", sorted(RTOL))
@pytest.mark.parametrize("name", NAMES)
def test_they_equal_the_plain_ones(name, dtype):
    arguments = arguments_of(name, dtype)
    assert_same(
        run(training_ops, name, arguments),
        run(plain, name, arguments),
        RTOL[dtype],
    )


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_they_work_in_a_graph(name, compiled):
    arguments = arguments_of(name, "float32")

    @tf.function(jit_compile=compiled)
    def whole(arguments):
        return run(training_ops, name, arguments)

    assert_same(whole(arguments), run(plain, name, arguments), 1e-5)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_dropout_of_probabilities_is_repeated_for_the_gradient(dtype):
    arguments = arguments_of("attention", dtype)
    dropout = seeds.DropoutSeeds(tf.constant([1, 2])).next(0.4)
    own, expected, without = (
        run(module, "attention", arguments, drop)
        for module, drop in (
            (training_ops, dropout),
            (plain, dropout),
            (plain, tf.identity),
        )
    )
    assert_same(own, expected, RTOL[dtype])
    difference = tf.cast(expected[1] - without[1], tf.float32)
    assert np.abs(difference).max() > 0.1


def test_attention_computes_the_probabilities_again():
    """The gradient's softmax is another one than that of the result."""
    arguments = arguments_of("attention", "float32")
    step = tf.function(lambda: run(training_ops, "attention", arguments))
    assert passes.count_operations(step, "Softmax") == 2
    step = tf.function(lambda: run(plain, "attention", arguments))
    assert passes.count_operations(step, "Softmax") == 1


def test_a_function_is_compiled_except_beside_a_tpu(monkeypatch):
    eager = []

    def double(x):
        eager.append(tf.executing_eagerly())
        return 2 * x

    function = xla.xla_compiled(double)
    assert function.__name__ == "double"
    assert float(function(tf.constant(3.0))) == 6
    monkeypatch.setattr(xla, "_has_tpu", lambda: True)
    assert float(function(tf.constant(4.0))) == 8
    assert eager == [False, True]
