"""What all heads do as Keras models."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from albert_tf.model import checkpoint_reader, modeling
from albert_tf.model.heads import (
    classification,
    pretraining,
    question_answering,
)

IDS = np.array([[2, 17, 30, 3], [2, 5, 6, 3]])
HEADS = {
    "pretrainer": (
        pretraining.AlbertPretrainer,
        {"masked_lm_positions": np.array([[1, 2], [2, 0]])},
    ),
    "masked_lm": (
        lambda e: pretraining.AlbertPretrainer(e, sentence_order=False),
        {"masked_lm_positions": np.array([[1, 2], [2, 0]])},
    ),
    "classifier": (lambda e: classification.AlbertClassifier(e, 3, 0.3), {}),
    "choice": (
        lambda e: classification.AlbertMultipleChoice(
            e, 0.2, choices_at_once=1
        ),
        {"input_ids": np.stack([IDS, IDS[::-1]], 1)},
    ),
    "squad_v1": (question_answering.AlbertSquadV1, {}),
    "squad_v2": (
        lambda e: question_answering.AlbertSquadV2(e, 2, 3, 0.4),
        {"p_mask": np.zeros_like(IDS)},
    ),
}


@pytest.fixture(params=HEADS)
def model_and_inputs(request, small_config):
    make, inputs = HEADS[request.param]
    model = make(modeling.AlbertModel(small_config))
    generator = np.random.default_rng(1)
    for variable in model.variables:
        variable.assign(generator.normal(size=variable.shape) / 3)
    return model, {"input_ids": IDS, **inputs}


def own_config(model):
    """The config without the encoder, which has the shapes of its last call."""
    return {k: v for k, v in model.get_config().items() if k != "encoder"}


def test_head_is_saved_and_loaded_by_keras(model_and_inputs, tmp_path):
    model, inputs = model_and_inputs
    expected = model(inputs)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert type(loaded) is type(model)
    assert loaded.encoder.get_config() == model.encoder.get_config()
    assert own_config(loaded) == own_config(model)
    names = [
        [checkpoint_reader.name_of(v) for v in m.variables]
        for m in (model, loaded)
    ]
    assert names[0] == names[1]
    tf.nest.map_structure(
        np.testing.assert_array_equal, dict(loaded(inputs)), dict(expected)
    )


def test_head_is_cloned(model_and_inputs):
    model, inputs = model_and_inputs
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    tf.nest.map_structure(
        np.testing.assert_array_equal, dict(clone(inputs)), dict(model(inputs))
    )
