"""Updates for tests: their numbers and gradients, to be compared."""

import numpy as np
import tensorflow as tf

from albert_tf.model import model_options
from albert_tf.model.optimizers import optimization
from albert_tf.training import train_step


def make_step(model, objective, precision="float32", parts=1):
    options = model_options.OptimizerOptions(learning_rate=1e-3)
    optimizer = optimization.make_optimizer(options, 100, 0)
    optimizer.build(model.trainable_variables)
    guard = train_step.Guard(precision)
    return train_step.TrainStep(model, optimizer, objective, guard, parts)


def run(make, batch, compiled, steps=2):
    """Return the numbers of each step, and the mean gradients at the end.

    Not the weights: the bias below a softmax has no gradient but rounding, and
    the optimizer takes that for a direction.
    """
    step = make()
    update = tf.function(step, jit_compile=compiled)
    rows = [update(batch).numpy() for _ in range(steps)]
    return np.stack(rows), [m.numpy() for m in step.optimizer.adam_m]


def assert_same(one, other):
    """Each the numbers and the mean gradients of `run`."""
    np.testing.assert_allclose(other[0], one[0], rtol=1e-4, atol=1e-6)
    for ours, theirs in zip(one[1], other[1], strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)
