"""The head of two segments: optional, and for several instances in a row."""

import dataclasses

import pytest
import tensorflow as tf

from albert_tf.model.heads import pretraining
from albert_tf.model.network.encoder import AlbertModel
from tests.albert_tf.model import initial_weights, passes
from tests.conftest import LAYER_ATOL

TASKS = "seq_relationship", "tasks/distance", "tasks/capitalization"
POSITIONS = {"masked_lm_positions": tf.constant([[1, 2], [2, 0], [3, 0]])}


def test_heads_of_tasks_start_from_the_range_of_the_config(small_config):
    encoder = AlbertModel(
        dataclasses.replace(small_config, initializer_range=0.3)
    )
    model = pretraining.AlbertPretrainer(
        encoder, tasks={"distance": 3}, token_tasks=["capitalization"]
    )
    heads = passes.head_of(model)
    sizes = [heads[f"cls/{name}/output_bias"].shape[0] for name in TASKS]
    assert sizes == [2, 3, 2]
    initial_weights.assert_initial(heads, 0.3)


def test_without_it_there_are_neither_variables_nor_logits(small_config):
    encoder = AlbertModel(small_config)
    one, other = (
        pretraining.AlbertPretrainer(encoder, sentence_order=order)
        for order in (True, False)
    )
    assert passes.named(one).keys() - passes.named(other) == {
        "cls/seq_relationship/output_weights",
        "cls/seq_relationship/output_bias",
    }
    inputs = {**passes.make_batch(), **POSITIONS}
    assert one(inputs).keys() - other(inputs) == {"sentence_order_logits"}


@pytest.mark.parametrize("training", [False, True])
def test_each_instance_of_a_row_has_logits_of_its_own(small_config, training):
    model = pretraining.AlbertPretrainer(AlbertModel(small_config))
    passes.fill(model)
    row = {**passes.packed(passes.make_batch()), **POSITIONS}
    row["cls_positions"] = tf.constant([[0, 4]] * 3)
    found = model(row, training=training)["sentence_order_logits"]
    assert found.shape == [3, 2, 2]
    for number, columns in enumerate((slice(0, 4), slice(4, 7))):
        alone = {
            name: row[name][:, columns] for name in ("input_ids", "segment_ids")
        }
        pooled = model.encoder(alone)["pooled_output"]
        expected = model.sentence_order_logits(pooled)
        passes.assert_close(found[:, number], expected, 10 * LAYER_ATOL)
