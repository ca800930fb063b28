"""The encoder: names, sharing, padding, defaults, precisions."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from albert_tf.model.config import POSITION_BIASES
from albert_tf.model.network.encoder import AlbertModel
from tests.albert_tf.model import initial_weights, passes
from tests.conftest import PARITY_ATOL, refused, tiny_config
from tests.reference import encoder as reference

GROUP_PREFIX = "bert/encoder/transformer/group_"
# Original release, the variables of one inner group: those of attention, and
# those of the feed-forward part.
ATTENTION_NAMES = {
    f"attention_1/{layer}/{part}"
    for layer in ("self/query", "self/key", "self/value", "output/dense")
    for part in ("kernel", "bias")
} | {"LayerNorm/beta", "LayerNorm/gamma"}
FEED_FORWARD_NAMES = {
    f"ffn_1/intermediate/{layer}/{part}"
    for layer in ("dense", "output/dense")
    for part in ("kernel", "bias")
} | {"LayerNorm_1/beta", "LayerNorm_1/gamma"}
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
        small_config,
        share=share,
        num_hidden_groups=groups,
        initializer_range=0.05,
    )
    encoder = AlbertModel(config)
    initial_weights.assert_initial(passes.named(encoder), 0.05)
    expected = {
        f"{GROUP_PREFIX}{group}/inner_group_{inner}/{name}"
        for inner in range(2)
        for names, count in (
            (ATTENTION_NAMES, attentions),
            (FEED_FORWARD_NAMES, feed_forwards),
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


# Outputs.


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"embedding_size": 16},
        {"num_hidden_groups": 4},
        {"num_hidden_layers": 2, "inner_group_num": 2},
    ],
)
def test_outputs_equal_plain_numpy(small_config, batch, changes):
    config = dataclasses.replace(
        small_config,
        **{"inner_group_num": 1, "initializer_range": 0.1, **changes},
    )
    encoder = passes.fill(AlbertModel(config))
    plain = reference.Encoder(config, passes.values(encoder))
    if not config.maps_embeddings:
        plain.widen = lambda embedded: embedded
    expected = plain.encode(*(tensor.numpy() for tensor in batch.values()))
    outputs = encoder(batch)
    assert outputs.keys() - expected == {"word_embedding_output"}
    np.testing.assert_array_equal(
        outputs["word_embedding_output"],
        encoder.weights[0].numpy()[batch["input_ids"]],
    )
    assert len(outputs["all_encoder_layers"]) == 4
    passes.assert_close(outputs, expected, PARITY_ATOL)


def test_padding_does_not_change_real_positions(any_encoder, batch):
    short = {name: value[1:2, :7] for name, value in batch.items()}
    padded = {name: value[1:2] for name, value in batch.items()}
    garbage = padded["input_ids"] + 9 * (1 - padded["input_mask"])
    expected = any_encoder(short)
    for inputs in (padded, {**padded, "input_ids": garbage}):
        actual = any_encoder(inputs)
        actual["sequence_output"] = actual["sequence_output"][:, :7]
        for name in ("sequence_output", "pooled_output"):
            passes.assert_close(actual[name], expected[name])


def test_mask_and_segments_have_defaults(encoder, batch):
    ids = batch["input_ids"]
    filled = encoder.fill_defaults({"input_ids": ids})
    assert filled.keys() == batch.keys()
    np.testing.assert_array_equal(filled["input_mask"], tf.ones_like(ids))
    np.testing.assert_array_equal(filled["segment_ids"], tf.zeros_like(ids))


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
    passes.assert_close(shared, tf.gather_nd(alone, places)[:-1])


# Some positions only: [CLS], then others, one of them twice.
WANTED = tf.constant([[0, 5, 2], [0, 6, 6], [0, 3, 0]])


@pytest.mark.parametrize(
    ("changes", "options"),
    [
        ({}, {}),
        ({}, {"loop_layers": True}),
        ({"share": "none", "num_hidden_layers": 2}, {}),
        ({"num_hidden_layers": 1}, {}),
        ({"position_bias": "alibi", "pooling": "pair"}, {"recompute": True}),
        ({"position_bias": "relative"}, {"recompute": True}),
        ({"position_bias": "buckets"}, {"recompute": True}),
    ],
)
def test_wanted_outputs_and_gradients_are_those_of_all(changes, options):
    """In rows of two texts, whose masks and biases differ by position."""
    config = tiny_config(**{"num_hidden_layers": 2, **changes})
    model = AlbertModel(config, **options)
    batch = passes.packed(passes.make_batch())

    @tf.function
    def read(positions):
        with tf.GradientTape() as tape:
            outputs = model(
                batch,
                training=True,
                dropout_seed=tf.constant([1, 2]),
                output_positions=positions,
            )
            x = outputs["sequence_output"]
            if positions is None:
                x = tf.gather(x, WANTED, batch_dims=1)
            pooled = outputs["pooled_output"]
            loss = tf.reduce_sum(tf.sin(x)) + tf.reduce_sum(pooled)
        found = tape.gradient(loss, model.trainable_variables)
        return x, pooled, [tf.convert_to_tensor(g) for g in found]

    x, pooled, expected = read(None)
    few, few_pooled, actual = read(WANTED)
    passes.assert_close([few, few_pooled], [x, pooled])
    passes.assert_near(actual, expected)


@pytest.mark.parametrize("pooling", ["cls", "pair"])
def test_layers_before_the_last_are_whole(small_config, batch, pooling):
    config = dataclasses.replace(small_config, pooling=pooling)
    model = AlbertModel(config)
    *expected, last = model(batch)["all_encoder_layers"]
    outputs = model(batch, output_positions=WANTED)
    *others, few = outputs["all_encoder_layers"]
    for one, other in zip(others, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    passes.assert_close(few, tf.gather(last, WANTED, batch_dims=1))
    np.testing.assert_array_equal(few, outputs["sequence_output"])


def test_last_layer_computes_wanted_outputs_only(small_config, batch):
    """Its feed-forward part has three rows for each sequence, not ten."""
    model = AlbertModel(small_config)

    @tf.function
    def call(positions):
        return model(batch, output_positions=positions)["sequence_output"]

    def count(positions, rows):
        graph = call.get_concrete_function(positions).graph
        sizes = [
            operation.outputs[0].shape.as_list()
            for operation in graph.get_operations()
            if operation.type == "BiasAdd"
        ]
        inner = small_config.intermediate_size
        return sizes.count([3 * rows, inner]) + sizes.count([3, rows, inner])

    layers = small_config.num_hidden_layers * small_config.inner_group_num
    assert count(None, rows=10) == layers
    assert count(WANTED, rows=10) == layers - 1
    assert count(WANTED, rows=3) == 1
    # As many as there are tokens: nothing to save.
    assert count(tf.zeros([3, 10], tf.int32), rows=10) == layers


def test_too_long_sequences_are_refused(encoder):
    encoder.fill_defaults({"input_ids": tf.ones([1, 64], tf.int32)})
    with refused("65 tokens.*64 rows"):
        encoder({"input_ids": tf.ones([1, 65], tf.int32)})


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
    passes.assert_close(one, other, close * 4)
    passes.assert_near(actual, expected, close, rounding=1e-3)


@pytest.fixture
def policy(request):
    before = keras.mixed_precision.global_policy()
    keras.mixed_precision.set_global_policy(request.param)
    yield request.param
    keras.mixed_precision.set_global_policy(before)


@pytest.mark.parametrize("policy", ["mixed_bfloat16"], indirect=True)
def test_global_policy_is_the_default_precision(small_config, policy):
    ids = np.array([[2, 17, 30, 3], [2, 5, 6, 3]])
    model = AlbertModel(small_config)
    assert model.precision == "bfloat16"
    explicit = AlbertModel(small_config, precision="bfloat16")
    explicit.set_weights(model.get_weights())
    assert {v.dtype for v in model.variables} == {tf.float32}
    outputs = model(ids)
    assert outputs["sequence_output"].dtype == tf.bfloat16
    np.testing.assert_array_equal(
        outputs["pooled_output"], explicit(ids)["pooled_output"]
    )
    exact = AlbertModel(small_config, precision="float32")
    assert exact(ids)["sequence_output"].dtype == tf.float32


@pytest.mark.parametrize(
    "policy", ["mixed_float16", "float64", "bfloat16"], indirect=True
)
def test_other_global_policies_are_refused(policy, small_config):
    with refused(f"policy is '{policy}'. Allow"):
        AlbertModel(small_config)
    with refused("precision='half' is not known"):
        AlbertModel(small_config, precision="half")


def test_loop_is_refused_for_layers_of_their_own(small_config):
    with refused("`loop_layers=True` .* in 2 group"):
        AlbertModel(small_config, loop_layers=True)


def test_depth_and_dropout_may_be_changed(small_config, batch):
    """A depth above that of the config repeats the last layer."""
    config = dataclasses.replace(small_config, hidden_dropout_prob=0.25)
    encoder = AlbertModel(config)
    embedded = encoder(batch)["embedding_output"].numpy()
    key = passes.fold(passes.SEED, 0, 1)
    dropped = encoder(batch, **passes.TRAINING)["embedding_output"]
    passes.assert_close(dropped, passes.drop(embedded, 0.25, key))
    whole = encoder.transformer_layers
    for depth in (2, 4, 7):
        encoder.depth = depth
        layers = encoder.transformer_layers
        assert layers == (whole + whole[-2:] * 3)[: 2 * depth]
        assert len(encoder(batch)["all_encoder_layers"]) == 2 * depth
