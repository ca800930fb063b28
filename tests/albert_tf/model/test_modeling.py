"""The encoder: names, sharing, padding, dropout, arithmetic."""

import dataclasses
import math

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.common import errors
from albert_tf.model import modeling
from albert_tf.model.checkpoints import checkpoint_reader
from albert_tf.model.config import POSITION_BIASES
from tests.albert_tf.model import initial_weights
from tests.conftest import LAYER_ATOL, PARITY_ATOL, tiny_config
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
    tf.random.set_seed(1)
    return modeling.AlbertModel(small_config)


@pytest.fixture(params=POSITION_BIASES)
def any_encoder(small_config, request):
    """With each position bias."""
    tf.random.set_seed(1)
    return modeling.AlbertModel(
        dataclasses.replace(small_config, position_bias=request.param)
    )


@pytest.fixture
def batch():
    ids = np.random.default_rng(2).integers(5, 400, [3, 10])
    mask = np.arange(10) < np.array([[10], [7], [4]])
    return {
        "input_ids": tf.constant(ids * mask, tf.int32),
        "input_mask": tf.constant(mask, tf.int32),
        "segment_ids": tf.constant(mask & (np.arange(10) > 2), tf.int32),
    }


# Variables.


def named(model):
    return {checkpoint_reader.name_of(v): v for v in model.variables}


def test_weights_start_from_a_truncated_normal(small_config):
    tf.random.set_seed(4)
    encoder = modeling.AlbertModel(
        dataclasses.replace(small_config, initializer_range=0.05)
    )
    initial_weights.assert_initial(named(encoder), 0.05)


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
        ("none", 4, 4, 4),
    ],
)
def test_sharing_modes_have_the_variables_they_say(
    small_config, batch, share, groups, attentions, feed_forwards
):
    config = dataclasses.replace(
        small_config, share=share, num_hidden_groups=groups
    )
    encoder = modeling.AlbertModel(config)
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
    names = [
        checkpoint_reader.name_of(variable) for variable in encoder.variables
    ]
    assert len(names) == len(set(names))
    assert set(names) == OUTER_NAMES | expected
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(encoder(batch)["pooled_output"] ** 2)
    gradients = tape.gradient(loss, encoder.variables)
    assert all(gradient is not None for gradient in gradients)


def test_variables_have_the_names_of_the_original(encoder):
    expected = OUTER_NAMES | {
        f"{GROUP_PREFIX}{group}/inner_group_{inner}/{name}"
        for group in range(2)
        for inner in range(2)
        for name in BLOCK_NAMES
    }
    names = [
        checkpoint_reader.name_of(variable) for variable in encoder.variables
    ]
    assert len(names) == len(set(names))
    assert set(names) == expected


def test_equal_widths_need_no_mapping(encoder, small_config):
    config = dataclasses.replace(small_config, embedding_size=16)
    mapping = "bert/encoder/embedding_hidden_mapping_in"
    assert named(encoder).keys() - named(modeling.AlbertModel(config)) == {
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
        for name in named(modeling.AlbertModel(config))
        if name.startswith("bert/encoder/transformer")
    }
    assert groups == {f"group_{n}" for n in range(22) if n != 15}


@pytest.mark.parametrize("layers", [2, 12])
def test_layers_of_a_group_share_their_variables(small_config, layers):
    config = dataclasses.replace(small_config, num_hidden_layers=layers)
    encoder = modeling.AlbertModel(config)
    assert len(encoder.variables) == 9 + 2 * 2 * 16


# Outputs.


def test_outputs_have_the_documented_shapes(encoder, batch):
    outputs = encoder(batch)
    layers = outputs["all_encoder_layers"]
    assert len(layers) == 4 * 2
    assert all(layer.shape == (3, 10, 16) for layer in layers)
    assert outputs["word_embedding_output"].shape == (3, 10, 8)
    assert outputs["embedding_output"].shape == (3, 10, 8)
    assert outputs["pooled_output"].shape == (3, 16)
    np.testing.assert_array_equal(outputs["sequence_output"], layers[-1])


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


def test_position_ids_have_the_gradients_of_positions(encoder, batch):
    """Dense ones, too: the norm counts look-ups in another way."""
    _, plain = gradients(encoder, batch)
    positions = tf.tile(tf.range(10)[None], [3, 1])
    _, named = gradients(encoder, {**batch, "position_ids": positions})
    for one, other in zip(plain, named, strict=True):
        assert type(one) is type(other)
        np.testing.assert_allclose(
            tf.convert_to_tensor(other),
            tf.convert_to_tensor(one),
            *(1e-5, LAYER_ATOL),
        )


def test_too_long_sequences_are_refused(encoder):
    with pytest.raises(errors.UserError, match="65 tokens.*64 rows"):
        encoder({"input_ids": tf.ones([1, 65], tf.int32)})


@pytest.mark.parametrize(
    "key", ["hidden_dropout_prob", "attention_probs_dropout_prob"]
)
def test_dropout_follows_its_seed(small_config, batch, key):
    encoder = modeling.AlbertModel(
        dataclasses.replace(small_config, **{key: 0.5})
    )

    def output(training, seed):
        seed = None if seed is None else tf.constant([seed, 0])
        outputs = encoder(batch, training=training, dropout_seed=seed)
        return outputs["sequence_output"].numpy()

    np.testing.assert_array_equal(output(True, 1), output(True, 1))
    assert np.abs(output(True, 1) - output(True, 2)).max() > 0.01
    assert np.abs(output(True, None) - output(True, None)).max() > 0.01
    np.testing.assert_array_equal(output(False, 1), output(False, 2))
    assert np.abs(output(True, 1) - output(False, 1)).max() > 0.01


# The two sublayers against plain NumPy, in float64.


def make_part(part, config):
    """A sublayer; no bias is 0, and kernels are large."""
    tf.random.set_seed(3)
    layer = part(dataclasses.replace(config, initializer_range=0.3), "bert/x")
    generator = np.random.default_rng(4)
    for variable in layer.variables:
        if "beta" in variable.name or "bias" in variable.name:
            variable.assign(generator.normal(size=variable.shape) / 10)
    return layer, generator


def plain(layer, config):
    weights = {checkpoint_reader.name_of(v): v.numpy() for v in layer.variables}
    return reference.Encoder(config, weights)


def test_attention_equals_plain_numpy(small_config):
    layer, generator = make_part(modeling.Attention, small_config)
    x = generator.normal(size=[2, 6, 16])
    mask = np.array([[1] * 6, [1] * 4 + [0] * 2])
    attention_bias = tf.constant((1.0 - mask[:, None, None]) * -1e4, tf.float32)
    rows = modeling.Rows([attention_bias])
    expected = plain(layer, small_config).attend(x, mask, "bert/x", 0)
    for weights in (None, layer.prepare(tf.float32)):
        actual = layer(tf.constant(x, tf.float32), rows, weights)
        np.testing.assert_allclose(actual, expected, atol=LAYER_ATOL, rtol=0)


@pytest.mark.parametrize(
    ("activation", "function"),
    [
        ("gelu", reference.gelu),
        (
            "gelu_erf",
            lambda x: x / 2 * (1 + np.vectorize(math.erf)(x / 2**0.5)),
        ),
        ("relu", lambda x: np.maximum(x, 0)),
        ("tanh", np.tanh),
        ("linear", lambda x: x),
    ],
)
def test_feed_forward_equals_plain_numpy(small_config, activation, function):
    config = dataclasses.replace(small_config, hidden_act=activation)
    layer, generator = make_part(modeling.FeedForward, config)
    x = generator.normal(size=[2, 6, 16])
    expected = plain(layer, config).feed_forward(x, "bert/x", 0, function)
    for weights in (None, layer.prepare(tf.float32)):
        actual = layer(tf.constant(x, tf.float32), weights)
        np.testing.assert_allclose(actual, expected, atol=LAYER_ATOL, rtol=0)


def gradients(model, batch, seed=(1, 2)):
    """Sequence output and gradients of a training pass."""
    with tf.GradientTape() as tape:
        outputs = model(batch, training=True, dropout_seed=tf.constant(seed))
        x = tf.cast(outputs["sequence_output"], tf.float32)
        loss = tf.reduce_sum(tf.sin(x)) + tf.reduce_sum(
            outputs["pooled_output"]
        )
    found = tape.gradient(loss, model.trainable_variables)
    return x, [tf.convert_to_tensor(gradient) for gradient in found]


# Outputs at some positions only.

# [CLS], then others, one of them twice.
WANTED = tf.constant([[0, 5, 2], [0, 6, 6], [0, 3, 0]])


def read_at(output_positions, model, batch):
    """Outputs at `WANTED` and gradients, with all or few outputs computed."""
    with tf.GradientTape() as tape:
        outputs = model(
            batch,
            training=True,
            dropout_seed=tf.constant([1, 2]),
            output_positions=output_positions,
        )
        x = outputs["sequence_output"]
        if output_positions is None:
            x = tf.gather(x, WANTED, batch_dims=1)
        pooled = outputs["pooled_output"]
        loss = tf.reduce_sum(tf.sin(x)) + tf.reduce_sum(pooled)
    found = tape.gradient(loss, model.trainable_variables)
    return x, pooled, [tf.convert_to_tensor(gradient) for gradient in found]


@pytest.mark.parametrize(
    ("changes", "options"),
    [
        ({}, {}),
        ({}, {"recompute": True}),
        ({}, {"loop_layers": True}),
        ({"share": "none"}, {}),
        ({"num_hidden_layers": 1}, {}),
        ({"pooling": "pair"}, {}),
        ({"position_bias": "alibi"}, {}),
        ({"position_bias": "alibi"}, {"recompute": True}),
    ],
)
@pytest.mark.parametrize("is_packed", [False, True])
def test_wanted_outputs_and_gradients_are_those_of_all(
    batch, changes, options, is_packed
):
    config = tiny_config(**{"num_hidden_layers": 3, **changes})
    model = modeling.AlbertModel(config, **options)
    if is_packed:
        row = tf.constant([1, 1, 1, 1, 2, 2, 2, 0, 0, 0])
        mask = tf.cast(row[:, None] == row, tf.int32)
        positions = tf.constant([0, 1, 2, 3, 0, 1, 2, 0, 0, 0])
        batch["input_mask"] = tf.repeat(mask[None], 3, 0)
        batch["position_ids"] = tf.repeat(positions[None], 3, 0)
    x, pooled, expected = read_at(None, model, batch)
    few, few_pooled, actual = read_at(WANTED, model, batch)
    np.testing.assert_allclose(few, x, atol=LAYER_ATOL)
    np.testing.assert_allclose(few_pooled, pooled, atol=LAYER_ATOL)
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_wanted_outputs_in_evaluation_and_serving(any_encoder, batch):
    all_outputs = any_encoder(batch)
    expected = tf.gather(all_outputs["sequence_output"], WANTED, batch_dims=1)
    plain = any_encoder(batch, output_positions=WANTED)
    padding_skipped = any_encoder(
        batch, skip_padding=True, output_positions=WANTED
    )
    everywhere = any_encoder(
        batch, output_positions=tf.tile(tf.range(10)[None], [3, 1])
    )
    for outputs in (plain, padding_skipped, everywhere):
        for one, other in zip(
            outputs["all_encoder_layers"][:-1],
            all_outputs["all_encoder_layers"][:-1],
            strict=True,
        ):
            real = batch["input_mask"][:, :, None] > 0
            np.testing.assert_allclose(
                *(tf.where(real, x, 0) for x in (one, other)), atol=PARITY_ATOL
            )
    any_encoder.convert_for_serving()
    served = any_encoder(batch, output_positions=WANTED)
    for outputs in (plain, padding_skipped, served):
        last = outputs["all_encoder_layers"][-1]
        np.testing.assert_array_equal(last, outputs["sequence_output"])
        np.testing.assert_allclose(last, expected, atol=PARITY_ATOL)
        np.testing.assert_allclose(
            outputs["pooled_output"],
            all_outputs["pooled_output"],
            atol=PARITY_ATOL,
        )


def test_wanted_outputs_at_padding_are_zeros_where_it_is_skipped(
    any_encoder, batch
):
    outputs = any_encoder(
        batch,
        skip_padding=True,
        output_positions=tf.constant([[0, 9], [0, 7], [0, 4]]),
    )["sequence_output"].numpy()
    assert outputs[0, 1].any()
    assert not outputs[1:, 1].any()


def test_last_layer_computes_wanted_outputs_only(small_config, batch):
    """Its feed-forward part has three rows for each sequence, not ten."""
    model = modeling.AlbertModel(small_config)

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

    blocks = small_config.num_hidden_layers * small_config.inner_group_num
    assert count(None, rows=10) == blocks
    assert count(WANTED, rows=10) == blocks - 1
    assert count(WANTED, rows=3) == 1
    # As many as there are tokens: nothing to save.
    assert count(tf.zeros([3, 10], tf.int32), rows=10) == blocks


@pytest.mark.parametrize("dropout", [0.0, 0.2])
@pytest.mark.parametrize("share", ["all", "none"])
def test_recomputing_changes_no_number(small_config, batch, dropout, share):
    config = dataclasses.replace(
        small_config,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        num_hidden_layers=2,
        num_hidden_groups=1,
        inner_group_num=1,
        share=share,
    )
    plain = modeling.AlbertModel(config)
    again = modeling.AlbertModel(config, recompute=True)
    again.set_weights(plain.get_weights())
    one, expected = tf.function(gradients)(plain, batch)
    other, actual = tf.function(gradients)(again, batch)
    np.testing.assert_array_equal(one, other)
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def count_products(model, batch):
    """Matrix products of a training pass, in all functions of its graph."""
    traced = tf.function(lambda: gradients(model, batch))
    graph = traced.get_concrete_function().graph.as_graph_def()
    nodes = [
        *graph.node,
        *(n for f in graph.library.function for n in f.node_def),
    ]
    return sum(n.op in ("MatMul", "BatchMatMulV2", "Einsum") for n in nodes)


def test_recomputing_computes_every_block_again(small_config, batch):
    plain, again = (
        count_products(modeling.AlbertModel(small_config, recompute=r), batch)
        for r in (False, True)
    )
    blocks = small_config.num_hidden_layers * small_config.inner_group_num
    # Query, key and value as one; scores, their use, and three layers.
    assert again >= plain + 6 * blocks


@pytest.mark.parametrize("recompute", [False, True])
def test_loop_over_layers_gives_the_same_gradients(
    small_config, batch, recompute
):
    config = dataclasses.replace(
        small_config,
        num_hidden_groups=1,
        inner_group_num=1,
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.1,
    )
    plain = modeling.AlbertModel(config)
    loop = modeling.AlbertModel(config, recompute=recompute, loop_layers=True)
    loop.set_weights(plain.get_weights())
    one, expected = tf.function(gradients)(plain, batch)
    other, actual = tf.function(gradients)(loop, batch)
    np.testing.assert_allclose(one, other, rtol=1e-6)
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_loop_holds_the_products_of_one_layer(small_config, batch):
    config = dataclasses.replace(
        small_config, num_hidden_groups=1, inner_group_num=1
    )
    counts = {
        (layers, loop): count_products(
            modeling.AlbertModel(
                dataclasses.replace(config, num_hidden_layers=layers),
                loop_layers=loop,
            ),
            batch,
        )
        for layers in (2, 3)
        for loop in (False, True)
    }
    assert counts[3, True] == counts[2, True]
    assert counts[3, False] > counts[2, False]


def test_loop_is_refused_for_layers_of_their_own(small_config):
    with pytest.raises(
        errors.UserError, match="`loop_layers=True` .* 2 groups of 2 blocks"
    ):
        modeling.AlbertModel(small_config, loop_layers=True)


@pytest.mark.parametrize(
    ("precision", "close"), [("bfloat16", 0.05), ("float16", 0.01)]
)
def test_lower_precision_is_near_float32(small_config, batch, precision, close):
    exact = modeling.AlbertModel(small_config)
    model = modeling.AlbertModel(small_config, precision=precision)
    model.set_weights(exact.get_weights())
    assert {v.dtype for v in model.variables} == {tf.float32}
    outputs = model(batch)
    assert outputs["sequence_output"].dtype == precision
    assert outputs["pooled_output"].dtype == tf.float32
    one, expected = gradients(exact, batch)
    other, actual = gradients(model, batch)
    np.testing.assert_allclose(one, other, atol=close * 4, rtol=0)
    for a, b in zip(actual, expected, strict=True):
        difference = np.linalg.norm(a - b)
        assert difference <= close * np.linalg.norm(b) + 1e-3


@pytest.mark.parametrize(
    ("changes", "most"),
    [
        ({}, modeling.MOST_CONSTANT_BYTES),
        ({"position_bias": "alibi"}, modeling.MOST_CONSTANT_BYTES),
        ({}, 0),
        ({"share": "none"}, 0),
        ({"share": "none", "position_bias": "alibi"}, 0),
    ],
)
@pytest.mark.parametrize(
    ("precision", "atol"), [("float32", PARITY_ATOL), ("bfloat16", 0.05)]
)
def test_conversion_for_serving_changes_nothing_but_rounding(
    batch, monkeypatch, precision, atol, changes, most
):
    """Kernels as constants in a loop, kernels as variables, and no loop."""
    monkeypatch.setattr(modeling, "MOST_CONSTANT_BYTES", most)
    config = tiny_config(num_hidden_layers=3, **changes)
    encoder = modeling.AlbertModel(config, precision=precision)
    for variable in encoder.variables:  # Biases are 0 at the start.
        noise = tf.random.stateless_normal(variable.shape, [3, 4], stddev=0.1)
        variable.assign_add(noise)
    before = {
        skip_padding: encoder(batch, skip_padding=skip_padding)
        for skip_padding in (False, True)
    }
    encoder.convert_for_serving()
    for skip_padding, expected in before.items():
        actual = encoder(batch, skip_padding=skip_padding)
        for name in ("sequence_output", "pooled_output"):
            np.testing.assert_allclose(
                *(tf.cast(o[name], tf.float32) for o in (actual, expected)),
                atol=atol,
            )


def test_converted_kernels_are_in_the_graph_once():
    encoder = modeling.AlbertModel(
        tiny_config(num_hidden_layers=3), precision="bfloat16"
    )
    encoder.convert_for_serving()
    specs = [tf.TensorSpec([None, None], tf.int32)]
    call = tf.function(lambda ids: encoder({"input_ids": ids}), specs)
    library = call.get_concrete_function().graph.as_graph_def().library
    nodes = [node for f in library.function for node in f.node_def]
    kernels = [
        node
        for node in nodes
        if node.op == "Const"
        and len(node.attr["value"].tensor.tensor_content) >= 2 * 16 * 16
    ]
    # Of attention (in and out) and of the feed-forward (in and out).
    assert len(kernels) == 4
