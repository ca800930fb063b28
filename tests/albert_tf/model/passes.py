"""Passes through an encoder for tests: a batch, gradients, names."""

import dataclasses

import numpy as np
import tensorflow as tf

from albert_tf.model.checkpoints import checkpoint_reader
from tests.conftest import LAYER_ATOL
from tests.reference import encoder as reference

# Dropout of layers, see `Scaling`.
RATES = {"hidden_dropout_prob": 0.25, "attention_probs_dropout_prob": 0.5}


class Scaling:
    """In the place of dropout: multiplies by 1 plus the rate."""

    def __call__(self, x, rate):
        return self.next(rate)(x)

    def next(self, rate):
        return lambda x: x * (1 + rate)


def scale(place, block, x):
    """The same for the reference, with `RATES`."""
    return x * (1.5 if place == reference.PROBABILITIES else 1.25)


def make_batch():
    """Three sequences of 10, 7 and 4 tokens, the rest padding."""
    ids = np.random.default_rng(2).integers(5, 400, [3, 10])
    mask = np.arange(10) < np.array([[10], [7], [4]])
    return {
        "input_ids": tf.constant(ids * mask, tf.int32),
        "input_mask": tf.constant(mask, tf.int32),
        "segment_ids": tf.constant(mask & (np.arange(10) > 2), tf.int32),
    }


def packed(batch):
    """The same with two texts in each row, of 4 and 3 tokens."""
    row = tf.constant([1, 1, 1, 1, 2, 2, 2, 0, 0, 0])
    mask = tf.cast(row[:, None] == row, tf.int32)
    positions = tf.constant([0, 1, 2, 3, 0, 1, 2, 0, 0, 0])
    return {
        **batch,
        "input_mask": tf.repeat(mask[None], 3, 0),
        "position_ids": tf.repeat(positions[None], 3, 0),
    }


def fill(model, stddev=0.1):
    """Give every variable noise, so that no bias is 0 and no gamma 1."""
    generator = np.random.default_rng(3)
    for variable in model.variables:
        variable.assign_add(generator.normal(0, stddev, variable.shape))
    return model


def named(model):
    """Name to variable."""
    return {checkpoint_reader.name_of(v): v for v in model.variables}


def values(model):
    """Name to value."""
    return {name: variable.numpy() for name, variable in named(model).items()}


def head_of(model):
    """Name to variable, without those of the encoder."""
    encoder = named(model.encoder)
    return {n: v for n, v in named(model).items() if n not in encoder}


def assert_same(actual, expected):
    """Compare float32 values by name, bit for bit."""
    np.testing.assert_equal(actual, expected)
    assert {value.dtype for value in actual.values()} == {np.dtype("float32")}


def assert_close(actual, expected, atol=LAYER_ATOL):
    """Compare two arrays; of two mappings, all that is expected."""
    if isinstance(expected, dict):
        for name, value in expected.items():
            assert_close(actual[name], value, atol)
        return
    tf.nest.map_structure(
        lambda x, y: np.testing.assert_allclose(x, y, atol=atol, rtol=0),
        actual,
        expected,
    )


def gradients(model, batch, seed=(1, 2), **arguments):
    """Sequence output and gradients of a training pass."""
    with tf.GradientTape() as tape:
        outputs = model(
            batch, training=True, dropout_seed=tf.constant(seed), **arguments
        )
        x = tf.cast(outputs["sequence_output"], tf.float32)
        loss = tf.reduce_sum(tf.sin(x)) + tf.reduce_sum(
            outputs["pooled_output"]
        )
    found = tape.gradient(loss, model.trainable_variables)
    return x, [tf.convert_to_tensor(gradient) for gradient in found]


def assert_near(actual, expected, share=1e-5, rounding=1e-5):
    """Compare gradients by the norm of their difference.

    Args:
        share: Of the expected norm.
        rounding: What the norm of a gradient of 0 may be, as of a key's bias.
    """
    for one, other in zip(actual, expected, strict=True):
        difference = np.linalg.norm(np.subtract(one, other))
        assert difference <= share * np.linalg.norm(other) + rounding


def assert_recomputing_changes_nothing(
    make_model, config, batch, output, blocks
):
    """Compare logits, gradients and products of training with and without it.

    Args:
        make_model: Takes the config and `recompute`.
        output: The name of the logits.
        blocks: How many are computed again, each with eight products.
    """
    config = dataclasses.replace(
        config, hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.2
    )
    found, products = [], []
    for recompute in (False, True):
        model = make_model(config, recompute=recompute)

        @tf.function
        def run(model=model):
            with tf.GradientTape() as tape:
                logits = model(
                    batch, training=True, dropout_seed=tf.constant([1, 2])
                )[output]
                loss = tf.reduce_sum(tf.sin(logits))
            variables = [
                v for v in model.trainable_variables if "pooler" not in v.name
            ]
            gradients = tape.gradient(loss, variables)
            return logits, [tf.convert_to_tensor(g) for g in gradients]

        found.append(run())
        products.append(count_operations(run, "MatMul", "BatchMatMulV2"))
    assert products[1] >= products[0] + 8 * blocks
    np.testing.assert_array_equal(found[0][0], found[1][0])
    assert_near(found[1][1], found[0][1])


def count_operations(function, *types):
    """Operations of these types in a function's graph and what it calls."""
    graph = function.get_concrete_function().graph.as_graph_def()
    nodes = [
        *graph.node,
        *(n for f in graph.library.function for n in f.node_def),
    ]
    return sum(node.op in types for node in nodes)


SEED = (12345, 7)
TRAINING = {"training": True, "dropout_seed": tf.constant(SEED)}
# The stream of heads; see model/heads/model_with_head.py.
HEAD = 2**30


def fold(seed, *numbers):
    """The key of a use: of a pass, then of a block, then of a place in it."""
    for number in numbers:
        seed = tf.random.experimental.stateless_fold_in(seed, number)
    return seed


def drop(x, rate, key):
    """Keep where the draw is not below the rate, and scale up what is kept."""
    draws = tf.random.stateless_uniform(x.shape, key).numpy()
    return np.where(draws >= np.float32(rate), x / (1 - rate), 0.0)


MASK = 4


def masked_batch():
    """Masked text as arrays, and what it was; the last row is padding."""
    originals = np.random.default_rng(2).integers(5, 400, [4, 12], np.int32)
    positions = np.array([[1, 5, 9], [2, 3, 0], [7, 0, 0], [1, 2, 3]], np.int32)
    weights = np.array([[1, 1, 1], [1, 1, 0], [1, 0, 0], [1, 1, 1]], np.float32)
    ids = originals.copy()
    for row, columns, real in zip(ids, positions, weights > 0, strict=True):
        row[columns[real]] = MASK
    mask = np.ones([4, 12], np.int32)
    mask[1, 10:] = 0
    words = np.take_along_axis(originals, positions, 1)
    batch = {
        "input_ids": ids,
        "input_mask": mask,
        "segment_ids": (np.arange(12) > 6) * mask,
        "masked_lm_positions": positions,
        "masked_lm_ids": np.where(weights > 0, words, 0).astype(np.int32),
        "masked_lm_weights": weights,
        "next_sentence_labels": np.array([[0], [1], [1], [0]], np.int32),
        "is_real_example": np.array([1, 1, 1, 0], np.int32),
    }
    return batch, originals


def tensors(batch):
    """Arrays as tensors, int32 or float32."""
    kinds = {np.float32: tf.float32}
    return {
        name: tf.constant(value, kinds.get(value.dtype.type, tf.int32))
        for name, value in batch.items()
    }


def compute(objective, model, batch):
    """Numerator and denominator of every loss and metric."""
    sums = objective.weighted_sums(model, tensors(batch))
    assert set(sums) == set(objective.names)
    return {name: [float(x) for x in pair] for name, pair in sums.items()}
