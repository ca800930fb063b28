"""Replaced-token detection: what generator and encoder share, the head."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from albert_tf.model.config import AlbertConfig
from albert_tf.model.heads import replaced_tokens
from albert_tf.model.network.encoder import AlbertModel
from tests.albert_tf.model import initial_weights, passes
from tests.conftest import refused, tiny_config
from tests.reference import encoder as reference


def make_model(
    config, sharing="embeddings", size=0.5, precision="float32", **more
):
    keras.utils.set_random_seed(1)
    small = replaced_tokens.shrink(config, size)
    if sharing == "all":
        small = config
    return replaced_tokens.ReplacedTokenDetector(
        AlbertModel(config, precision=precision), small, sharing, **more
    )


def names(variables):
    return {variable.name.split(":")[0] for variable in variables}


@pytest.mark.parametrize(
    ("sharing", "own"),
    [
        ("none", {"generator/embeddings", "generator/encoder"}),
        ("embeddings", {"generator/encoder"}),
        ("all", set()),
    ],
)
def test_generator_has_only_the_weights_that_are_not_shared(
    small_config, sharing, own
):
    model = make_model(small_config, sharing, precision="bfloat16")
    assert model.generator.encoder.precision == "bfloat16"
    found = names(model.variables)
    assert len(found) == len(model.variables)
    scopes = {"/".join(n.split("/")[:2]) for n in found if "generator" in n}
    rest = {"generator/cls", "generator/pooler"} if own else set()
    assert scopes == own | rest
    assert ("cls/predictions/output_bias" in found) == (sharing == "all")


@pytest.mark.parametrize(
    ("size", "bias", "heads", "intermediate"),
    [
        (1, "none", 12, 11),
        (0.25, "none", 3, 2),
        (0.01, "none", 1, 1),
        # They look left and right in turn: pairs.
        (0.01, "alibi", 2, 1),
        (0.25, "alibi", 4, 3),
        (0.6, "alibi", 8, 7),
    ],
)
def test_generator_is_a_share_of_the_encoder(size, bias, heads, intermediate):
    config = AlbertConfig(
        vocab_size=400,
        hidden_size=768,
        num_attention_heads=12,
        intermediate_size=11,
        position_bias=bias,
    )
    assert replaced_tokens.shrink(config, size) == dataclasses.replace(
        config,
        num_attention_heads=heads,
        hidden_size=64 * heads,
        intermediate_size=intermediate,
    )


def test_what_does_not_fit_is_not_shared(small_config):
    config = dataclasses.replace(small_config, project_words_first=True)
    with refused("=embeddings` does not fit .*=1"):
        make_model(config)
    assert make_model(config, size=1).generator.encoder.embeddings
    config = tiny_config()
    encoder = AlbertModel(config, recompute=True, loop_layers=True)
    made = replaced_tokens.ReplacedTokenDetector(encoder, config).generator
    assert made.encoder.recompute and made.encoder.loop_layers
    small = replaced_tokens.shrink(small_config, 0.5)
    with pytest.raises(ValueError, match="cannot share all"):
        replaced_tokens.ReplacedTokenDetector(
            AlbertModel(small_config), small, "all"
        )


def test_logits_equal_plain_numpy(small_config):
    """Of tokens, and of the segments of two instances in a row."""
    config = dataclasses.replace(small_config, initializer_range=0.05)
    model = make_model(config, "none")
    initial_weights.assert_initial(passes.head_of(model), 0.05)
    passes.fill(model)
    inputs = passes.packed(passes.make_batch())
    x = model.encoder(inputs)["sequence_output"].numpy()
    outputs = model({**inputs, "cls_positions": tf.constant([[0, 4]] * 3)})
    weights = passes.values(model)

    def dense(x, scope):
        return x @ weights[f"{scope}/kernel"] + weights[f"{scope}/bias"]

    head, order = "cls/replaced_tokens", "cls/seq_relationship"
    hidden = reference.gelu(dense(x, f"{head}/transform/dense"))
    expected = hidden @ weights[f"{head}/output_weights"]
    expected += weights[f"{head}/output_bias"]
    passes.assert_close(outputs["replaced_token_logits"], expected)
    pooled = np.tanh(dense(x[:, [0, 4]], "bert/pooler/dense"))
    expected = pooled @ weights[f"{order}/output_weights"].T
    expected += weights[f"{order}/output_bias"]
    passes.assert_close(outputs["sentence_order_logits"], expected)
