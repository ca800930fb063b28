"""Evaluation and prediction over whole datasets."""

import types

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.training import evaluation
from tests.albert_tf.training import tiny_training
from tests.conftest import LOSS_RTOL, make_replicas, refused


def test_evaluation_depends_on_neither_batches_nor_replicas(make_trainer):
    trainer, mirrored = make_trainer(), make_trainer(strategy=make_replicas())
    first, *others = [
        trainer.evaluate(tiny_training.padded(10, size)) for size in (1, 3, 16)
    ]
    others.append(mirrored.evaluate(tiny_training.padded(10, 4)))
    for other in others:
        # Every batch adds the epsilon of the masked-word loss once.
        assert other == pytest.approx(first, rel=LOSS_RTOL)


@pytest.mark.parametrize("replicas", [1, 2])
def test_prediction_returns_real_examples_in_order(make_trainer, replicas):
    trainer = make_trainer(strategy=make_replicas(replicas))
    outputs = trainer.predict(tiny_training.padded(6, 4))
    expected = trainer.model(
        {k: v[:6] for k, v in tiny_training.EXAMPLES.items()}
    )
    for name, value in expected.items():
        np.testing.assert_allclose(outputs[name], value, atol=1e-5)


def test_prediction_puts_numbered_records_in_order(make_trainer):
    trainer = make_trainer()
    expected = trainer.predict(tiny_training.padded(6, 4))
    order = np.array([4, 1, 0, 5, 3, 2], np.int32)
    shuffled = {k: v[order] for k, v in tiny_training.EXAMPLES.items()}
    dataset = tf.data.Dataset.from_tensor_slices(
        {**shuffled, "record_number": order}
    )
    outputs = trainer.predict(dataset.batch(3))
    for name, value in expected.items():
        np.testing.assert_allclose(outputs[name], value, atol=1e-5)
    with refused("no examples to predict"):
        trainer.predict(dataset.take(0))


def test_the_loss_is_the_sum_of_losses_times_their_factors():
    objective = types.SimpleNamespace(
        names=("a_loss", "b_loss", "no_loss", "no_accuracy"),
        losses={"a_loss": 0.5, "b_loss": 3.0, "no_loss": 2.0},
    )
    sums = np.array([[6, 2], [4, 4], [0, 0], [0, 0]])
    found = evaluation.mean_values(objective, sums)
    assert found == {"loss": 4.5, "a_loss": 3, "b_loss": 1}


def test_outputs_of_short_batches_are_widened():
    parts = [
        {"logits": np.ones([2, 3]), "tags": np.ones([2, 3, 2])},
        {"logits": np.ones([1, 5]), "tags": np.ones([1, 3, 2])},
    ]
    joined = evaluation.concatenate(parts, {"logits": 6, "tags": 4})
    expected = [[1, 1, 1, 0, 0, 0]] * 2 + [[1, 1, 1, 1, 1, 0]]
    assert joined["logits"].tolist() == expected
    assert joined["tags"].tolist() == [[[1, 1]] * 3 + [[0, 0]]] * 3
