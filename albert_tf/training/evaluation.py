"""Losses, metrics and outputs of a model over a dataset."""

from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf
import tf_keras as keras

from albert_tf.common import errors
from albert_tf.model.losses import objectives

_RECORD_NUMBER = "record_number"


class Evaluator:
    """Evaluates a model, and predicts, on the devices it was built on.

    Weights are read at every call, so one object serves the whole training.
    """

    def __init__(self, model: keras.Model, objective: objectives.Objective):
        self._model = model
        self._objective = objective
        self._strategy = model.distribute_strategy
        # Without AutoGraph, whose rewriting takes longer than all the tracing.
        # Batches have several lengths; they share one trace.
        trace = tf.function(autograph=False, reduce_retracing=True)
        self._evaluate_batch = trace(self._run_evaluation)
        self._predict_batch = trace(self._run_prediction)

    def evaluate(self, dataset: tf.data.Dataset) -> dict[str, float]:
        """Return every loss and metric of the objective over a dataset.

        DIFFERS: the original repeats the examples, drops a last short batch,
        and its loss is the mean of the losses of the batches.
        """
        sums = np.zeros([len(self._objective.names), 2])
        for batch in self._strategy.experimental_distribute_dataset(dataset):
            sums += self._evaluate_batch(batch).numpy()
        return mean_values(self._objective, sums)

    def predict(
        self, dataset: tf.data.Dataset, lengths: Mapping[str, int] | None = None
    ) -> dict[str, np.ndarray]:
        """Return the model's outputs for all examples, in the data's order.

        Args:
            dataset: Batches; with the feature `record_number` they may be in
                any order.
            lengths: Size of the second axis, by output, that batches of
                shorter sequences are filled up to with zeros.
        """
        batches: list[dict[str, np.ndarray]] = []
        for batch in self._strategy.experimental_distribute_dataset(dataset):
            outputs, (is_real, record_numbers) = self._predict_batch(batch)
            outputs[_RECORD_NUMBER] = record_numbers
            is_kept = self._gather(is_real).astype(bool)
            batches.append(
                {k: self._gather(v)[is_kept] for k, v in outputs.items()}
            )
        if not batches:
            raise errors.UserError("There are no examples to predict.")
        outputs = concatenate(batches, lengths or {})
        order = np.argsort(outputs.pop(_RECORD_NUMBER), kind="stable")
        return {name: values[order] for name, values in outputs.items()}

    def _gather(self, value: tf.Tensor) -> np.ndarray:
        """Return the values of all replicas, in the order of the batch."""
        return np.asarray(self._strategy.gather(value, axis=0))

    # What follows is traced into graphs.

    def _run_evaluation(self, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        def replica_sums(batch: dict[str, tf.Tensor]) -> tf.Tensor:
            sums = self._objective.weighted_sums(self._model, batch)
            return self._objective.stack(sums)

        per_replica = self._strategy.run(replica_sums, [batch])
        return self._strategy.reduce(
            tf.distribute.ReduceOp.SUM, per_replica, axis=None
        )

    def _run_prediction(
        self, batch: dict[str, tf.Tensor]
    ) -> tuple[dict[str, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]:
        outputs = self._strategy.run(self._model, [batch])
        is_real = batch["is_real_example"]
        # Without record numbers any equal ones do: the order stays.
        record_numbers = batch.get(_RECORD_NUMBER, is_real)
        return outputs, (is_real, record_numbers)


def concatenate(
    batches: Sequence[Mapping[str, np.ndarray]], lengths: Mapping[str, int]
) -> dict[str, np.ndarray]:
    """Join the outputs of batches, [rows, ...]; see `Evaluator.predict`."""

    def padded(name: str, values: np.ndarray) -> np.ndarray:
        if name not in lengths:
            return values
        missing = lengths[name] - values.shape[1]
        other_axes = [(0, 0)] * (values.ndim - 2)
        return np.pad(values, [(0, 0), (0, missing), *other_axes])

    return {
        name: np.concatenate([padded(name, batch[name]) for batch in batches])
        for name in batches[0]
    }


def mean_values(
    objective: objectives.Objective, sums: np.ndarray
) -> dict[str, float]:
    """Return losses and metrics, and `loss`, the weighted sum of the losses.

    `sums` are float [names, (numerator, denominator)]. Names with the
    denominator 0 are left out, such as the accuracy of a task without labels.
    """
    pairs = zip(objective.names, sums, strict=True)
    numbers = {name: float(a / b) for name, (a, b) in pairs if b}
    losses = objective.losses.items()
    total = sum(factor * numbers.get(name, 0.0) for name, factor in losses)
    return {"loss": total, **numbers}
