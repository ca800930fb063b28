"""Restoring checkpoints by name: everything fits, or nothing changes."""

import dataclasses
import re

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from albert_tf.model import model_options
from albert_tf.model.checkpoints import checkpoint_reader, restoring
from albert_tf.model.config import AlbertConfig
from albert_tf.model.heads import (
    classification,
    decoder,
    pretraining,
    replaced_tokens,
)
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.model.optimizers import optimization
from albert_tf.tasks.embedding import model as embedding
from tests import tf1_checkpoints
from tests.albert_tf.model import passes
from tests.conftest import FIXTURES, refused

RECORDED = str(FIXTURES / "original_tiny_lamb" / "model.ckpt-0")


@pytest.fixture
def recorded_config():
    path = FIXTURES / "original_tiny_lamb" / "albert_config.json"
    return AlbertConfig.from_json_file(str(path))


@pytest.fixture
def pretrainer(small_config):
    return pretraining.AlbertPretrainer(AlbertModel(small_config))


def save(model, path):
    return tf.train.Checkpoint(model=model).write(str(path))


def assert_same_values(model, expected):
    for name, value in passes.values(model).items():
        np.testing.assert_array_equal(value, expected[name], err_msg=name)


def test_heads_that_a_model_lacks_are_not_read(
    pretrainer, small_config, tmp_path
):
    prefix = save(passes.fill(pretrainer), tmp_path / "model.ckpt-7")
    encoder = AlbertModel(small_config)
    assert restoring.restore(encoder, prefix) == restoring.Restored(prefix, ())
    assert_same_values(encoder, passes.values(pretrainer))


@pytest.mark.parametrize("head", [False, True])
def test_encoders_of_two_scopes_start_from_one_checkpoint(
    small_config, tmp_path, head
):
    """They are a question's and a text's encoder in one Keras model."""
    one = AlbertModel(small_config)
    prefix = save(passes.fill(one), tmp_path / "model.ckpt-7")
    two = AlbertModel(small_config, "second.one")
    made = classification.AlbertClassifier(two, 2) if head else two
    restored = restoring.restore(made, prefix, new_heads=True)
    assert [*restored.new] == ["output_weights", "output_bias"] * head
    for ours, theirs in zip(two.variables, one.variables, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    ids = keras.Input([4], dtype=tf.int32)
    outputs = [model(ids)["pooled_output"] for model in (one, two)]
    joined = keras.Model(ids, outputs)
    first, second = joined(tf.constant([[2, 7, 9, 3]]))
    np.testing.assert_array_equal(first, second)
    passes.fill(two, 0.3)
    again = save(two, tmp_path / "model.ckpt-8")
    fresh = AlbertModel(small_config, "second.one")
    restoring.restore(fresh, again)
    assert_same_values(fresh, passes.values(two))


def test_every_variable_without_a_partner_is_listed(
    pretrainer, small_config, tmp_path
):
    prefix = save(pretrainer, tmp_path / "model.ckpt-7")
    config = dataclasses.replace(
        small_config, num_hidden_groups=1, vocab_size=401
    )
    other = AlbertModel(dataclasses.replace(config, inner_group_num=3))
    before = passes.values(other)
    with refused() as error:
        restoring.restore(other, prefix)
    message = str(error.value)
    transformer = "bert/encoder/transformer"
    for line in (
        "bert/embeddings/word_embeddings: model [401, 8], checkpoint [400, 8]",
        f"{transformer}/group_0/inner_group_2/LayerNorm/beta: "
        "model [16], checkpoint nothing",
        f"{transformer}/group_1/inner_group_0/LayerNorm/beta: "
        "model nothing, checkpoint [16]",
    ):
        assert f"  {line}\n" in message
    assert "cls/" not in message
    assert_same_values(other, before)


def test_other_layouts_are_named(small_config, tmp_path):
    names = ["albert/pooler/b", "albert/pooler/w"]
    values = dict.fromkeys(names, np.zeros(16, np.float32))
    prefix = tf1_checkpoints.write(tmp_path / "x.ckpt", values)
    message = "none of the model's variables, but albert/pooler/b, albert/pool"
    with refused(message):
        restoring.restore(AlbertModel(small_config), prefix)


def test_new_scopes_keep_their_values(pretrainer, small_config, tmp_path):
    encoder = pretrainer.encoder
    prefix = save(encoder, tmp_path / "encoder")
    other = pretraining.AlbertPretrainer(AlbertModel(small_config))
    before = passes.values(other)
    restored = restoring.restore(
        other, prefix, new_scopes=("cls/predictions", "cls/seq_relationship")
    )
    heads = {name for name in before if name.startswith("cls/")}
    assert set(restored.new) == heads
    assert "except these, which are new: cls/" in restored.describe()
    assert_same_values(other, {**before, **passes.values(encoder)})


def test_a_head_may_be_new_if_all_of_it_is_missing(
    pretrainer, small_config, tmp_path
):
    def classifier(labels):
        return classification.AlbertClassifier(
            AlbertModel(small_config), labels
        )

    new = ("output_weights", "output_bias")
    three, other, two = classifier(3), classifier(3), classifier(2)
    prefix = save(pretrainer, tmp_path / "model.ckpt-7")
    with refused("output_bias: model .3., checkpoint nothing"):
        restoring.restore(three, prefix)
    assert restoring.restore(three, prefix, new_heads=True).new == new
    # A head that is there must fit.
    prefix = save(three, tmp_path / "mnli")
    assert restoring.restore(other, prefix, new_heads=True).new == ()
    assert_same_values(other, passes.values(three))
    with refused("`new_weights`"):
        restoring.restore(two, prefix, new_heads=True)
    assert restoring.restore(two, prefix, new_scopes=new).new == new


def test_start_of_another_objective_says_what_is_new(
    pretrainer, small_config, tmp_path
):
    def detector(sharing):
        return replaced_tokens.ReplacedTokenDetector(
            AlbertModel(small_config), small_config, sharing
        )

    prefix = save(pretrainer, tmp_path / "mlm")
    for sharing, parts in (
        ("embeddings", "generator,cls/replaced_tokens"),
        ("all", "cls/replaced_tokens"),
    ):
        scopes = sorted(parts.split(","))
        with refused(f"`new_weights={','.join(scopes)}`"):
            restoring.restore(detector(sharing), prefix)
        restored = restoring.restore(
            detector(sharing), prefix, new_scopes=scopes
        )
        found = {checkpoint_reader.part_of(name) for name in restored.new}
        assert found == set(scopes)
    # Something else is wrong, too.
    other = dataclasses.replace(small_config, intermediate_size=8)
    model = replaced_tokens.ReplacedTokenDetector(AlbertModel(other), other)
    with refused("Use the albert_config.json"):
        restoring.restore(model, prefix)


@pytest.mark.parametrize(
    ("left", "message"),
    [
        ("output_weights", "output_bias: model"),
        ("output_bias", "output_weights: model"),
    ],
)
def test_half_a_head_is_an_error(small_config, tmp_path, left, message):
    model = classification.AlbertClassifier(AlbertModel(small_config), 3)
    values = passes.values(model)
    kept = {n: v for n, v in values.items() if "bert/" in n or n == left}
    prefix = tf1_checkpoints.write(tmp_path / "x", kept)
    with refused(message):
        restoring.restore(model, prefix, new_heads=True)


@pytest.mark.parametrize("scope", ["cls/sop", "cls/seq"])
def test_unknown_scope_is_an_error(pretrainer, scope):
    with refused(f"'{scope}', but no variable.*cls/seq_relation"):
        restoring.restore(pretrainer, RECORDED, new_scopes=(scope,))


@pytest.mark.parametrize(
    "change",
    [{"num_hidden_groups": 4}, {"share": "none"}, {"share": "attention"}],
)
def test_groups_may_start_from_the_first(recorded_config, change, caplog):
    encoder = AlbertModel(dataclasses.replace(recorded_config, **change))
    with refused("group_3/.*checkpoint nothing"):
        restoring.restore(encoder, RECORDED)
    options = model_options.InitOptions(RECORDED, init_from_group0=True)
    with caplog.at_level("INFO", "absl"):
        restored = restoring.initialize(encoder, options)
    copied = f"{len(restored.copied)} take the values of another layer."
    assert caplog.messages == [f"All weights start from {RECORDED}. {copied}"]
    shared = AlbertModel(recorded_config)
    assert not restoring.initialize(shared, options).copied
    assert "`init_from_group0` changed nothing" in caplog.text
    assert restoring.initialize(shared, model_options.InitOptions()) is None
    inputs = {"input_ids": tf.constant([[2, 48, 25, 3]])}
    np.testing.assert_array_equal(
        encoder(inputs)["sequence_output"], shared(inputs)["sequence_output"]
    )


def write_with_config(model, folder):
    prefix = save(model, folder / "model.ckpt-1")
    config = getattr(model, "encoder", model).config
    (folder / "albert_config.json").write_text(config.to_json())
    return prefix


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hidden_act", "relu"),
        ("num_attention_heads", 4),
        ("num_hidden_layers", 6),
        ("position_bias", "alibi"),
        ("layer_norm_eps", 0.05),
    ],
)
def test_weights_of_another_function_are_refused(
    small_config, tmp_path, key, value
):
    prefix = write_with_config(AlbertModel(small_config), tmp_path)
    other = AlbertModel(dataclasses.replace(small_config, **{key: value}))
    stored = getattr(small_config, key)
    with refused(f"  {key}: model {value}, checkpoint {stored}\n"):
        restoring.restore(other, prefix)


@pytest.mark.parametrize(
    ("depths", "share", "groups", "sources"),
    [
        ((2, 3), "all", (1, 1), ([0], [0])),
        ((2, 4), "all", (2, 4), ([0, 0, 1, 1], [0, 0, 1, 1])),
        # Its second group begins in the first half of the layers.
        ((2, 5), "all", (2, 3), ([0, 0, 1], [0, 0, 1])),
        # So does this one's, but most of its layers are of the second.
        ((3, 6), "all", (2, 2), ([0, 1], [0, 1])),
        ((2, 3), "attention", (1, 1), ([0], [0, 0, 1])),
        ((2, 5), "ffn", (1, 1), ([0, 0, 0, 1, 1], [0])),
        ((3, 5), "none", (1, 1), ([0, 0, 1, 1, 2], [0, 0, 1, 1, 2])),
    ],
)
def test_a_deeper_network_starts_from_a_shallower_one(
    small_config, tmp_path, depths, share, groups, sources
):
    """`sources`: whose values groups of attentions, and of ffns, take."""
    attentions, ffns = sources
    configs = [
        dataclasses.replace(
            small_config,
            num_hidden_layers=depth,
            share=share,
            num_hidden_groups=count,
            inner_group_num=2 if share == "all" else 1,
        )
        for depth, count in zip(depths, groups, strict=True)
    ]
    # With a decoder, whose layers are the encoder's.
    shallow, deep = (decoder.SpanPretrainer(AlbertModel(c)) for c in configs)
    passes.fill(shallow)
    prefix = write_with_config(shallow, tmp_path)
    with refused("num_hidden_layers|group_"):
        restoring.restore(deep, prefix)
    restored = restoring.restore(deep, prefix, layers="shallower")
    expected, found = passes.values(shallow), passes.values(deep)
    copied = set()
    for name, value in found.items():
        source = name
        if match := re.search(r"/group_(\d)/\D+_\d/(\w+)", name):
            of_ffn = match[2] in ("ffn_1", "LayerNorm_1")
            group = (ffns if of_ffn else attentions)[int(match[1])]
            source = name.replace(f"/group_{match[1]}/", f"/group_{group}/")
        if source != name:
            copied.add(name)
        np.testing.assert_array_equal(value, expected[source], err_msg=name)
    assert set(restored.copied) == copied


def test_depth_must_be_known_and_smaller(small_config, tmp_path):
    config = dataclasses.replace(
        small_config, num_hidden_layers=2, num_hidden_groups=1
    )
    prefix = save(AlbertModel(config), tmp_path / "model.ckpt-1")
    deeper = dataclasses.replace(config, num_hidden_layers=4)
    with refused("no albert_config.json beside"):
        restoring.restore(AlbertModel(deeper), prefix, layers="shallower")
    (tmp_path / "albert_config.json").write_text(deeper.to_json())
    with refused("4 layers, more than the 2"):
        restoring.restore(AlbertModel(config), prefix, layers="shallower")
    same = restoring.restore(AlbertModel(deeper), prefix, layers="shallower")
    assert not same.copied


def test_a_head_with_other_pooling_gets_a_new_pooler(small_config, tmp_path):
    stored = AlbertModel(small_config)
    prefix = write_with_config(stored, tmp_path)
    config = dataclasses.replace(small_config, pooling="pair")
    with refused("pooling=cls, .* pooling=pair"):
        restoring.restore(AlbertModel(config), prefix)
    model = classification.AlbertClassifier(AlbertModel(config), 2)
    restored = restoring.restore(model, prefix, new_heads=True)
    pooler = {f"bert/pooler/dense/{part}" for part in ("kernel", "bias")}
    assert set(restored.new) == {"output_weights", "output_bias", *pooler}
    np.testing.assert_array_equal(
        model.encoder.embeddings.word_embeddings,
        stored.embeddings.word_embeddings,
    )


def test_a_head_that_reads_no_pooler_needs_none(small_config, tmp_path):
    stored = AlbertModel(small_config, with_pooler=False)
    assert "pooled_output" not in stored({"input_ids": [[2, 3]]})
    prefix = write_with_config(stored, tmp_path)
    model = embedding.AlbertEmbedder(AlbertModel(small_config))
    restored = restoring.restore(model, prefix, new_heads=True)
    assert all(name.startswith("bert/pooler/") for name in restored.new)
    model = classification.AlbertClassifier(AlbertModel(small_config), 2)
    with refused("The checkpoint has no pooler"):
        restoring.restore(model, prefix, new_heads=True)


def test_a_pooler_of_other_pooling_is_never_dropped(small_config, tmp_path):
    config = dataclasses.replace(small_config, pooling="pair")
    prefix = write_with_config(AlbertModel(config), tmp_path)
    model = classification.AlbertClassifier(AlbertModel(small_config), 2)
    with refused("`pooling=pair` is enough"):
        restoring.restore(model, prefix, new_heads=True)
    restored = restoring.restore(
        model, prefix, new_heads=True, new_scopes=["bert/pooler"]
    )
    assert len(restored.new) == 4
    # Without a config file the pooler is believed to be that of the model.
    stored = AlbertModel(config)
    prefix = save(stored, tmp_path / "elsewhere" / "model.ckpt-1")
    model = classification.AlbertClassifier(AlbertModel(config), 2)
    restoring.restore(model, prefix, new_heads=True)
    np.testing.assert_array_equal(
        model.encoder.pooler.kernel, stored.pooler.kernel
    )


def recorded_values():
    names = checkpoint_reader.read(RECORDED).shapes
    return checkpoint_reader.read(RECORDED).load(names)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.zeros([48], "f8"), "as float64; weights are float32"),
        (np.array([np.nan] + [0] * 47, "f4"), "are not finite"),
        (np.array([np.inf] + [0] * 47, "f4"), "are not finite"),
    ],
)
def test_weights_are_finite_float32_numbers(
    recorded_config, tmp_path, value, message
):
    name = "bert/pooler/dense/bias"
    values = {**recorded_values(), name: value}
    prefix = tf1_checkpoints.write(tmp_path / "x", values)
    encoder = AlbertModel(recorded_config)
    before = passes.values(encoder)
    for refuse in (
        lambda: restoring.restore(encoder, prefix),
        lambda: restoring.require_finite_weights(prefix),
    ):
        with refused(f"x` .* {name}.* {message}"):
            refuse()
    assert_same_values(encoder, before)
    values = {**recorded_values(), "cls/predictions/output_bias": value}
    restoring.require_finite_weights(
        tf1_checkpoints.write(tmp_path / "x", values)
    )


def test_groups_come_from_a_checkpoint_with_one_only():
    folder = FIXTURES / "original_tiny_adamw_groups"
    config = AlbertConfig.from_json_file(str(folder / "albert_config.json"))
    config = dataclasses.replace(config, num_hidden_groups=4)
    with refused("has 2 groups of layers, but"):
        restoring.restore(
            AlbertModel(config),
            str(folder / "model.ckpt-0"),
            layers="group0",
        )


def optimizer_of(model):
    optimizer = optimization.make_optimizer(
        model_options.OptimizerOptions(), 100, 0
    )
    optimizer.build(model.trainable_variables)
    return optimizer


def moments_of(optimizer, variables):
    """By the original's names."""
    return {
        f"{checkpoint_reader.name_of(variable)}/{kind}": moment.numpy()
        for kind in ("adam_m", "adam_v")
        for variable, moment in zip(
            variables, getattr(optimizer, kind), strict=True
        )
    }


def test_moments_and_step_of_the_original_are_restored(
    recorded_config, tmp_path
):
    path = RECORDED.removesuffix("0") + "8"
    model = pretraining.AlbertPretrainer(AlbertModel(recorded_config))
    optimizer = optimizer_of(model)
    variables = model.trainable_variables
    restoring.restore_optimizer(optimizer, variables, path)
    assert int(optimizer.iterations) == 8
    stored = tf1_checkpoints.read(path)
    for name, value in moments_of(optimizer, variables).items():
        np.testing.assert_array_equal(value, stored[name])
        assert value.any(), name
    wrong = f"{checkpoint_reader.name_of(variables[1])}/adam_v"
    for change, message in (
        (
            {wrong: np.zeros([3], "f4")},
            rf"x` holds {wrong} as \(3,\), the model",
        ),
        (
            {wrong: None},
            f"x` lacks 1 values of the optimizer state, .* {wrong}",
        ),
        ({wrong: None, "global_step": None}, "lacks 2 values .* bert/"),
    ):
        kept = {n: v for n, v in {**stored, **change}.items() if v is not None}
        prefix = tf1_checkpoints.write(tmp_path / "x", kept)
        with refused(message):
            restoring.restore_optimizer(optimizer, variables, prefix)


def test_moments_of_muon_are_for_muon_only(pretrainer, tmp_path):
    """A kernel without a gradient has zeros as well, and all of a new run."""
    variables = pretrainer.trainable_variables
    muon, again = optimization.Muon(0.1), optimization.Muon(0.1)
    for optimizer in (muon, again):
        optimizer.build(variables)
    path = str(tmp_path / "model.ckpt-1")
    checkpoint = tf.train.Checkpoint(model=pretrainer, optimizer=muon)
    checkpoint.write(path)
    other = optimizer_of(pretrainer)
    restoring.restore_optimizer(other, variables, path)
    ones = [tf.ones_like(v) for v in variables]
    muon.update(ones, variables, tf.constant(1.0), tf.constant(True))
    checkpoint.write(path)
    with refused("holds the moments of Muon"):
        restoring.restore_optimizer(other, variables, path)
    restoring.restore_optimizer(again, variables, path)
    assert int(again.iterations) == 1
    kernel = next(i for i, v in enumerate(variables) if "/kernel" in v.name)
    muon.adam_v[kernel].assign(tf.ones_like(variables[kernel]))
    checkpoint.write(path)
    restoring.restore_optimizer(other, variables, path)
    expected = moments_of(muon, variables)
    passes.assert_close(moments_of(other, variables), expected, 0)
