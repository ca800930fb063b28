"""What all heads do as Keras models."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from albert_tf.model import seeds
from albert_tf.model.checkpoints import checkpoint_reader
from albert_tf.model.heads import (
    classification,
    multiple_choice,
    pretraining,
    question_answering,
)
from albert_tf.model.network.encoder import AlbertModel

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
        lambda e: multiple_choice.AlbertMultipleChoice(e, 0.2),
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
    model = make(AlbertModel(small_config))
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


class MeanClassifier(classification.AlbertClassifier):
    """Reads all tokens, as the page on own tasks does, or some."""

    positions = None

    def call(self, inputs, training=False, dropout_seed=None):
        outputs = self.encode(inputs, training, dropout_seed, self.positions)
        return {"logits": tf.reduce_mean(outputs["sequence_output"], 1)}


class LouderPretrainer(pretraining.AlbertPretrainer):
    """Changes what the known head returns."""

    def call(self, inputs, training=False, dropout_seed=None):
        known = super().call(inputs, training, dropout_seed)
        return {name: 2 * value for name, value in known.items()}


@pytest.mark.parametrize("training", [False, True])
def test_head_of_ones_own_reads_all_positions_or_those_it_names(
    small_config, training
):
    encoder = AlbertModel(small_config)
    arguments = {"training": training, "dropout_seed": tf.constant([1, 2])}
    everything = encoder(IDS, **arguments)["sequence_output"]
    model = MeanClassifier(encoder, 3)
    mean = model(IDS, **arguments)["logits"]
    np.testing.assert_allclose(mean, tf.reduce_mean(everything, 1), atol=1e-6)
    model.positions = tf.constant([[0, 3], [0, 2]])
    few = model(IDS, **arguments)["logits"]
    expected = [everything[0, ::3], everything[1, ::2]]
    np.testing.assert_allclose(few, tf.reduce_mean(expected, 1), atol=1e-6)


def test_own_head_may_call_that_of_pretraining(small_config):
    encoder = AlbertModel(small_config)
    known = pretraining.AlbertPretrainer(encoder)
    own = LouderPretrainer(encoder)
    own.set_weights(known.get_weights())
    inputs = {"input_ids": IDS, **HEADS["pretrainer"][1]}
    for name, value in known(inputs).items():
        np.testing.assert_allclose(own(inputs)[name], 2 * value, atol=1e-5)


def test_a_head_has_the_dropout_of_its_seed_in_training_only(small_config):
    model = MeanClassifier(AlbertModel(small_config), 3, dropout=0.25)
    ones, seed = tf.ones([100]), tf.constant([3, 4])
    fold = tf.random.experimental.stateless_fold_in
    expected = tf.nn.experimental.stateless_dropout(
        ones, 0.25, fold(fold(seed, 2**30), 1)
    )
    dropped = model.head_dropout(True, seed)(ones, 0.25)
    np.testing.assert_array_equal(dropped, expected)
    for training, rate in ((False, 0.25), (True, 0.0)):
        model.dropout = rate
        assert model.head_dropout(training, seed) is seeds.NO_DROPOUT
