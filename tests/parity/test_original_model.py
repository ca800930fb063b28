"""Every output of encoder, heads and losses against the original.

The fixtures have a checkpoint of the original release, its inputs and every
intermediate output; see tests/fixtures/README.md.
"""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.checkpoints import checkpoint_reader, restoring
from albert_tf.model.heads import pretraining
from albert_tf.model.losses import pretraining_objective
from albert_tf.model.network.encoder import AlbertModel
from tests.conftest import FIXTURES
from tests.parity import recordings
from tests.parity.conftest import assert_close

RECORDINGS = ("original_tiny_lamb", "original_tiny_adamw_groups")


@pytest.fixture(params=RECORDINGS)
def recording(request):
    recording = recordings.Recording(request.param)
    model = pretraining.AlbertPretrainer(AlbertModel(recording.config))
    restoring.restore(model, recording.checkpoint(0))
    return model, recording.batch(), recording.values


@pytest.mark.parametrize(
    "stage",
    [
        "word_embedding_output",
        "embedding_output",
        "all_encoder_layers",
        "sequence_output",
        "pooled_output",
    ],
)
def test_encoder_stage_equals_the_original(recording, stage):
    model, batch, values = recording
    output = np.array(model.encoder(batch)[stage])
    assert_close(output, values[stage])


def test_heads_equal_the_original(recording):
    model, batch, values = recording
    outputs = model(batch)
    masked = tf.nn.log_softmax(outputs["masked_lm_logits"]).numpy()
    expected = values["masked_lm_log_probs"].reshape(masked.shape)
    assert_close(masked, expected)
    assert_close(
        tf.nn.log_softmax(outputs["sentence_order_logits"]),
        values["sentence_order_log_probs"],
    )


def test_losses_equal_the_original(recording):
    model, batch, values = recording
    objective = pretraining_objective.make()
    ratios = objective.weighted_sums(model, batch)
    for name in objective.losses:
        epsilon = objective.epsilons.get(name, 0.0)
        loss = ratios[name].numerator / (ratios[name].denominator + epsilon)
        assert_close(loss, values[name])


def test_variables_have_the_names_of_the_original(recording):
    model, _, _ = recording
    stored = checkpoint_reader.read(
        str(FIXTURES / "original_tiny_lamb" / "model.ckpt-0")
    ).shapes
    ours = {checkpoint_reader.name_of(variable) for variable in model.variables}
    group_0 = {name for name in ours if "group_1/" not in name}
    assert group_0 == set(stored)
