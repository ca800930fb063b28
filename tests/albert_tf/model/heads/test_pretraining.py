"""The heads of pretraining: names, logits of words and of segments."""

import dataclasses

import pytest
import tensorflow as tf

from albert_tf.model.heads import pretraining
from albert_tf.model.network.encoder import AlbertModel
from tests.albert_tf.model import initial_weights, passes
from tests.conftest import LAYER_ATOL, PARITY_ATOL
from tests.reference import encoder as reference


@pytest.fixture
def model(small_config):
    return pretraining.AlbertPretrainer(AlbertModel(small_config))


@pytest.fixture
def batch():
    return passes.masked_batch()[0]


@pytest.mark.parametrize(
    ("order", "tasks", "token_tasks", "precision"),
    [
        (True, {}, [], "float32"),
        (True, {}, [], "bfloat16"),
        # With tasks about tokens all positions are computed.
        (False, {"distance": 3}, ["capitals"], "float32"),
    ],
)
def test_logits_equal_plain_numpy(
    small_config, batch, order, tasks, token_tasks, precision
):
    """And the table of words, before the encoder, is that of the output."""
    config = dataclasses.replace(
        small_config, inner_group_num=1, initializer_range=0.05
    )
    encoder = AlbertModel(config, precision=precision)
    model = pretraining.AlbertPretrainer(
        encoder, order, tasks=tasks, token_tasks=token_tasks
    )
    initial_weights.assert_initial(passes.head_of(model), 0.05)
    weights = passes.values(passes.fill(model))
    plain = reference.Encoder(config, weights)
    names = "input_ids", "input_mask", "segment_ids"
    below = plain.encode(*(batch[name] for name in names))
    positions = batch["masked_lm_positions"]
    x, pooled = below["sequence_output"], below["pooled_output"]
    expected = {"masked_lm_logits": plain.masked_lm_logits(x, positions)}
    linear = [(f"tasks/{name}", pooled) for name in tasks]
    linear += [(f"tasks/{name}", x) for name in token_tasks]
    linear += [("seq_relationship", pooled)] * order
    for scope, x in linear:
        name = scope.split("/")[-1].replace(
            "seq_relationship", "sentence_order"
        )
        kernel = weights[f"cls/{scope}/output_weights"].T
        expected[f"{name}_logits"] = x @ kernel
        expected[f"{name}_logits"] += weights[f"cls/{scope}/output_bias"]
    inputs = passes.tensors(batch)
    outputs = model(inputs)
    assert outputs.keys() == expected.keys()
    assert {value.dtype for value in outputs.values()} == {tf.float32}
    atol = PARITY_ATOL if precision == "float32" else 0.1
    passes.assert_close(outputs, expected, atol)
    sequence = encoder(inputs)["sequence_output"]
    words = model.masked_lm_logits(sequence, inputs["masked_lm_positions"])
    passes.assert_close(words, expected["masked_lm_logits"], atol)
    again = type(model).from_config(model.get_config())
    assert passes.named(again).keys() == weights.keys()


@pytest.mark.parametrize("unknown", ["masked_lm_positions", "cls_positions"])
def test_widths_may_be_unknown_when_the_graph_is_built(
    small_config, batch, unknown
):
    model = pretraining.AlbertPretrainer(AlbertModel(small_config))
    inputs = {
        name: tf.constant(batch[name])
        for name in ("input_ids", "masked_lm_positions")
    }
    inputs["cls_positions"] = tf.constant([[0, 6], [0, 5], [0, 9], [0, 3]])
    specs = {
        name: tf.TensorSpec(t.shape, t.dtype) for name, t in inputs.items()
    }
    specs[unknown] = tf.TensorSpec([None, None], tf.int32)
    call = tf.function(model, input_signature=[specs])
    expected = model(inputs)
    found = call(inputs)
    assert found.keys() == expected.keys()
    passes.assert_close(found, dict(expected), 1e-5)


POSITIONS = {"masked_lm_positions": tf.constant([[1, 2], [2, 0], [3, 0]])}


def test_without_sentence_order_there_are_neither_variables_nor_logits(
    small_config,
):
    encoder = AlbertModel(small_config)
    one, other = (
        pretraining.AlbertPretrainer(encoder, order, tasks={"distance": 3})
        for order in (True, False)
    )
    assert passes.named(one).keys() - passes.named(other) == {
        "cls/seq_relationship/output_weights",
        "cls/seq_relationship/output_bias",
    }
    inputs = {**passes.make_batch(), **POSITIONS}
    found = other(inputs).keys()
    assert found == {"masked_lm_logits", "distance_logits"}
    assert one(inputs).keys() == found | {"sentence_order_logits"}


@pytest.mark.parametrize(
    ("training", "token_tasks"), [(True, []), (False, ["capitalization"])]
)
def test_each_instance_of_a_row_has_logits_of_its_own(
    small_config, training, token_tasks
):
    config = dataclasses.replace(small_config, initializer_range=0.05)
    model = pretraining.AlbertPretrainer(
        AlbertModel(config), tasks={"distance": 3}, token_tasks=token_tasks
    )
    initial_weights.assert_initial(passes.head_of(model), 0.05)
    weights = passes.values(passes.fill(model))
    row = {**passes.packed(passes.make_batch()), **POSITIONS}
    row["cls_positions"] = tf.constant([[0, 4]] * 3)
    found = model(row, training=training)
    assert found.keys() == {
        f"{name}_logits"
        for name in ("masked_lm", "sentence_order", "distance", *token_tasks)
    }
    order, distance = found["sentence_order_logits"], found["distance_logits"]
    assert (order.shape, distance.shape) == ([3, 2, 2], [3, 2, 3])
    for number, columns in enumerate((slice(0, 4), slice(4, 7))):
        alone = {
            name: row[name][:, columns] for name in ("input_ids", "segment_ids")
        }
        outputs = model.encoder(alone)
        pooled = outputs["pooled_output"]
        logits = {
            "seq_relationship": (pooled, order[:, number]),
            "tasks/distance": (pooled, distance[:, number]),
        }
        for name in token_tasks:
            logits[f"tasks/{name}"] = (
                outputs["sequence_output"],
                found[f"{name}_logits"][:, columns],
            )
        for scope, (x, actual) in logits.items():
            expected = x @ weights[f"cls/{scope}/output_weights"].T
            expected += weights[f"cls/{scope}/output_bias"]
            passes.assert_close(actual, expected, 10 * LAYER_ATOL)


def test_a_row_of_instances_needs_a_pooler_of_the_first_token(small_config):
    config = dataclasses.replace(small_config, pooling="pair")
    model = pretraining.AlbertPretrainer(AlbertModel(config))
    row = {**passes.make_batch(), **POSITIONS}
    with pytest.raises(ValueError, match="pooling=cls"):
        model({**row, "cls_positions": tf.constant([[0]] * 3)})
