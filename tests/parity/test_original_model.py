"""Every output of encoder, heads and losses against the original.

The fixtures have a checkpoint of the original release, its inputs and every
intermediate output; see tests/fixtures/README.md.
"""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.checkpoints import checkpoint_reader, restoring
from albert_tf.model.config import AlbertConfig
from albert_tf.model.heads import pretraining
from albert_tf.model.losses import pretraining_objective
from albert_tf.model.network.encoder import AlbertModel
from tests.conftest import FIXTURES, PARITY_ATOL

RECORDINGS = ("original_tiny_lamb", "original_tiny_adamw_groups")


@pytest.fixture(params=RECORDINGS)
def recording(request):
    folder = FIXTURES / request.param
    config = AlbertConfig.from_json_file(str(folder / "albert_config.json"))
    model = pretraining.AlbertPretrainer(AlbertModel(config))
    restoring.restore(model, str(folder / "model.ckpt-0"))
    values = dict(np.load(folder / "fixture.npz"))
    size = len(values["input_ids"])
    batch = {
        name: tf.constant(values[name])
        for name in (
            "input_ids",
            "input_mask",
            "segment_ids",
            "masked_lm_positions",
            "masked_lm_ids",
            "masked_lm_weights",
            "next_sentence_labels",
        )
    }
    return model, {**batch, "is_real_example": tf.ones([size])}, values


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
    np.testing.assert_allclose(output, values[stage], atol=PARITY_ATOL, rtol=0)


def test_heads_equal_the_original(recording):
    model, batch, values = recording
    outputs = model(batch)
    masked = tf.nn.log_softmax(outputs["masked_lm_logits"]).numpy()
    expected = values["masked_lm_log_probs"].reshape(masked.shape)
    np.testing.assert_allclose(masked, expected, atol=PARITY_ATOL, rtol=0)
    np.testing.assert_allclose(
        tf.nn.log_softmax(outputs["sentence_order_logits"]),
        values["sentence_order_log_probs"],
        atol=PARITY_ATOL,
        rtol=0,
    )


def test_losses_equal_the_original(recording):
    model, batch, values = recording
    ratios = pretraining_objective.OBJECTIVE.weighted_sums(model, batch)
    for name in pretraining_objective.OBJECTIVE.losses:
        epsilon = pretraining_objective.OBJECTIVE.epsilons.get(name, 0.0)
        loss = ratios[name].numerator / (ratios[name].denominator + epsilon)
        np.testing.assert_allclose(loss, values[name], atol=PARITY_ATOL, rtol=0)


def test_variables_have_the_names_of_the_original(recording):
    model, _, _ = recording
    stored = checkpoint_reader.read(
        str(FIXTURES / "original_tiny_lamb" / "model.ckpt-0")
    ).shapes
    ours = {checkpoint_reader.name_of(variable) for variable in model.variables}
    group_0 = {name for name in ours if "group_1/" not in name}
    assert group_0 == set(stored)
