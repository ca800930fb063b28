"""Names of inputs: ours, Hugging Face's, unknown ones; models of Keras 3."""

import dataclasses

import keras as keras_3  # noqa: TID251 - What users may have by mistake.
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data import layouts
from albert_tf.model import model_inputs
from albert_tf.model.heads import classification
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.tasks.squad import features as squad_features
from tests.albert_tf.model.models import MODELS
from tests.conftest import refused

IDS = tf.constant([[2, 17, 30, 3, 0, 0]])
MASK = tf.constant([[1, 1, 1, 1, 0, 0]])
SEGMENTS = tf.constant([[0, 0, 1, 1, 0, 0]])


def standardize(inputs, known=model_inputs.ENCODER):
    return model_inputs.standardize(inputs, known)


@pytest.mark.parametrize(
    "layout",
    [
        layouts.pretraining_layout(6, 2),
        layouts.classification_layout(6),
        squad_features.squad_layout(6, is_training=True),
    ],
    ids=["pretraining", "classification", "squad"],
)
def test_every_feature_of_a_record_may_be_in_a_batch(layout):
    batch = {feature.name: IDS for feature in layout}
    assert set(standardize(batch)) == {"input_ids", "input_mask", "segment_ids"}
    assert "p_mask" in standardize({**batch, "p_mask": IDS}, ["p_mask", *batch])


def test_names_of_hugging_face_mean_the_same():
    found = standardize(
        {"input_ids": IDS, "attention_mask": MASK, "token_type_ids": SEGMENTS}
    )
    assert list(found) == ["input_ids", "input_mask", "segment_ids"]
    assert found["input_mask"] is MASK and found["segment_ids"] is SEGMENTS


def test_models_take_ids_alone_and_ignore_labels(small_config):
    encoder = AlbertModel(small_config)
    named = {"input_ids": IDS, "label_ids": tf.constant([1])}
    one, two, three = (
        encoder(inputs)["pooled_output"] for inputs in (IDS, IDS.numpy(), named)
    )
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(one, three)


def test_a_mask_may_be_boolean(small_config):
    config = dataclasses.replace(small_config, pooling="pair")
    for kind in ("encoder", "classifier", "choice", "vectors"):
        model = MODELS[kind](AlbertModel(config))
        ids, mask = IDS, MASK
        if kind == "choice":
            ids, mask = ids[None], mask[None]
        for boolean in (mask > 0, mask.numpy() > 0):
            found, expected = (
                model({"input_ids": ids, "attention_mask": given})
                for given in (boolean, mask)
            )
            tf.nest.map_structure(
                np.testing.assert_array_equal, found, expected
            )


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"input_mask": MASK}, "input_ids are missing; the inputs are input_m"),
        (tf.cast(IDS, tf.float32), "input_ids are float32; .* whole numbers"),
        (
            {"input_ids": IDS, "input_mask": MASK, "attention_mask": MASK},
            "'attention_mask' gives input_mask a second time",
        ),
        (
            {"input_ids": IDS, "inputmask": MASK},
            "Unknown input 'inputmask'. Known are input_ids, input_mask, "
            "segment_ids, position_ids .attention_mask means input_mask; "
            "token_type_ids means segment_ids.",
        ),
    ],
)
def test_wrong_inputs_are_refused(small_config, inputs, message):
    encoder = AlbertModel(small_config)
    for model in (encoder, classification.AlbertClassifier(encoder, 2)):
        with refused(message):
            model(inputs)


def test_keras_3_is_refused_around_and_inside(small_config):
    """It would not train the encoder's variables."""
    encoder = AlbertModel(small_config)

    class Wrapper(keras_3.layers.Layer):
        def __init__(self):
            super().__init__()
            self.encoder = encoder

        def call(self, ids):
            return self.encoder({"input_ids": ids})["pooled_output"]

    symbolic = keras_3.Input([None], dtype="int32")
    for function, inputs in (
        (encoder, symbolic),
        (encoder, {"input_ids": symbolic}),
        (Wrapper(), IDS),
    ):
        with refused("belongs to Keras 2"):
            function(inputs)
    assert encoder(IDS)["pooled_output"].shape == (1, 16)
