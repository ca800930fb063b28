"""The head of two segments: optional, and for several instances in a row."""

import dataclasses

import pytest
import tensorflow as tf

from albert_tf.model.heads import pretraining
from albert_tf.model.network.encoder import AlbertModel
from tests.albert_tf.model import initial_weights, passes
from tests.conftest import LAYER_ATOL

POSITIONS = {"masked_lm_positions": tf.constant([[1, 2], [2, 0], [3, 0]])}


def test_without_it_there_are_neither_variables_nor_logits(small_config):
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
