"""Losses, metrics and outputs of a model over a dataset."""

from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf
import tf_keras as keras

from albert_tf.common import errors
from albert_tf.model.losses import objectives

_NUMBER = "record_number"


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
        return quotients(self._objective, sums)

    def predict(
        self, dataset: tf.data.Dataset, widths: Mapping[str, int] | None = None
    ) -> dict[str, np.ndarray]:
        """Return the model's outputs for all real examples, in order.

        Args:
            dataset: Batches; with `record_number` they may be in any order.
            widths: Size of the second axis of some outputs, by name. Those of
                shorter batches are filled with zeros.
        """
        batches: list[dict[str, np.ndarray]] = []
        for batch in self._strategy.experimental_distribute_dataset(dataset):
            outputs, (real, number) = self._predict_batch(batch)
            outputs[_NUMBER] = number
            kept = self._gather(real).astype(bool)
            batches.append(
                {k: self._gather(v)[kept] for k, v in outputs.items()}
            )
        if not batches:
            raise errors.UserError("There are no examples to predict.")
        outputs = concatenate(batches, widths or {})
        order = np.argsort(outputs.pop(_NUMBER), kind="stable")
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
        real = batch["is_real_example"]
        # Without numbers all are equal, and the order stays.
        number = batch.get(_NUMBER, real)
        return outputs, (real, number)


def concatenate(
    parts: Sequence[Mapping[str, np.ndarray]], widths: Mapping[str, int]
) -> dict[str, np.ndarray]:
    """Join the outputs of batches, [rows, ...]; see `Evaluator.predict`."""

    def widened(name: str, values: np.ndarray) -> np.ndarray:
        if name not in widths:
            return values
        missing = widths[name] - values.shape[1]
        other_axes = [(0, 0)] * (values.ndim - 2)
        return np.pad(values, [(0, 0), (0, missing), *other_axes])

    return {
        name: np.concatenate([widened(name, part[name]) for part in parts])
        for name in parts[0]
    }


def quotients(
    objective: objectives.Objective, sums: np.ndarray
) -> dict[str, float]:
    """Return losses and metrics, and `loss`, the sum that is minimized.

    The sums are float [names, (numerator, denominator)]. What nothing was
    counted for is left out, such as the accuracy of a task without a label.
    """
    pairs = zip(objective.names, sums, strict=True)
    numbers = {name: float(a / b) for name, (a, b) in pairs if b}
    losses = objective.losses.items()
    total = sum(factor * numbers.get(name, 0.0) for name, factor in losses)
    return {"loss": total, **numbers}
