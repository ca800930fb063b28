"""Weights: what stands in for variables, and gradients of several uses."""

import threading

import numpy as np
import tensorflow as tf

from albert_tf.model.execution import weights
from albert_tf.model.network.encoder import AlbertModel
from tests.conftest import tiny_config


def test_tensors_stand_in_for_variables_in_one_thread_only():
    one, other = tf.Variable(1.0), tf.Variable(2.0)
    seen = []

    def read():
        values = (weights.value_of(v, tf.float32) for v in (one, other))
        seen.append([float(value) for value in values])

    with weights.substituted([one], [tf.constant(7.0)]):
        read()
        with weights.substituted([other], [8.0]):
            read()
            with weights.substituted([one], [9.0]):
                read()
        thread = threading.Thread(target=read)
        thread.start()
        thread.join()
        read()
    read()
    expected = [[7, 2], [7, 8], [9, 8], [1, 2], [7, 2], [1, 2]]
    assert seen == expected


def test_weights_are_read_in_the_dtype_of_the_input_but_those_of_norms():
    model = AlbertModel(tiny_config(num_hidden_layers=3))
    layers = model.transformer_layers
    shared = weights.WeightsOfPass(layers, tf.bfloat16, fan_out=False)
    names = [v.name for v in weights.variables(layers[0])]
    assert len(names) == len(set(names)) == 16
    for layer in layers:
        for name, tensor in zip(names, shared.take(layer), strict=True):
            is_norm = "LayerNorm" in name
            assert tensor.dtype == (tf.float32 if is_norm else tf.bfloat16)


def test_fan_out_adds_the_gradients_of_all_uses():
    weight = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(weight)
        first, rest = weights.fan_out(weight)
        second, third = weights.fan_out(rest)
        loss = tf.reduce_sum(5.0 * first + 7.0 * second + 11.0 * third)
    np.testing.assert_allclose(tape.gradient(loss, weight), [23.0, 23.0])


def test_a_constant_is_the_value_in_the_bytes_of_its_type():
    value = tf.cast(tf.random.stateless_normal([3, 4], [1, 2]), tf.bfloat16)
    traced = tf.function(weights.constant_of(value)).get_concrete_function()
    np.testing.assert_array_equal(traced(), value)
    nodes = traced.graph.as_graph_def().node
    (node,) = (n for n in nodes if n.op == "Const")
    assert len(node.attr["value"].tensor.tensor_content) == 2 * 12
