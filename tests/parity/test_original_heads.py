"""Every finetuning head against the recorded original: outputs and loss."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.checkpoints import restoring
from albert_tf.model.heads import classification
from albert_tf.model.losses import label_objectives
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.tasks.race import model as multiple_choice
from albert_tf.tasks.squad import model as squad_model
from tests.parity import recordings
from tests.parity.conftest import assert_close


def restored(name, make_model):
    """A recording's values and batch, and the model with its weights."""
    recording = recordings.Recording(name)
    model = make_model(AlbertModel(recording.config))
    restoring.restore(model, recording.checkpoint(0))
    return recording.values, recording.batch(), model


def loss(objective, model, batch):
    ratios = objective.weighted_sums(model, batch)
    return objective.total(ratios, objective.normalizers(batch))


@pytest.mark.parametrize(
    "name", recordings.parameters("original_head_classifier")
)
def test_classifier(name):
    labels = recordings.Recording(name).values["logits"].shape[1]
    values, batch, model = restored(
        name, lambda e: classification.AlbertClassifier(e, labels)
    )
    logits = model(batch)["logits"]
    assert_close(logits, values["logits"])
    assert_close(tf.nn.softmax(logits), values["probabilities"])
    assert_close(
        loss(label_objectives.CLASSIFICATION, model, batch), values["loss"]
    )


@pytest.mark.parametrize(
    "name", recordings.parameters("original_head_regression")
)
def test_regression(name):
    values, batch, model = restored(
        name, lambda e: classification.AlbertClassifier(e, 1)
    )
    assert_close(model(batch)["logits"][:, 0], values["logits"])
    objective = label_objectives.REGRESSION
    each = objective.values(model, batch, None)["regression_loss"]
    # Squares of errors near 4: 1e-5 in the outputs is 1e-4 in these.
    np.testing.assert_allclose(each, values["per_example_loss"], rtol=1e-5)
    np.testing.assert_allclose(
        loss(objective, model, batch), values["loss"], rtol=1e-5
    )


@pytest.mark.parametrize(
    "name", recordings.parameters("original_head_squad_v1")
)
def test_squad_v1(name):
    values, batch, model = restored(name, squad_model.AlbertSquadV1)
    outputs = model(batch)
    for edge in ("start_logits", "end_logits"):
        assert_close(outputs[edge], values[edge])
    assert_close(loss(squad_model.V1, model, batch), values["loss"])


@pytest.fixture(params=recordings.parameters("original_head_squad_v2"))
def squad_v2(request):
    recording = recordings.Recording(request.param)
    tops = [int(recording.values[n]) for n in ("start_n_top", "end_n_top")]
    return recording, *restored(
        request.param, lambda e: squad_model.AlbertSquadV2(e, *tops)
    )


def assert_same_log_probs(actual, expected):
    """Masked positions are -1e30 plus noise: compare with rtol 1e-6."""
    actual = np.array(actual)
    real = expected > -1e20
    np.testing.assert_array_equal(actual > -1e20, real)
    assert_close(actual[real], expected[real])
    np.testing.assert_allclose(actual[~real], expected[~real], rtol=1e-6)


def test_squad_v2_in_training(squad_v2):
    _, values, batch, model = squad_v2
    outputs = model(batch)
    for edge in ("start_log_probs", "end_log_probs"):
        assert_same_log_probs(outputs[edge], values[f"train_{edge}"])
    assert_close(outputs["cls_logits"], values["train_cls_logits"])
    assert_close(loss(squad_model.V2, model, batch), values["loss"])


def test_squad_v2_beam(squad_v2):
    recording, values, _, model = squad_v2
    names = "input_ids", "input_mask", "segment_ids", "p_mask"
    outputs = model(recording.batch(*names))
    for name in ("start_top_index", "end_top_index"):
        np.testing.assert_array_equal(outputs[name], values[f"infer_{name}"])
    for name in ("start_top_log_probs", "end_top_log_probs"):
        assert_same_log_probs(outputs[name], values[f"infer_{name}"])
    assert_close(outputs["cls_logits"], values["infer_cls_logits"])


@pytest.mark.parametrize("name", recordings.parameters("original_head_race"))
def test_race(name):
    values, batch, model = restored(name, multiple_choice.AlbertMultipleChoice)
    questions, choices = values["logits"].shape
    for key in ("input_ids", "input_mask", "segment_ids"):
        batch[key] = tf.reshape(values[key], [questions, choices, -1])
    batch["is_real_example"] = tf.ones([questions])
    logits = model(batch)["logits"]
    assert_close(logits, values["logits"])
    assert_close(tf.nn.softmax(logits), values["probabilities"])
    assert_close(
        loss(label_objectives.CLASSIFICATION, model, batch), values["loss"]
    )
