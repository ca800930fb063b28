"""One update of the weights: gradients, clipping, optimizer, guards.

The update depends on the global batch only, not on how replicas and
microbatches divide it (but for dropout, which each microbatch draws for
itself): each loss is divided by its normalizer over the whole batch, and the
sum of all gradients is clipped once.

DIFFERS: the original divides and clips on each core.
"""

import dataclasses
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tf_keras as keras

from albert_tf.model import base, model_inputs
from albert_tf.model.losses import objectives
from albert_tf.model.optimizers import optimization
from albert_tf.training import evaluation, rounding

# Loss scaling of float16, as in Keras. Source: Micikevicius et al., arXiv
# 1710.03740.
_FIRST_SCALE = 2.0**15
_GROWTH_STEPS = 2000

Batch = dict[str, tf.Tensor]


class _Sums(NamedTuple):
    """Sums over the microbatches of a batch.

    Attributes:
        gradients: By index of a trainable variable; those that the objective
            does not depend on are left out, and never updated.
        lookup_squares: By index of a variable, for tables that are only looked
            up in: the sum of the squares of all looked-up rows.
        weighted: float32 [names, (numerator, denominator)].
    """

    gradients: dict[int, tf.Tensor]
    lookup_squares: dict[int, tf.Tensor]
    weighted: tf.Tensor


class Guard(tf.Module):
    """Counts updates that were skipped; scales the loss of float16.

    Attributes:
        skipped: int32, updates skipped so far.
        skipped_in_row: int32, of these the last ones without a good one since.
        loss_scale: float32, what the loss is multiplied with; 1 unless the
            precision is float16.
    """

    def __init__(self, precision: str):
        """Create the counters; call it in the strategy's scope."""
        super().__init__(name="guard")
        self._scales = precision == "float16"
        counter = optimization.counter
        self.skipped = counter("skipped", 0)
        self.skipped_in_row = counter("skipped_in_row", 0)
        scale = _FIRST_SCALE if self._scales else 1.0
        self.loss_scale = counter("loss_scale", scale)
        self._good_in_row = counter("good_in_row", 0)

    def has_failed(self, limit: int) -> bool:
        """Tell whether so many updates in a row were skipped.

        Nothing needs to be undone then: skipped updates change no weight.
        """
        # float16 first tries smaller scales.
        scales = float(self.loss_scale.numpy()) > 1.0
        return int(self.skipped_in_row.numpy()) >= limit and not scales

    def record(self, finite: tf.Tensor) -> None:
        """Count an update, and adapt the scale.

        The scale is halved when loss or gradient is not finite any more, and
        doubled after 2,000 good updates.
        """
        bad = tf.cast(~finite, tf.int32)
        self.skipped.assign_add(bad)
        self.skipped_in_row.assign((self.skipped_in_row + 1) * bad)
        good = (self._good_in_row + 1) * (1 - bad)
        if self._scales:
            grow = good >= _GROWTH_STEPS
            factor = tf.where(finite, tf.where(grow, 2.0, 1.0), 0.5)
            scale = tf.clip_by_value(self.loss_scale * factor, 1.0, 2.0**24)
            self.loss_scale.assign(scale)
            good = tf.where(grow, 0, good)
        self._good_in_row.assign(good)


@dataclasses.dataclass(frozen=True, eq=False)
class TrainStep:
    """An update, to be called in every replica with its share of a batch.

    Attributes:
        optimizer: Built for the trainable variables of the model.
        microbatches: How many the share is cut into, one after the other.
        seed: Of dropout and replaced tokens, with the number of the step.
        round_from: See `rounding.Rounding.start`.
    """

    model: keras.Model
    optimizer: optimization.AdamW
    objective: objectives.Objective
    guard: Guard
    microbatches: int = 1
    seed: int = 0
    round_from: float | None = None

    def __post_init__(self) -> None:
        base.require_built(self.model)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the rows that an update returns, in order.

        `gradient_norm` is that before clipping; `skipped` is 1 or 0.
        """
        return (*self.objective.names, "gradient_norm", "skipped")

    def __call__(self, batch: Batch) -> tf.Tensor:
        """Make one update; where a number is not finite, only count the step.

        Returns:
            float32 [names, (numerator, denominator)], the same on all replicas.
            Of a skipped update only `skipped` has a denominator.
        """
        replica = tf.distribute.get_replica_context()
        sum_op = tf.distribute.ReduceOp.SUM
        normalizers = replica.all_reduce(
            sum_op, self.objective.normalizers(batch)
        )
        rounded = rounding.Rounding(self.model, self.round_from)
        with rounded.in_update(self.optimizer):
            local = self._sum_over_microbatches(batch, normalizers)
        sums = _Sums(*replica.all_reduce(sum_op, list(local)))
        scale = self.guard.loss_scale
        norm = global_norm(sums.gradients, sums.lookup_squares) / scale
        finite = tf.math.is_finite(norm) & tf.reduce_all(
            tf.math.is_finite(sums.weighted)
        )
        # Clipping and the loss scale are one factor.
        factor = optimization.CLIP_NORM / (
            tf.maximum(norm, optimization.CLIP_NORM) * scale
        )
        self.optimizer.update(
            list(sums.gradients.values()),
            [self.model.trainable_variables[i] for i in sums.gradients],
            factor,
            finite,
        )
        self.guard.record(finite)
        rows = tf.concat([sums.weighted, [[norm, 1.0]]], 0)
        rows = tf.where(finite, rows, tf.zeros_like(rows))
        skipped = 1.0 - tf.cast(finite, tf.float32)
        return tf.concat([rows, [[skipped, 1.0]]], 0)

    def summarize(self, rows: np.ndarray) -> dict[str, float]:
        """Return means over updates for the log; {} if all were skipped.

        They are losses, metrics, gradient norm, and the last learning rate.

        Args:
            rows: What the updates returned, float32 [steps, names, 2].
        """
        sums = rows.astype(np.float64).sum(0)
        skipped = float(sums[-1, 0])
        if skipped == len(rows):
            return {}
        numbers = evaluation.mean_values(self.objective, sums[:-2])
        numbers["gradient_norm"] = float(sums[-2, 0] / sums[-2, 1])
        last = tf.cast(self.optimizer.iterations, tf.int32) - 1
        numbers["learning_rate"] = float(self.optimizer.learning_rate_at(last))
        if skipped:
            numbers["skipped_updates"] = skipped
        return numbers

    def _sum_over_microbatches(
        self, batch: Batch, normalizers: objectives.Tensors
    ) -> _Sums:
        """Return the sums over a batch, one microbatch after the other."""
        if self.microbatches == 1:
            return self._gradients(batch, normalizers, self._dropout_seed(0))
        split = {name: self._split(value) for name, value in batch.items()}

        def compute(index: tf.Tensor) -> _Sums:
            microbatch = {name: value[index] for name, value in split.items()}
            return self._gradients(
                microbatch, normalizers, self._dropout_seed(index)
            )

        def add(index: tf.Tensor, sums: _Sums) -> tuple[tf.Tensor, _Sums]:
            later = compute(index)
            return index + 1, tf.nest.map_structure(tf.add, sums, later)

        sums = compute(tf.constant(0))
        # Otherwise two would be computed at a time, in twice the memory.
        with tf.control_dependencies(tf.nest.flatten(sums)):
            first = tf.constant(1), sums
        _, sums = tf.while_loop(
            lambda index, _: index < self.microbatches,
            add,
            first,
            parallel_iterations=1,
        )
        return sums

    def _split(self, value: tf.Tensor) -> tf.Tensor:
        """Return [microbatches, examples, ...] for [batch, ...]."""
        sizes = tf.shape(value)  # Finetuning batches differ in their lengths.
        shape = [
            sizes[axis] if size is None else size
            for axis, size in enumerate(value.shape)
        ][1:]
        return tf.reshape(value, [self.microbatches, -1, *shape])

    def _gradients(
        self,
        batch: Batch,
        normalizers: objectives.Tensors,
        dropout_seed: tf.Tensor,
    ) -> _Sums:
        """Return gradients, squares and sums of one microbatch; see `_Sums`.

        Losses are divided by the normalizers of the whole batch. Gradients of
        looked-up rows are summed to the table's shape; `lookup_squares` keep
        the square of each look-up for `global_norm`.
        """
        variables = self.model.trainable_variables
        batch = {**batch, model_inputs.SEED: self._seed()}
        with tf.GradientTape() as tape:
            weighted = self.objective.weighted_sums(
                self.model, batch, dropout_seed
            )
            loss = self.objective.total(weighted, normalizers)
            loss *= self.guard.loss_scale
        by_index = {
            index: gradient
            for index, gradient in enumerate(tape.gradient(loss, variables))
            if gradient is not None
        }
        squares = {
            index: tf.reduce_sum(tf.square(gradient.values))
            for index, gradient in by_index.items()
            if isinstance(gradient, tf.IndexedSlices)
        }
        gradients = {i: tf.convert_to_tensor(g) for i, g in by_index.items()}
        return _Sums(gradients, squares, self.objective.stack(weighted))

    def _dropout_seed(self, microbatch: tf.Tensor | int) -> tf.Tensor:
        """Return a seed, int32 [2], for run, step, replica and microbatch."""
        replica = tf.distribute.get_replica_context()
        return tf.random.experimental.stateless_fold_in(
            self._seed(),
            replica.replica_id_in_sync_group * self.microbatches + microbatch,
        )

    def _seed(self) -> tf.Tensor:
        """Return a seed, int32 [2], for run and step."""
        step = tf.cast(self.optimizer.iterations, tf.int32)
        return tf.stack([tf.constant(self.seed, tf.int32), step])


def compile_loop(
    update: TrainStep,
) -> Callable[[Iterator[Batch], tf.Tensor], tf.Tensor]:
    """Return a function that makes several updates in one call.

    Returns:
        (batches, steps) to the numbers of each update, float32 [steps, names,
        2]; `batches` is an iterator over a distributed dataset.
    """
    strategy = update.model.distribute_strategy

    # Without AutoGraph, whose rewriting takes longer than all the tracing.
    @tf.function(autograph=False)
    def loop(batches: Iterator[Batch], steps: tf.Tensor) -> tf.Tensor:
        shape = [len(update.names), 2]
        empty = tf.TensorArray(tf.float32, steps, element_shape=shape)

        def one_step(
            index: tf.Tensor, rows: tf.TensorArray
        ) -> tuple[tf.Tensor, tf.TensorArray]:
            per_replica = strategy.run(update, [next(batches)])
            local = strategy.experimental_local_results(per_replica)
            return index + 1, rows.write(index, local[0])

        _, rows = tf.while_loop(
            lambda index, _: index < steps,
            one_step,
            (tf.constant(0), empty),
            parallel_iterations=1,
        )
        return rows.stack()

    return loop


def global_norm(
    gradients: dict[int, tf.Tensor], lookup_squares: dict[int, tf.Tensor]
) -> tf.Tensor:
    """Return the Euclidean norm of the gradients, as the original counts it.

    Where a table is only looked up in, every look-up counts by itself, even if
    two hit the same row: TensorFlow's rule for sparse gradients, and so part of
    what the original computes off TPU. In pretraining these are the segments;
    in finetuning the words too, which no output layer shares then.

    Args:
        gradients: By index of a variable.
        lookup_squares: By index, the sum of squares that counts instead.
    """
    squares = [
        lookup_squares.get(index, tf.reduce_sum(tf.square(gradient)))
        for index, gradient in gradients.items()
    ]
    return tf.sqrt(tf.add_n(squares))
