"""The encoder: names, sharing, padding, defaults, precisions."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.common import errors
from albert_tf.model.config import POSITION_BIASES
from albert_tf.model.network.encoder import AlbertModel
from tests.albert_tf.model import initial_weights, passes
from tests.conftest import LAYER_ATOL, PARITY_ATOL
from tests.reference import encoder as reference

GROUP_PREFIX = "bert/encoder/transformer/group_"
# Original release, the variables of one inner group.
BLOCK_NAMES = {
    f"{layer}/{part}"
    for layer in (
        "attention_1/self/query",
        "attention_1/self/key",
        "attention_1/self/value",
        "attention_1/output/dense",
        "ffn_1/intermediate/dense",
        "ffn_1/intermediate/output/dense",
    )
    for part in ("kernel", "bias")
} | {
    f"{norm}/{part}"
    for norm in ("LayerNorm", "LayerNorm_1")
    for part in ("beta", "gamma")
}
OUTER_NAMES = {
    "bert/embeddings/word_embeddings",
    "bert/embeddings/token_type_embeddings",
    "bert/embeddings/position_embeddings",
    "bert/embeddings/LayerNorm/beta",
    "bert/embeddings/LayerNorm/gamma",
    "bert/encoder/embedding_hidden_mapping_in/kernel",
    "bert/encoder/embedding_hidden_mapping_in/bias",
    "bert/pooler/dense/kernel",
    "bert/pooler/dense/bias",
}


@pytest.fixture
def encoder(small_config):
    return AlbertModel(small_config)


@pytest.fixture
def batch():
    return passes.make_batch()


@pytest.fixture(params=POSITION_BIASES)
def any_encoder(small_config, request):
    """With each position bias."""
    return AlbertModel(
        dataclasses.replace(small_config, position_bias=request.param)
    )


# Variables.


def test_weights_start_from_a_truncated_normal(small_config):
    encoder = AlbertModel(
        dataclasses.replace(small_config, initializer_range=0.05)
    )
    initial_weights.assert_initial(passes.named(encoder), 0.05)


ATTENTION_NAMES = {
    name for name in BLOCK_NAMES if name.startswith(("attention", "LayerNorm/"))
}


@pytest.mark.parametrize(
    ("share", "groups", "attentions", "feed_forwards"),
    [
        ("all", 2, 2, 2),
        ("attention", 2, 2, 4),
        ("ffn", 1, 4, 1),
        ("none", 1, 4, 4),
    ],
)
def test_variables_have_the_names_of_the_original(
    small_config, batch, share, groups, attentions, feed_forwards
):
    config = dataclasses.replace(
        small_config, share=share, num_hidden_groups=groups
    )
    encoder = AlbertModel(config)
    expected = {
        f"{GROUP_PREFIX}{group}/inner_group_{inner}/{name}"
        for inner in range(2)
        for names, count in (
            (ATTENTION_NAMES, attentions),
            (BLOCK_NAMES - ATTENTION_NAMES, feed_forwards),
        )
        for name in names
        for group in range(count)
    }
    assert len(encoder.variables) == len(passes.named(encoder))
    assert passes.named(encoder).keys() == OUTER_NAMES | expected
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(encoder(batch)["pooled_output"] ** 2)
    gradients = tape.gradient(loss, encoder.variables)
    assert all(gradient is not None for gradient in gradients)


def test_equal_widths_need_no_mapping(encoder, small_config):
    config = dataclasses.replace(small_config, embedding_size=16)
    mapping = "bert/encoder/embedding_hidden_mapping_in"
    assert passes.named(encoder).keys() - passes.named(AlbertModel(config)) == {
        f"{mapping}/kernel",
        f"{mapping}/bias",
    }


def test_layers_may_skip_a_group_as_in_the_original(small_config):
    config = dataclasses.replace(
        small_config,
        num_hidden_layers=22,
        num_hidden_groups=22,
        float_group_index=True,
    )
    groups = {
        name.split("/")[3]
        for name in passes.named(AlbertModel(config))
        if name.startswith("bert/encoder/transformer")
    }
    assert groups == {f"group_{n}" for n in range(22) if n != 15}


@pytest.mark.parametrize(
    ("share", "attentions", "feed_forwards"),
    [
        ("all", "001122", "001122"),
        ("attention", "001122", "012345"),
        ("ffn", "012345", "001122"),
    ],
)
def test_layers_apply_the_parameters_of_their_group(
    small_config, share, attentions, feed_forwards
):
    """Six layers in three groups; each has two inner ones."""
    config = dataclasses.replace(
        small_config, share=share, num_hidden_layers=6, num_hidden_groups=3
    )
    layers = AlbertModel(config).transformer_layers
    for part, groups in (
        ("attention", attentions),
        ("feed_forward", feed_forwards),
    ):
        found = [
            getattr(layer, part).output_dense.kernel.name.split("/")[3:5]
            for layer in layers
        ]
        assert found == [
            [f"group_{group}", f"inner_group_{inner}"]
            for group in groups
            for inner in range(2)
        ]


# Outputs.


@pytest.mark.parametrize(
    "changes", [{}, {"embedding_size": 16}, {"num_hidden_groups": 4}]
)
def test_outputs_equal_plain_numpy(small_config, batch, changes):
    config = dataclasses.replace(
        small_config, inner_group_num=1, initializer_range=0.1, **changes
    )
    encoder = passes.fill(AlbertModel(config))
    weights = {n: v.numpy() for n, v in passes.named(encoder).items()}
    plain = reference.Encoder(config, weights)
    if not config.maps_embeddings:
        plain.widen = lambda embedded: embedded
    expected = plain.encode(*(tensor.numpy() for tensor in batch.values()))
    outputs = encoder(batch)
    assert outputs.keys() - expected == {"word_embedding_output"}
    assert len(outputs["all_encoder_layers"]) == 4
    for name, value in expected.items():
        np.testing.assert_allclose(
            outputs[name], value, atol=PARITY_ATOL, rtol=0, err_msg=name
        )


def test_padding_does_not_change_real_positions(any_encoder, batch):
    short = {name: value[1:2, :7] for name, value in batch.items()}
    padded = {name: value[1:2] for name, value in batch.items()}
    garbage = padded["input_ids"] + 9 * (1 - padded["input_mask"])
    expected = any_encoder(short)
    for inputs in (padded, {**padded, "input_ids": garbage}):
        actual = any_encoder(inputs)
        np.testing.assert_allclose(
            actual["sequence_output"][:, :7],
            expected["sequence_output"],
            atol=LAYER_ATOL,
        )
        np.testing.assert_allclose(
            actual["pooled_output"], expected["pooled_output"], atol=LAYER_ATOL
        )


def test_mask_and_segments_have_defaults(encoder, batch):
    ids = batch["input_ids"]
    explicit = {
        "input_ids": ids,
        "input_mask": tf.ones_like(ids),
        "segment_ids": tf.zeros_like(ids),
    }
    np.testing.assert_array_equal(
        encoder({"input_ids": ids})["sequence_output"],
        encoder(explicit)["sequence_output"],
    )


def test_sequences_of_one_row_are_those_of_their_own_rows(any_encoder, batch):
    """The three, of 10, 7 and 4 tokens, in a row with one of padding."""
    alone = any_encoder(batch)["sequence_output"]
    lengths = [10, 7, 4, 1]
    number = np.repeat(np.arange(4), lengths)
    position = np.concatenate([np.arange(n) for n in lengths])
    # Padding of the last row stands for that of the shared one.
    places = tf.constant(np.stack([np.minimum(number, 2), position], 1))
    row = {
        name: tf.gather_nd(batch[name], places)[None]
        for name in ("input_ids", "segment_ids")
    }
    row["position_ids"] = tf.constant(position[None], tf.int32)
    row["input_mask"] = tf.constant(number[:, None] == number)[None]
    shared = any_encoder(row)["sequence_output"][0, :-1]
    expected = tf.gather_nd(alone, places)[:-1]
    np.testing.assert_allclose(shared, expected, atol=LAYER_ATOL, rtol=0)


def test_too_long_sequences_are_refused(encoder):
    with pytest.raises(errors.UserError, match="65 tokens.*64 rows"):
        encoder({"input_ids": tf.ones([1, 65], tf.int32)})


def test_dropout_follows_its_seed_in_training(small_config, batch):
    encoder = AlbertModel(
        dataclasses.replace(small_config, hidden_dropout_prob=0.5)
    )

    def output(training, seed):
        seed = None if seed is None else tf.constant([seed, 0])
        outputs = encoder(batch, training=training, dropout_seed=seed)
        return outputs["sequence_output"].numpy()

    np.testing.assert_array_equal(output(True, 1), output(True, 1))
    np.testing.assert_array_equal(output(False, 1), output(False, 2))
    for seed in (None, 2):
        assert np.abs(output(True, 1) - output(True, seed)).max() > 0.01
    assert np.abs(output(True, None) - output(True, None)).max() > 0.01


@pytest.mark.parametrize(
    ("precision", "close"), [("bfloat16", 0.05), ("float16", 0.01)]
)
def test_lower_precision_is_near_float32(small_config, batch, precision, close):
    exact = AlbertModel(small_config)
    model = AlbertModel(small_config, precision=precision)
    model.set_weights(exact.get_weights())
    assert {v.dtype for v in model.variables} == {tf.float32}
    outputs = model(batch)
    assert outputs["sequence_output"].dtype == precision
    assert outputs["pooled_output"].dtype == tf.float32
    one, expected = passes.gradients(exact, batch)
    other, actual = passes.gradients(model, batch)
    np.testing.assert_allclose(one, other, atol=close * 4, rtol=0)
    passes.assert_near(actual, expected, close, rounding=1e-3)
