"""Replaced-token detection: what generator and encoder learn from."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model import model_options
from albert_tf.model.losses import (
    pretraining_objective,
    replaced_tokens_objective,
    token_replacement,
)
from tests.albert_tf.model import passes
from tests.albert_tf.model.heads.test_replaced_tokens import make_model
from tests.conftest import LOSS_RTOL

OBJECTIVE = replaced_tokens_objective.make()


@pytest.fixture(params=model_options.GENERATOR_SHARING)
def model(small_config, request):
    return make_model(small_config, request.param)


@pytest.fixture
def batch():
    return passes.masked_batch()[0]


def test_losses_equal_plain_numpy(model, batch):
    found = passes.compute(OBJECTIVE, model, batch)
    given = passes.tensors(batch)
    ids, replaced = token_replacement.replace(
        given, model.generator(given)["masked_lm_logits"]
    )
    logits = model({**given, "input_ids": ids})["replaced_token_logits"]
    logits, labels = np.asarray(logits, np.float64), np.asarray(replaced)
    real = batch["input_mask"] * batch["is_real_example"][:, None]
    signs = np.where(labels, -1, 1)
    for name, values in {
        "replaced_token_loss": np.log1p(np.exp(signs * logits)),
        "replaced_token_accuracy": (logits > 0) == labels,
        "replaced_token_share": labels,
    }.items():
        expected = (values * real).sum(), real.sum()
        np.testing.assert_allclose(found[name], expected, rtol=LOSS_RTOL)
    assert OBJECTIVE.losses["replaced_token_loss"] == 50
    # A logit of 0 says original.
    model.output_weights.assign(tf.zeros_like(model.output_weights))
    found = passes.compute(OBJECTIVE, model, batch)
    accuracy, share = (
        found[f"replaced_token_{name}"] for name in ("accuracy", "share")
    )
    assert accuracy[0] == accuracy[1] - share[0] < accuracy[1]


def test_generator_learns_from_masked_words_as_without_detection(
    small_config, batch
):
    model = make_model(small_config, "none")
    alone = pretraining_objective.make("none")
    variables = model.generator.trainable_variables
    with tf.GradientTape() as tape:
        expected = alone.weighted_sums(model.generator, passes.tensors(batch))
        loss = expected["masked_lm_loss"].numerator
    gradients = tape.gradient(loss, variables)
    with tf.GradientTape(persistent=True) as tape:
        sums = OBJECTIVE.weighted_sums(model, passes.tensors(batch))
        both = tf.add_n([pair.numerator for pair in sums.values()])
        detection = sums["replaced_token_loss"].numerator
    with_detection = tape.gradient(both, variables)
    for one, other in zip(gradients, with_detection, strict=True):
        if one is not None:
            np.testing.assert_allclose(
                tf.convert_to_tensor(other),
                tf.convert_to_tensor(one),
                rtol=1e-4,
                atol=1e-6,
            )
    assert set(tape.gradient(detection, variables)) == {None}


def test_generator_and_encoder_have_their_own_dropout(small_config, batch):
    config = dataclasses.replace(small_config, hidden_dropout_prob=0.3)
    model = passes.fill(make_model(config, "all"), 0.3)
    seed = tf.constant([3, 4])
    own = tf.random.experimental.stateless_fold_in(seed, 2**29)

    given = passes.tensors(batch)

    def run(model, inputs, seed):
        return model(inputs, training=True, dropout_seed=seed)

    outputs, noted = OBJECTIVE.forward(model, given, seed)
    words = run(model.generator, given, own)["masked_lm_logits"]
    passes.assert_close(outputs["masked_lm_logits"], words)
    ids, replaced = token_replacement.replace(given, words)
    np.testing.assert_array_equal(noted["replaced"], replaced)
    expected = run(model, {**given, "input_ids": ids}, seed)
    passes.assert_close(outputs, {**expected, "masked_lm_logits": words})


@pytest.mark.parametrize("sharing", ["none", "embeddings"])
def test_what_is_shared_learns_from_both(small_config, batch, sharing):
    """And the loss of the sentence is the encoder's."""
    model = make_model(small_config, sharing)
    encoders = model.generator.encoder, model.encoder
    tables = [encoder.embeddings.word_embeddings for encoder in encoders]
    assert (tables[0] is tables[1]) == (sharing == "embeddings")
    kernels = [encoder.attentions[0][0].query.kernel for encoder in encoders]
    with tf.GradientTape(persistent=True) as tape:
        sums = OBJECTIVE.weighted_sums(model, passes.tensors(batch))
        losses = {n: sums[n].numerator for n in OBJECTIVE.losses}
    for name, table in (
        ("masked_lm_loss", tables[0]),
        ("replaced_token_loss", tables[1]),
    ):
        gradient = tf.convert_to_tensor(tape.gradient(losses[name], table))
        assert np.any(gradient), name
    found = tape.gradient(losses["sentence_order_loss"], kernels)
    assert found[0] is None and np.any(found[1])


def test_two_instances_in_a_row_attend_to_themselves(small_config, batch):
    """Nothing in the first changes what the encoder says of the second."""
    model = make_model(small_config, sentence_order=False)
    batch["instance_ids"] = np.repeat([[1, 2]], [6, 6], 1).repeat(4, 0)
    del batch["input_mask"]
    given = pretraining_objective.with_attention_mask(passes.tensors(batch))
    logits = model(given)["replaced_token_logits"]
    batch["input_ids"][:, :6] = 9
    changed = pretraining_objective.with_attention_mask(passes.tensors(batch))
    others = model(changed)["replaced_token_logits"]
    np.testing.assert_allclose(logits[:, 6:], others[:, 6:], atol=1e-5)
    assert np.abs(logits - others)[:, :6].max() > 1e-3
    objective = replaced_tokens_objective.make(sentence_objective="none")
    weights = objective.sample_weights(passes.tensors(batch))[
        "replaced_token_loss"
    ]
    assert np.sum(weights) == 36  # Three real rows of 12 tokens.
