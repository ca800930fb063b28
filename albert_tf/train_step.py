"""One update of the weights: gradients, clipping, optimizer, guards.

The update depends on the global batch only, not on how replicas and parts
divide it (but for dropout, whose draws are each part's own): each loss is
divided by its denominator over the whole batch, and the sum of all gradients is
clipped once.

DIFFERS: the original divides and clips on each core.
"""

import dataclasses
from typing import NamedTuple

import tensorflow as tf
import tf_keras as keras

from albert_tf import objectives, optimization

# Loss scaling of float16, as in Keras. Source: Micikevicius et al., arXiv
# 1710.03740.
_FIRST_SCALE = 2.0**15
_GROWTH_STEPS = 2000

Batch = dict[str, tf.Tensor]


class _Sums(NamedTuple):
    """What parts of a batch add up to.

    Attributes:
        gradients: By index of a trainable variable; those that the objective
            does not depend on are left out, and never updated.
        row_squares: By index of a variable, for tables that are only looked up
            in: the sum of the squares of all looked-up rows.
        ratios: float32 [names, (numerator, denominator)].
    """

    gradients: dict[int, tf.Tensor]
    row_squares: dict[int, tf.Tensor]
    ratios: tf.Tensor


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
        self.skipped = _counter("skipped", 0)
        self.skipped_in_row = _counter("skipped_in_row", 0)
        self.loss_scale = _counter(
            "loss_scale", _FIRST_SCALE if self._scales else 1.0
        )
        self._good_in_row = _counter("good_in_row", 0)

    def note(self, finite: tf.Tensor) -> None:
        """Count an update, and adapt the scale.

        The scale is halved when numbers are not finite any more, and doubled
        after 2,000 good updates.

        Args:
            finite: bool [], whether loss and gradient were.
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


def _counter(name: str, value: float) -> tf.Variable:
    return tf.Variable(
        value,
        trainable=False,
        name=name,
        aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
    )


@dataclasses.dataclass(frozen=True, eq=False)
class TrainStep:
    """An update, to be called in every replica with its share of a batch.

    Attributes:
        model: What is trained.
        optimizer: Built for the trainable variables of the model.
        objective: What is minimized and reported.
        guard: Counts what is skipped.
        parts: Parts that the share is cut into, one after the other.
        seed: Of dropout, with the number of the step.
    """

    model: keras.Model
    optimizer: optimization.AdamW
    objective: objectives.Objective
    guard: Guard
    parts: int = 1
    seed: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """The numbers that an update returns: those of the objective, and more.

        `gradient_norm` is that before clipping; `skipped` counts updates.
        """
        return (*self.objective.names, "gradient_norm", "skipped")

    def __call__(self, batch: Batch) -> tf.Tensor:
        """Make one update; where a number is not finite, make none.

        Args:
            batch: This replica's share of the batch.

        Returns:
            float32 [names, (numerator, denominator)], the same on all replicas.
            Of a skipped update only `skipped` has a denominator.
        """
        replica = tf.distribute.get_replica_context()
        everywhere = tf.distribute.ReduceOp.SUM
        whole = replica.all_reduce(
            everywhere, self.objective.denominators(batch)
        )
        sums = _Sums(
            *replica.all_reduce(
                everywhere, list(self._sum_over_parts(batch, whole))
            )
        )
        scale = self.guard.loss_scale
        norm = global_norm(sums.gradients, sums.row_squares) / scale
        finite = tf.math.is_finite(norm) & tf.reduce_all(
            tf.math.is_finite(sums.ratios)
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
        self.guard.note(finite)
        rows = tf.concat([sums.ratios, [[norm, 1.0]]], 0)
        rows = tf.where(finite, rows, tf.zeros_like(rows))
        skipped = 1.0 - tf.cast(finite, tf.float32)
        return tf.concat([rows, [[skipped, 1.0]]], 0)

    def _sum_over_parts(self, batch: Batch, whole: objectives.Tensors) -> _Sums:
        """Add up the gradients of all parts of this replica's batch."""
        if self.parts == 1:
            return self._gradients(batch, whole, self._dropout_seed(0))
        split = {
            name: tf.reshape(value, [self.parts, -1, *value.shape[1:]])
            for name, value in batch.items()
        }

        def one_part(part: tf.Tensor) -> _Sums:
            chosen = {name: value[part] for name, value in split.items()}
            return self._gradients(chosen, whole, self._dropout_seed(part))

        def add_part(part: tf.Tensor, sums: _Sums) -> tuple[tf.Tensor, _Sums]:
            more = one_part(part)
            return part + 1, tf.nest.map_structure(tf.add, sums, more)

        sums = one_part(tf.constant(0))
        # Or the second part would begin beside the first, in as much memory.
        with tf.control_dependencies(tf.nest.flatten(sums)):
            first = tf.constant(1), sums
        _, sums = tf.while_loop(
            lambda part, _: part < self.parts,
            add_part,
            first,
            parallel_iterations=1,
        )
        return sums

    def _gradients(
        self,
        batch: Batch,
        whole: objectives.Tensors,
        dropout_seed: tf.Tensor,
    ) -> _Sums:
        """Return a batch's share of the gradient of a larger one, and more.

        The rows that a table's look-ups give are summed into a gradient of the
        table's shape; the square of each row by itself is kept for the norm.
        """
        variables = self.model.trainable_variables
        with tf.GradientTape() as tape:
            ratios = self.objective.ratios(self.model, batch, dropout_seed)
            loss = self.objective.total(ratios, whole)
            loss *= self.guard.loss_scale
        found = {
            index: gradient
            for index, gradient in enumerate(tape.gradient(loss, variables))
            if gradient is not None
        }
        squares = {
            index: tf.reduce_sum(tf.square(gradient.values))
            for index, gradient in found.items()
            if isinstance(gradient, tf.IndexedSlices)
        }
        gradients = {i: tf.convert_to_tensor(g) for i, g in found.items()}
        return _Sums(gradients, squares, self.objective.stack(ratios))

    def _dropout_seed(self, part: tf.Tensor | int) -> tf.Tensor:
        """A seed, int32 [2], of run, step, replica, part; stored nowhere."""
        replica = tf.distribute.get_replica_context()
        step = tf.cast(self.optimizer.iterations, tf.int32)
        seed = tf.stack([tf.constant(self.seed, tf.int32), step])
        return tf.random.experimental.stateless_fold_in(
            seed, replica.replica_id_in_sync_group * self.parts + part
        )


def global_norm(
    gradients: dict[int, tf.Tensor], row_squares: dict[int, tf.Tensor]
) -> tf.Tensor:
    """Return the Euclidean norm of the gradients, as the original counts it.

    Where a table is only looked up in, every look-up counts by itself, even if
    two hit the same row: TensorFlow's rule for sparse gradients, and so part of
    what the original computes off TPU. In pretraining these are the segments;
    in finetuning the words too, which no output layer shares then.

    Args:
        gradients: By index of a variable.
        row_squares: Index of a gradient to the sum of squares that counts for
            it.
    """
    squares = [
        row_squares.get(index, tf.reduce_sum(tf.square(gradient)))
        for index, gradient in gradients.items()
    ]
    return tf.sqrt(tf.add_n(squares))
