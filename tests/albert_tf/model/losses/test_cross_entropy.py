"""Cross-entropy: TensorFlow's and the fused one, against NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.losses import cross_entropy
from tests.albert_tf.model import passes

LOGITS = np.array(
    [[1.0, 3.0, 2.0], [0.5, 0.5, 4.0], [9.0, 0.0, 0.0], [0.0, 1.0, 0.0]], "f4"
)
LABELS = np.array([1, 0, 0, 1], "i4")
CHANCES = np.exp(LOGITS.astype("f8"))
CHANCES /= CHANCES.sum(-1, keepdims=True)
LOSSES = -np.log(CHANCES[np.arange(4), LABELS])


@pytest.mark.parametrize(
    ("shape", "dtype"), [((4,), "f4"), ((2, 2), "f4"), ((4,), "f2")]
)
def test_loss_and_accuracy_equal_plain_numpy(shape, dtype):
    logits = LOGITS.reshape(*shape, 3).astype(dtype)
    found = cross_entropy.loss_and_accuracy("x", logits, LABELS.reshape(shape))
    expected = {"x_loss": LOSSES, "x_accuracy": np.array([1, 0, 1, 1])}
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name].dtype == tf.float32
        passes.assert_close(found[name], value.reshape(shape))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("scale, offset", [(1, 0), (1, 1e4), (1e4, 0)])
def test_long_rows_are_fused_and_equal_tensorflow(dtype, scale, offset):
    classes = 1500
    # Otherwise both sides were TensorFlow's.
    assert classes > cross_entropy.FUSED_FROM_CLASSES
    generator = np.random.default_rng(3)
    logits = generator.normal(size=[2, 3, classes]) * scale + offset
    logits = tf.cast(logits, dtype)
    labels = tf.constant(generator.integers(classes, size=[2, 3]), tf.int32)
    upstream = tf.constant(generator.normal(size=[2, 3]), tf.float32)

    def plain(logits, labels):
        return tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels, tf.cast(logits, tf.float32)
        )

    # Batches of unknown size, as a distributed dataset may have them.
    unknown = tf.TensorSpec([None, 3, classes], dtype)
    fused = tf.function(
        cross_entropy.compute,
        input_signature=[unknown, tf.TensorSpec([None, 3], tf.int32)],
    )
    found = []
    for function in (plain, cross_entropy.compute, fused):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            losses = function(logits, labels)
        gradient = tape.gradient(losses, logits, upstream)
        assert (losses.dtype, gradient.dtype) == (tf.float32, logits.dtype)
        found.append((losses, tf.cast(gradient, tf.float32)))
    (losses, gradient), *others = found
    for fused_losses, fused_gradient in others:
        np.testing.assert_allclose(fused_losses, losses, rtol=1e-6)
        np.testing.assert_allclose(
            fused_gradient, gradient, atol=1e-6 if dtype == "float32" else 1e-2
        )


@pytest.mark.parametrize("label", [-1, 1500])
def test_the_loss_of_an_impossible_label_is_not_a_number(label):
    losses = cross_entropy.compute(tf.zeros([2, 1500]), [label, 0])
    np.testing.assert_allclose(losses, [np.nan, np.log(1500)], rtol=1e-6)


def test_number_of_classes_may_be_unknown_until_the_graph_runs():
    unknown = tf.TensorSpec([None, None], tf.float32)
    compute = tf.function(cross_entropy.compute).get_concrete_function(
        unknown, tf.TensorSpec([None], tf.int32)
    )
    passes.assert_close(
        compute(tf.constant(LOGITS), tf.constant(LABELS)), LOSSES
    )
