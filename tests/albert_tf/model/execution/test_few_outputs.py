"""Outputs of the last layer at some positions only."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.execution import few_outputs
from albert_tf.model.network.encoder import AlbertModel
from tests.albert_tf.model import passes
from tests.conftest import tiny_config

# [CLS], then others, one of them twice.
WANTED = tf.constant([[0, 5, 2], [0, 6, 6], [0, 3, 0]])


@pytest.mark.parametrize(
    ("positions", "length", "fewer"),
    [(3, 10, True), (10, 10, False), (3, None, True), (None, 10, False)],
)
def test_positions_are_fewer_where_both_numbers_are_known(
    positions, length, fewer
):
    specs = [tf.TensorSpec([3, n], tf.int32) for n in (positions, length)]
    assert few_outputs.are_fewer(*specs) == fewer
    assert not few_outputs.are_fewer(None, specs[1])


def test_biases_are_those_of_the_attending_positions():
    numbers = tf.reshape(tf.range(2.0 * 3 * 4 * 5), [2, 3, 4, 5])
    positions = tf.constant([[3, 0], [1, 1]])
    for_all, own, of_rows = few_outputs.gather_biases(
        [numbers[:, :1, :1], numbers, numbers[0]], positions
    )
    np.testing.assert_array_equal(for_all, numbers[:, :1, :1])
    for row, places in enumerate(positions.numpy()):
        np.testing.assert_array_equal(own[row], numbers.numpy()[row][:, places])
        np.testing.assert_array_equal(
            of_rows[row], numbers.numpy()[0][:, places]
        )


@pytest.mark.parametrize(
    ("changes", "options"),
    [
        ({}, {}),
        ({}, {"recompute": True}),
        ({}, {"loop_layers": True}),
        ({"share": "none", "num_hidden_layers": 2}, {}),
        ({"num_hidden_layers": 1}, {}),
        ({"pooling": "pair"}, {}),
        ({"position_bias": "alibi"}, {"recompute": True}),
        ({"position_bias": "relative"}, {"recompute": True}),
        ({"position_bias": "buckets"}, {"recompute": True}),
    ],
)
def test_wanted_outputs_and_gradients_are_those_of_all(changes, options):
    """In rows of two texts, whose masks and biases differ by position."""
    config = tiny_config(**{"num_hidden_layers": 2, **changes})
    model = AlbertModel(config, **options)
    batch = passes.packed(passes.make_batch())

    @tf.function
    def read(positions):
        with tf.GradientTape() as tape:
            outputs = model(
                batch,
                training=True,
                dropout_seed=tf.constant([1, 2]),
                output_positions=positions,
            )
            x = outputs["sequence_output"]
            if positions is None:
                x = tf.gather(x, WANTED, batch_dims=1)
            pooled = outputs["pooled_output"]
            loss = tf.reduce_sum(tf.sin(x)) + tf.reduce_sum(pooled)
        found = tape.gradient(loss, model.trainable_variables)
        return x, pooled, [tf.convert_to_tensor(g) for g in found]

    x, pooled, expected = read(None)
    few, few_pooled, actual = read(WANTED)
    passes.assert_close([few, few_pooled], [x, pooled])
    passes.assert_near(actual, expected)


@pytest.mark.parametrize("pooling", ["cls", "pair"])
def test_layers_before_the_last_are_whole(small_config, pooling):
    batch = passes.make_batch()
    config = dataclasses.replace(small_config, pooling=pooling)
    model = AlbertModel(config)
    *expected, last = model(batch)["all_encoder_layers"]
    outputs = model(batch, output_positions=WANTED)
    *others, few = outputs["all_encoder_layers"]
    for one, other in zip(others, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    passes.assert_close(few, tf.gather(last, WANTED, batch_dims=1))
    np.testing.assert_array_equal(few, outputs["sequence_output"])


def test_last_layer_computes_wanted_outputs_only(small_config):
    """Its feed-forward part has three rows for each sequence, not ten."""
    batch = passes.make_batch()
    model = AlbertModel(small_config)

    @tf.function
    def call(positions):
        return model(batch, output_positions=positions)["sequence_output"]

    def count(positions, rows):
        graph = call.get_concrete_function(positions).graph
        sizes = [
            operation.outputs[0].shape.as_list()
            for operation in graph.get_operations()
            if operation.type == "BiasAdd"
        ]
        inner = small_config.intermediate_size
        return sizes.count([3 * rows, inner]) + sizes.count([3, rows, inner])

    layers = small_config.num_hidden_layers * small_config.inner_group_num
    assert count(None, rows=10) == layers
    assert count(WANTED, rows=10) == layers - 1
    assert count(WANTED, rows=3) == 1
    # As many as there are tokens: nothing to save.
    assert count(tf.zeros([3, 10], tf.int32), rows=10) == layers
