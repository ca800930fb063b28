"""The program for serving against the network that it serves."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from albert_tf.model.config import HIDDEN_ACTS
from albert_tf.model.execution import serving, weights
from albert_tf.model.network.encoder import AlbertModel
from tests.albert_tf.model import passes
from tests.conftest import PARITY_ATOL, tiny_config

NAMES = ("sequence_output", "pooled_output")


def assert_served(served, expected, atol, batch=None):
    """Compare both forms; at padding the unpadded one gives 0."""
    batch = batch or passes.make_batch()
    real = batch["input_mask"][:, :, None] > 0
    for unpad in (False, True):
        actual = served(batch, unpad=unpad)
        assert actual.keys() >= set(NAMES)
        sequence, pooled = (tf.cast(expected[n], tf.float32) for n in NAMES)
        found, found_pooled = (tf.cast(actual[n], tf.float32) for n in NAMES)
        if unpad:
            sequence = tf.where(real, sequence, 0)
            assert not np.any(tf.where(real, 0, found))
        if found.dtype != actual["sequence_output"].dtype:
            # Numbers of bfloat16 have 8 bits: single ones may differ more.
            assert distance(found, sequence) < atol
            assert distance(found_pooled, pooled) < atol
        else:
            passes.assert_close(found, sequence, atol)
            passes.assert_close(found_pooled, pooled, atol)


def distance(actual, expected):
    """The norm of the difference, as a share of that of what is expected."""
    return np.linalg.norm(actual - expected) / np.linalg.norm(expected)


@pytest.mark.parametrize(
    ("changes", "most"),
    [
        ({"position_bias": "alibi"}, serving.MAX_CONSTANT_BYTES),
        ({"position_bias": "relative"}, serving.MAX_CONSTANT_BYTES),
        ({"position_bias": "buckets"}, serving.MAX_CONSTANT_BYTES),
        ({"num_hidden_layers": 4, "num_hidden_groups": 2}, 10**6),
        ({"share": "attention", "pooling": "pair"}, 0),
        ({"project_words_first": True, "layer_norm_eps": 0.1}, 10**6),
        ({"share": "none", "inner_group_num": 2, "embedding_size": 16}, 0),
    ],
)
@pytest.mark.parametrize(
    ("precision", "atol"), [("float32", PARITY_ATOL), ("bfloat16", 0.02)]
)
def test_serving_changes_nothing_but_rounding(
    monkeypatch, precision, atol, changes, most
):
    """Constants in a loop, constants without one, and variables."""
    monkeypatch.setattr(serving, "MAX_CONSTANT_BYTES", most)
    keras.utils.set_random_seed(5)
    config = tiny_config(**{"num_hidden_layers": 3, **changes})
    model = passes.fill(AlbertModel(config, precision=precision))
    expected = model(passes.make_batch())
    assert_served(serving.ServedEncoder(model), expected, atol)
    assert_served(serving.ServedEncoder(model, freeze=True), expected, atol)


@pytest.mark.parametrize("activation", sorted({*HIDDEN_ACTS} - {"gelu"}))
def test_every_activation_is_served(activation):
    model = passes.fill(AlbertModel(tiny_config(hidden_act=activation)))
    expected = model(passes.make_batch())
    assert_served(serving.ServedEncoder(model), expected, PARITY_ATOL)


def test_frozen_weights_are_those_of_the_precision():
    """Also the word table and the pooler, which heads and others read."""
    model = AlbertModel(tiny_config(), precision="bfloat16")
    served = serving.ServedEncoder(model, freeze=True)
    mapping, pooler = model.embedding_mapping, model.pooler
    for variable in (
        model.embeddings.word_embeddings,
        *(mapping.kernel, mapping.bias, pooler.kernel, pooler.bias),
    ):
        assert variable.dtype == tf.bfloat16 and not variable.trainable
    ids = tf.TensorSpec([None, None], tf.int32)
    call = tf.function(lambda ids: served({"input_ids": ids}), [ids])
    used = call.get_concrete_function().variables
    wide = {v.name for v in used if v.dtype == tf.float32}
    # Norms, and the small tables.
    assert not any("kernel" in name or "word" in name for name in wide)


def test_frozen_kernels_are_in_the_graph_once():
    model = AlbertModel(tiny_config(num_hidden_layers=3), precision="bfloat16")
    served = serving.ServedEncoder(model, freeze=True)
    specs = [tf.TensorSpec([None, None], tf.int32)]
    call = tf.function(lambda ids: served({"input_ids": ids}), specs)
    library = call.get_concrete_function().graph.as_graph_def().library
    nodes = [node for f in library.function for node in f.node_def]
    sizes = [len(n.attr["value"].tensor.tensor_content) for n in nodes]
    # Of attention (in and out) and of the feed-forward (in and out).
    assert sum(size >= 2 * 16 * 16 for size in sizes) == 4


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_constants_have_a_limit_in_bytes(monkeypatch, precision):
    for less in (0, 1):
        model = AlbertModel(tiny_config(), precision=precision)
        (layer,) = model.transformer_layers
        size = tf.as_dtype(precision).size * sum(
            v.shape.num_elements() for v in weights.variables(layer)
        )
        monkeypatch.setattr(serving, "MAX_CONSTANT_BYTES", size - less)
        served = serving.ServedEncoder(model, freeze=True)
        assert served._has_constants == (not less)


def test_a_gap_in_the_mask_is_padding():
    mask = np.arange(10) < np.array([[4], [10], [1], [7]])
    mask[1, 3:5] = False
    ids = np.random.default_rng(2).integers(5, 400, mask.shape)
    batch = {
        "input_ids": tf.constant(ids, tf.int32),
        "input_mask": tf.constant(mask, tf.int32),
        "segment_ids": tf.constant(ids % 2, tf.int32),
    }
    model = passes.fill(AlbertModel(tiny_config(num_hidden_layers=2)))
    served = serving.ServedEncoder(model)
    assert_served(served, model(batch), PARITY_ATOL, batch)


@pytest.mark.parametrize("freeze", [False, True])
@pytest.mark.parametrize("rows", [0, 2])
def test_a_batch_without_any_token_gives_finite_numbers(rows, freeze):
    served = serving.ServedEncoder(AlbertModel(tiny_config()), freeze=freeze)
    zeros = tf.zeros([rows, 4], tf.int32)
    outputs = served({"input_ids": zeros, "input_mask": zeros}, unpad=True)
    assert outputs["sequence_output"].shape == (rows, 4, 16)
    assert np.isfinite(outputs["pooled_output"]).all()
