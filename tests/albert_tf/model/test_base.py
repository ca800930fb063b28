"""Encoder and functional models around it, as Keras models: save, clone."""

import dataclasses

import numpy as np
import pytest
import tf_keras as keras

from albert_tf.model import base
from albert_tf.model.checkpoints import restoring
from albert_tf.model.heads import model_with_head, replaced_tokens
from albert_tf.model.network.encoder import AlbertModel
from tests.albert_tf.model import passes
from tests.conftest import refused

IDS = np.array([[2, 17, 30, 3], [2, 5, 6, 3]])


def reload(model, tmp_path):
    path = str(tmp_path / "model.keras")
    model.save(path)
    return keras.models.load_model(path)


def around(encoder):
    ids = keras.Input([None], dtype="int32", name="input_ids")
    mask = keras.Input([None], dtype="int32", name="mask")
    outputs = encoder({"input_ids": ids, "attention_mask": mask})
    logits = keras.layers.Dense(2)(outputs["pooled_output"])
    return keras.Model([ids, mask], logits)


@pytest.mark.parametrize("share", ["all", "attention", "none"])
def test_encoder_is_saved_and_loaded_by_keras(small_config, tmp_path, share):
    config = dataclasses.replace(small_config, share=share, num_hidden_groups=1)
    encoder = AlbertModel(
        config, "my_bert", precision="bfloat16", recompute=True
    )
    passes.fill(encoder)
    expected = encoder(IDS)
    loaded = reload(encoder, tmp_path)
    assert loaded.get_config() == encoder.get_config()
    assert loaded.config == config
    assert list(passes.named(loaded)) == list(passes.named(encoder))
    passes.assert_close(loaded(IDS), dict(expected), 0)


def test_functional_model_around_the_encoder_is_loaded(small_config, tmp_path):
    model = around(AlbertModel(small_config))
    passes.fill(model)
    inputs = [IDS, np.array([[1, 1, 1, 0], [1, 1, 1, 1]])]
    loaded = reload(model, tmp_path)
    assert len(loaded.trainable_variables) == len(model.trainable_variables)
    np.testing.assert_array_equal(loaded(inputs), model(inputs))


def test_clones_have_the_same_variables(small_config):
    encoder = AlbertModel(small_config)
    encoder.trainable = False
    for model in (encoder, around(encoder)):
        clone = keras.models.clone_model(model)
        shapes = [
            [(v.name, v.shape, v.trainable) for v in m.weights]
            for m in (model, clone)
        ]
        assert shapes[0][:-2] == shapes[1][:-2]
        assert len(clone.trainable_weights) == len(model.trainable_weights)
        assert not {id(v) for v in clone.weights} & {
            id(v) for v in model.weights
        }


@pytest.mark.parametrize("sharing", ["none", "embeddings", "all"])
def test_a_generator_is_made_from_a_config_too(small_config, sharing):
    size = 1 if sharing == "all" else 0.5
    model = replaced_tokens.ReplacedTokenDetector(
        AlbertModel(small_config),
        replaced_tokens.shrink(small_config, size),
        sharing,
        tasks={"distance": 3},
    )
    again = type(model).from_config(model.get_config())
    shapes = [
        {n: v.shape for n, v in passes.named(m).items()} for m in (again, model)
    ]
    assert shapes[0] == shapes[1]
    assert again.generator_config == model.generator_config


class KerasHead(model_with_head.ModelWithHead):
    """A head with a layer of Keras, which creates its variables late."""

    def __init__(self, encoder, *, build):
        super().__init__(encoder, "keras_head")
        self.activation = keras.layers.Activation("relu")
        self.dense = keras.layers.Dense(2, name="my_dense")
        if build:
            self.dense.build([None, encoder.config.hidden_size])


def test_variables_exist_before_a_model_is_restored(small_config, tmp_path):
    encoder = AlbertModel(small_config)
    base.require_built(KerasHead(encoder, build=True))
    late = KerasHead(encoder, build=False)
    with refused("'my_dense' of KerasHead"):
        restoring.restore(late, str(tmp_path / "never read"))
