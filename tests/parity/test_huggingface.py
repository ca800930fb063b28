"""Weights of Hugging Face folders, read and written, against transformers.

The first half compares with a recording; see tests/fixtures/README.md. The
second half runs transformers: `make test-torch`.
"""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.checkpoints import (
    checkpoint_reader,
    huggingface,
    restoring,
)
from albert_tf.model.heads import classification, pretraining
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.tasks.race import model as multiple_choice
from albert_tf.tasks.squad import model as squad_model
from albert_tf.tasks.tagging import model as token_classification
from tests.albert_tf.model import passes
from tests.conftest import FIXTURES
from tests.parity import their_models
from tests.parity.conftest import assert_close
from tests.parity.their_models import make_batch, make_config

RECORDED = FIXTURES / "huggingface_tiny"


@pytest.fixture(scope="module")
def recording():
    """Our outputs with the recorded weights, and the recorded outputs."""
    config = huggingface.read_config(str(RECORDED / "config.json"))
    model = pretraining.AlbertPretrainer(AlbertModel(config))
    weights = huggingface.read_weights(str(RECORDED))
    variables = passes.named(model)
    assert variables.keys() == weights.keys()
    for name, value in weights.items():
        variables[name].assign(value)
    values = dict(np.load(RECORDED / "fixture.npz"))
    batch = {
        name: tf.constant(values[name], tf.int32)
        for name in ("input_ids", "input_mask", "segment_ids")
    }
    size, length = batch["input_ids"].shape
    batch["masked_lm_positions"] = tf.tile([tf.range(length)], [size, 1])
    return {**model.encoder(batch), **model(batch)}, values


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("sequence_output", "sequence_output"),
        ("pooled_output", "pooled_output"),
        ("masked_lm_logits", "prediction_logits"),
        ("sentence_order_logits", "sop_logits"),
    ],
)
def test_outputs_equal_the_recording(recording, ours, theirs):
    outputs, values = recording
    assert_close(outputs[ours], values[theirs])


OURS = {
    "AlbertModel": lambda encoder: encoder,
    "AlbertForPreTraining": pretraining.AlbertPretrainer,
    "AlbertForMaskedLM": lambda e: pretraining.AlbertPretrainer(e, False),
    "AlbertForSequenceClassification": classification.AlbertClassifier,
    "AlbertForMultipleChoice": multiple_choice.AlbertMultipleChoice,
    "AlbertForQuestionAnswering": squad_model.AlbertSquadV1,
    "AlbertForTokenClassification": token_classification.AlbertTokenClassifier,
}
WITH_LABELS = (
    "AlbertForSequenceClassification",
    "AlbertForTokenClassification",
)


def make_ours(architecture, config, labels=2):
    more = [labels] if architecture in WITH_LABELS else []
    return OURS[architecture](AlbertModel(config), *more)


def batch_of(architecture):
    batch = make_batch()
    if architecture == "AlbertForMultipleChoice":
        return {name: value[None] for name, value in batch.items()}
    return batch


@pytest.mark.torch
@pytest.mark.parametrize(
    ("architecture", "labels", "changes"),
    [
        ("AlbertModel", 2, {}),
        ("AlbertForPreTraining", 2, {}),
        ("AlbertForPreTraining", 2, {"embedding_size": 24}),
        ("AlbertForPreTraining", 2, {"hidden_act": "gelu_erf"}),
        ("AlbertForPreTraining", 2, {"num_hidden_groups": 1, "share": "none"}),
        (
            "AlbertForPreTraining",
            2,
            {"num_hidden_layers": 5, "num_hidden_groups": 3},
        ),
        *(("AlbertForSequenceClassification", n, {}) for n in (1, 2, 3)),
        ("AlbertForMultipleChoice", 2, {}),
        ("AlbertForQuestionAnswering", 2, {}),
    ],
)
def test_transformers_reads_ours(tmp_path, architecture, labels, changes):
    model = make_ours(architecture, make_config(**changes), labels)
    batch = batch_of(architecture)
    theirs = their_models.read_ours(passes.fill(model), tmp_path, architecture)
    expected = their_models.outputs_of(theirs, batch)
    found = their_models.assert_same_outputs(model(batch), expected)
    assert len(found) == len(expected)


@pytest.mark.torch
@pytest.mark.parametrize("embedding_size", [8, 24])
@pytest.mark.parametrize(
    ("architecture", "pooler"),
    [
        ("AlbertModel", True),
        ("AlbertModel", False),
        ("AlbertForPreTraining", True),
        ("AlbertForMaskedLM", False),
        ("AlbertForSequenceClassification", True),
        ("AlbertForMultipleChoice", True),
        ("AlbertForQuestionAnswering", False),
        ("AlbertForTokenClassification", False),
    ],
)
def test_outputs_of_what_transformers_saves_are_equal(
    tmp_path, architecture, pooler, embedding_size
):
    how = {"add_pooling_layer": pooler} if architecture == "AlbertModel" else {}
    config = make_config(embedding_size=embedding_size)
    theirs = their_models.make(architecture, config, **how)
    has_pooler = any("pooler" in n for n, _ in theirs.named_parameters())
    assert has_pooler == pooler
    theirs.save_pretrained(str(tmp_path))

    checkpoint = checkpoint_reader.read(str(tmp_path))
    assert checkpoint.config.map_equal_sizes == (embedding_size == 24)
    ours = make_ours(architecture, checkpoint.config)
    new = () if pooler else ("bert/pooler",)
    restoring.restore(ours, checkpoint, new_scopes=new)
    batch = batch_of(architecture)
    their_models.assert_same_outputs(
        ours(batch), their_models.outputs_of(theirs, batch)
    )
