"""Layers one by one, recomputed, and in a loop: the same numbers."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

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
        {"position_bias": "alibi"},
        {**DROPOUT, "position_bias": "relative"},
        {**DROPOUT, "inner_group_num": 2},
        {**DROPOUT, "share": "attention"},
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
