"""Names of inputs: ours, Hugging Face's, unknown ones; models of Keras 3."""

import keras as keras_3  # noqa: TID251 - What users may have by mistake.
import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from albert_tf.common import errors
from albert_tf.data import layouts
from albert_tf.model import model_inputs, modeling
from albert_tf.model.heads import classification

IDS = tf.constant([[2, 17, 30, 3, 0, 0]])
MASK = tf.constant([[1, 1, 1, 1, 0, 0]])
SEGMENTS = tf.constant([[0, 0, 1, 1, 0, 0]])


@pytest.fixture
def encoder(small_config):
    return modeling.AlbertModel(small_config)


def pooled(model, inputs):
    return model(inputs)["pooled_output"].numpy()


@pytest.mark.parametrize(
    "layout",
    [
        layouts.pretraining_layout(6, 2),
        layouts.classification_layout(6),
        layouts.squad_layout(6, is_training=True),
    ],
    ids=["pretraining", "classification", "squad"],
)
def test_every_feature_of_a_record_may_be_in_a_batch(layout):
    batch = {feature.name: IDS for feature in layout}
    found = model_inputs.standardize(batch, model_inputs.ENCODER)
    assert set(found) == set(model_inputs.ENCODER) - {"position_ids"}


def test_names_of_hugging_face_mean_the_same(encoder):
    ours = {"input_ids": IDS, "input_mask": MASK, "segment_ids": SEGMENTS}
    theirs = {
        "input_ids": IDS,
        "attention_mask": MASK,
        "token_type_ids": SEGMENTS,
    }
    expected = pooled(encoder, ours)
    np.testing.assert_array_equal(pooled(encoder, theirs), expected)
    for name in ("input_mask", "segment_ids"):
        others = {k: v for k, v in ours.items() if k != name}
        assert (pooled(encoder, others) != expected).any()


@pytest.mark.parametrize("convert", [tf.identity, np.array])
def test_ids_alone_are_the_input_ids(encoder, convert):
    np.testing.assert_array_equal(
        pooled(encoder, convert(IDS)), pooled(encoder, {"input_ids": IDS})
    )


def test_unknown_name_is_an_error(encoder):
    with pytest.raises(errors.UserError) as error:
        encoder({"input_ids": IDS, "inputmask": MASK})
    message = str(error.value)
    assert "Unknown input 'inputmask'" in message
    for name in (*model_inputs.ENCODER, *model_inputs.ALIASES):
        assert name in message


def test_heads_refuse_unknown_names_too(encoder):
    model = classification.AlbertClassifier(encoder, 2)
    with pytest.raises(errors.UserError, match="Unknown input 'mask'"):
        model({"input_ids": IDS, "mask": MASK})


def test_labels_of_a_batch_are_left_out(encoder):
    inputs = {"input_ids": IDS, "label_ids": tf.constant([1])}
    np.testing.assert_array_equal(pooled(encoder, inputs), pooled(encoder, IDS))


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"input_mask": MASK}, "input_ids are missing; the inputs are input_m"),
        (tf.cast(IDS, tf.float32), "input_ids are float32; .* whole numbers"),
        (
            {"input_ids": IDS, "input_mask": MASK, "attention_mask": MASK},
            "'attention_mask' gives input_mask a second time",
        ),
    ],
)
def test_wrong_inputs_are_refused(encoder, inputs, message):
    with pytest.raises(errors.UserError, match=message):
        encoder(inputs)


def test_ids_of_a_float_input_layer_are_refused(encoder):
    with pytest.raises(errors.UserError, match="input_ids are float32"):
        encoder(keras.Input([None]))


def test_symbolic_tensor_of_keras_3_is_refused(encoder):
    for make in (lambda x: x, lambda x: {"input_ids": x}):
        ids = keras_3.Input([None], dtype="int32")
        with pytest.raises(errors.UserError, match="belongs to Keras 2"):
            encoder(make(ids))


def test_layer_of_keras_3_around_the_encoder_is_refused(encoder):
    """It would not train the encoder's variables."""

    class Wrapper(keras_3.layers.Layer):
        def __init__(self):
            super().__init__()
            self.encoder = encoder

        def call(self, ids):
            return self.encoder({"input_ids": ids})["pooled_output"]

    assert not Wrapper().trainable_variables
    with pytest.raises(errors.UserError, match="belongs to Keras 2"):
        Wrapper()(IDS)
    with pytest.raises(errors.UserError, match="belongs to Keras 2"):
        Wrapper()(keras_3.Input([None], dtype="int32"))
    assert pooled(encoder, IDS).shape == (1, 16)
