"""Instances that share a row are learned like those in rows of their own."""

import pytest
import tensorflow as tf
import tf_keras as keras

from albert_tf.data import packed_rows, parsing
from albert_tf.model.heads import pretraining
from albert_tf.model.losses import pretraining_objective
from albert_tf.model.network.encoder import AlbertModel
from tests.albert_tf.data import short_records
from tests.albert_tf.training import update_runs
from tests.conftest import tiny_config


@pytest.fixture
def packed():
    """Instances of 4 to 16 tokens in rows that they share, and in their own."""
    encoded = short_records.encode(short_records.make(22))
    packing = packed_rows.Packing(short_records.LAYOUT)
    rows = packing.pack(tf.data.Dataset.from_tensor_slices(encoded))
    shared = packed_rows.join(tf.stack(list(rows)), packing.layout)
    alone = parsing.parse(packing.layout, tf.constant(encoded))
    alone["is_real_example"] = tf.ones([len(encoded)], tf.int32)
    assert len(shared["input_ids"]) % 2 == 0 < len(shared["input_ids"]) < 20
    return shared, alone


@pytest.mark.parametrize(
    ("objective", "parts", "recompute"),
    [
        ("sop", 2, True),
        pytest.param("sop", 1, False, marks=pytest.mark.slow),
        pytest.param("none", 2, False, marks=pytest.mark.slow),
    ],
)
def test_instances_of_a_row_are_learned_like_those_of_their_own(
    packed, objective, parts, recompute
):
    """Losses, accuracies, gradients and their norm."""
    config = tiny_config(num_hidden_layers=2)

    def make(parts):
        keras.utils.set_random_seed(2)
        encoder = AlbertModel(config, recompute=recompute)
        return update_runs.make_step(
            pretraining.AlbertPretrainer(encoder, objective != "none"),
            pretraining_objective.make(objective),
            parts=parts,
        )

    shared, alone = packed
    plain = update_runs.run(lambda: make(1), alone, compiled=False)
    assert (plain[0][:, :-1, 1] > 0).all()
    update_runs.assert_same(
        plain, update_runs.run(lambda: make(parts), shared, compiled=False)
    )
