"""Layers one by one, recomputed, in a loop, and the last one in part."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from albert_tf.model.execution import last_layer
from albert_tf.model.network.encoder import AlbertModel
from tests.albert_tf.model import passes
from tests.conftest import tiny_config

DROPOUT = {"hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.2}


def run(config, **options):
    """Output and gradients, with the same weights each time."""
    keras.utils.set_random_seed(1)
    model = passes.fill(AlbertModel(config, **options))
    return tf.function(passes.gradients)(model, passes.make_batch())


@pytest.mark.parametrize(
    "changes",
    [
        {"position_bias": "alibi", "inner_group_num": 2},
        {**DROPOUT, "position_bias": "relative", "share": "attention"},
    ],
)
def test_recomputing_changes_no_number(changes):
    config = tiny_config(num_hidden_layers=2, **changes)
    one, expected = run(config)
    other, actual = run(config, recompute=True)
    np.testing.assert_array_equal(one, other)
    passes.assert_near(actual, expected)


@pytest.mark.parametrize("recompute", [False, True])
def test_loop_gives_the_same_gradients(recompute):
    """By their norms: the sum over uses has another order in a loop."""
    config = tiny_config(num_hidden_layers=3, **DROPOUT)
    one, expected = run(config)
    other, actual = run(config, recompute=recompute, loop_layers=True)
    np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)
    passes.assert_near(actual, expected)


def count(types, layers, **options):
    """Operations of a training pass."""
    model = AlbertModel(tiny_config(num_hidden_layers=layers), **options)
    traced = tf.function(lambda: passes.gradients(model, passes.make_batch()))
    return passes.count_operations(traced, *types)


PRODUCTS = "MatMul", "BatchMatMulV2"


def test_recomputing_computes_every_layer_again():
    plain, again = (count(PRODUCTS, 3, recompute=r) for r in (False, True))
    # Query, key, value; scores, their use, and three dense layers.
    assert again >= plain + 8 * 3


def test_variables_are_read_once_in_a_pass():
    """Also by layers that are recomputed: what they read are arguments."""
    reads = {
        (layers, recompute): count(
            ["ReadVariableOp"], layers, recompute=recompute
        )
        for layers in (1, 3)
        for recompute in (False, True)
    }
    assert len(set(reads.values())) == 1


def test_loop_holds_the_products_of_one_layer():
    two, three = (count(PRODUCTS, n, loop_layers=True) for n in (2, 3))
    assert two == three < count(PRODUCTS, 3)


def test_loop_returns_the_last_layer_only():
    batch = passes.make_batch()
    model = AlbertModel(tiny_config(num_hidden_layers=3), loop_layers=True)
    assert len(model(batch)["all_encoder_layers"]) == 3
    assert len(model(batch, training=True)["all_encoder_layers"]) == 1


@pytest.mark.parametrize(
    ("positions", "length", "fewer"),
    [(3, 10, True), (10, 10, False), (3, None, True), (None, 10, False)],
)
def test_positions_needs_fewer_where_both_numbers_are_known(
    positions, length, fewer
):
    specs = [tf.TensorSpec([3, n], tf.int32) for n in (positions, length)]
    assert last_layer.needs_fewer(*specs) == fewer
    assert not last_layer.needs_fewer(None, specs[1])


def test_biases_are_those_of_the_attending_positions():
    numbers = tf.reshape(tf.range(2.0 * 3 * 4 * 5), [2, 3, 4, 5])
    positions = tf.constant([[3, 0], [1, 1]])
    for_all, by_example, by_head = last_layer.gather_biases(
        [numbers[:, :1, :1], numbers, numbers[0]], positions
    )
    np.testing.assert_array_equal(for_all, numbers[:, :1, :1])
    for row, places in enumerate(positions.numpy()):
        np.testing.assert_array_equal(
            by_example[row], numbers.numpy()[row][:, places]
        )
        np.testing.assert_array_equal(
            by_head[row], numbers.numpy()[0][:, places]
        )
