"""The training loop: steps under a strategy, evaluation, checkpoints, resume.

The trainer knows a Keras model and an objective, never the name of a dataset.
Pretraining and every finetuning task use it.
"""

import dataclasses
import os
import time
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf
import tf_keras as keras
from absl import logging

from albert_tf import (
    checkpoints,
    errors,
    objectives,
    optimization,
    run_log,
)
from albert_tf.options import option


@dataclasses.dataclass(frozen=True)
class TrainerOptions:
    """How a run is cut into loops and checkpoints."""

    iterations_per_loop: int = option(
        1000,
        "Steps between two looks at the numbers: one line of progress each.",
        may_change=True,
    )
    save_checkpoints_steps: int = option(
        5000, "Steps between checkpoints (and evaluations).", may_change=True
    )
    keep_checkpoint_max: int = option(
        5, "Checkpoints to keep, beside the best one.", may_change=True
    )
    gradient_accumulation_steps: int = option(
        1,
        "Parts that each replica's share of a batch is cut into, one after the "
        "other, so that a large batch needs little memory. The update is that "
        "of the whole batch.",
    )
    seed: int = option(
        12345, "Seed of initial weights, order of examples and dropout."
    )

    def __post_init__(self) -> None:
        for name in (
            "iterations_per_loop",
            "save_checkpoints_steps",
            "keep_checkpoint_max",
            "gradient_accumulation_steps",
        ):
            if getattr(self, name) < 1:
                raise errors.UserError(
                    f"--{name}={getattr(self, name)} is below 1. Use a whole "
                    "number from 1."
                )
        if not 0 <= self.seed < 2**31:
            raise errors.UserError(
                f"--seed={self.seed} is not between 0 and {2**31 - 1}."
            )


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is trained.

    Attributes:
        make_model: Builds the model with random weights.
        make_optimizer: Builds the optimizer with its schedule.
        objective: What to minimize and what to report.
        initialize: Gives the model the weights it starts from; not called when
            an earlier start has left a checkpoint.
    """

    make_model: Callable[[], keras.Model]
    make_optimizer: Callable[[], optimization.AdamW]
    objective: objectives.Objective
    initialize: Callable[[keras.Model], checkpoints.Restored | None] | None = (
        None
    )


# Gradients of all variables; by index, for tables that are only looked up in,
# the sum of the squares of all looked-up rows; the ratios of the objective.
_Sums = tuple[list[tf.Tensor], dict[int, tf.Tensor], tf.Tensor]


class Trainer:
    """Trains one model for one objective in one output folder.

    Resumes by itself: if the folder holds a checkpoint, weights, moments and
    step are those of the checkpoint, and `step` says where it stands.
    """

    def __init__(
        self,
        output_dir: str,
        options: TrainerOptions,
        strategy: tf.distribute.Strategy,
        plan: Plan,
    ):
        """Create model and optimizer under the strategy; restore if possible.

        Args:
            output_dir: Folder of checkpoints and logs.
            options: See `TrainerOptions`.
            strategy: The devices.
            plan: What is trained.
        """
        self.output_dir = output_dir
        self._options = options
        self._strategy = strategy
        self._objective = plan.objective
        # Before any tokenizer of tensorflow_text is built: seeding clears them.
        keras.utils.set_random_seed(options.seed)
        with strategy.scope():
            self.model = plan.make_model()
            self.optimizer = plan.make_optimizer()
            self.optimizer.build(self.model.trainable_variables)
        self._checkpoint = tf.train.Checkpoint(
            model=self.model, optimizer=self.optimizer
        )
        self._manager = tf.train.CheckpointManager(
            self._checkpoint,
            output_dir,
            max_to_keep=options.keep_checkpoint_max,
            checkpoint_name="model.ckpt",
            step_counter=self.optimizer.iterations,
        )
        # Whether all weights come from some training, here or elsewhere.
        self._is_complete = False
        self.resumed_from = self._manager.latest_checkpoint
        if self.resumed_from:
            self._restore(self.resumed_from)
            logging.info("Going on from %s", self.resumed_from)
        elif plan.initialize:
            with strategy.scope():
                restored = plan.initialize(self.model)
            self._is_complete = restored is not None and not restored.new
        self._train_loop = tf.function(self._run_steps)
        self._evaluate_batch = tf.function(self._run_evaluation)
        self._predict_batch = tf.function(self._run_prediction)

    @property
    def step(self) -> int:
        """Updates done so far."""
        return int(self.optimizer.iterations.numpy())

    def train(
        self,
        dataset: tf.data.Dataset,
        num_train_steps: int,
        log: run_log.RunLog,
        evaluate: Callable[[], dict[str, float]] | None = None,
        key_metric: str = "loss",
    ) -> None:
        """Train from `step` to `num_train_steps`.

        Args:
            dataset: Endless batches, beginning with the one for `step`.
            num_train_steps: Step to stop at.
            log: Where numbers go; started by the caller.
            evaluate: Called after every checkpoint; its numbers are logged.
            key_metric: The number of `evaluate` that decides which checkpoint
                is copied to `model.ckpt-best`; larger is better.

        Raises:
            errors.UserError: The loss is not finite any more.
        """
        batches = iter(self._strategy.experimental_distribute_dataset(dataset))
        if evaluate and self.resumed_from:
            # The earlier start may have ended before it could.
            self._evaluate_once(log, evaluate, key_metric)
        while self.step < num_train_steps:
            self._train_to_next_stop(batches, num_train_steps, log)
            if not self._is_save_step(num_train_steps):
                continue
            self._write(lambda: self._manager.save(checkpoint_number=self.step))
            if evaluate:
                self._evaluate_once(log, evaluate, key_metric)
        log.flush()

    def _train_to_next_stop(
        self,
        batches: Iterator[dict[str, tf.Tensor]],
        num_train_steps: int,
        log: run_log.RunLog,
    ) -> None:
        every = self._options.iterations_per_loop
        saving = self._options.save_checkpoints_steps
        start = self.step
        stop = min(
            num_train_steps,
            (start // every + 1) * every,
            (start // saving + 1) * saving,
        )
        begun = time.monotonic()
        sums = self._train_loop(batches, tf.constant(stop - start)).numpy()
        seconds = time.monotonic() - begun
        numbers = self._quotients(sums[:-1])
        numbers["gradient_norm"] = float(sums[-1, 0] / sums[-1, 1])
        # The rate of the last update that was made.
        numbers["learning_rate"] = float(
            self.optimizer._learning_rate(tf.constant(stop - 1))
        )
        if not np.isfinite(sums).all():
            raise errors.UserError(
                f"The loss is not finite any more between steps {start} and "
                f"{stop}: {numbers}. The last checkpoint in {self.output_dir} "
                "is from before. Lower --learning_rate or lengthen the "
                "warm-up, and train into a new --output_dir."
            )
        log.write(
            "train", stop, numbers, steps_per_second=(stop - start) / seconds
        )

    def _is_save_step(self, num_train_steps: int) -> bool:
        saving = self._options.save_checkpoints_steps
        return self.step % saving == 0 or self.step == num_train_steps

    def _evaluate_once(
        self,
        log: run_log.RunLog,
        evaluate: Callable[[], dict[str, float]],
        key_metric: str,
    ) -> None:
        """Evaluate this step, unless the log has it; copy it if it is best."""
        if self.step not in dict(log.column("eval", key_metric)):
            log.write("eval", self.step, evaluate())
        self._keep_best(log, key_metric)

    def _keep_best(self, log: run_log.RunLog, key_metric: str) -> None:
        best = max(log.column("eval", key_metric), key=lambda pair: pair[1])
        if best[0] == self.step:
            path = os.path.join(self.output_dir, checkpoints.BEST_NAME)
            self._write(lambda: self._checkpoint.write(path))

    def _write(self, write: Callable[[], object]) -> None:
        """Write a checkpoint; an earlier one stays until it is complete."""
        try:
            write()
        except tf.errors.OpError as error:
            raise errors.UserError(
                f"Cannot write a checkpoint to --output_dir={self.output_dir}: "
                f"{checkpoints.explain(error)}. Earlier checkpoints are "
                "intact: make room there, or see that you may write there, and "
                "start the same command again."
            ) from None

    def _restore(self, path: str) -> None:
        try:
            status = self._checkpoint.restore(path)
            status.assert_existing_objects_matched()
        except (tf.errors.OpError, IndexError, AssertionError) as error:
            raise errors.UserError(
                f"The checkpoint {path} cannot be read: "
                f"{str(error).splitlines()[0][:300]}. Remove its "
                "files; if it is the one named first in "
                f"{self.output_dir}/checkpoint, name an earlier one there."
            ) from None

    def restore_best(self) -> None:
        """Take the weights of the best checkpoint, else keep those there are.

        Raises:
            errors.UserError: Those there are would be random.
        """
        best = os.path.join(self.output_dir, checkpoints.BEST_NAME)
        if tf.io.gfile.exists(best + ".index"):
            self._restore(best)
        elif not self._manager.latest_checkpoint and not self._is_complete:
            raise errors.UserError(
                f"--output_dir={self.output_dir} has no checkpoint to "
                "evaluate. Set --do_train, name the folder of a run, or give "
                "an --init_checkpoint that holds all weights, heads included."
            )

    def evaluate(self, dataset: tf.data.Dataset) -> dict[str, float]:
        """Return every loss and metric of the objective over a dataset."""
        sums = np.zeros([len(self._objective.names), 2])
        for batch in self._strategy.experimental_distribute_dataset(dataset):
            sums += self._evaluate_batch(batch).numpy()
        return self._quotients(sums)

    def predict(self, dataset: tf.data.Dataset) -> dict[str, np.ndarray]:
        """Return the model's outputs for all real examples, in order.

        Raises:
            errors.UserError: The dataset is empty.
        """
        parts: list[dict[str, np.ndarray]] = []
        for batch in self._strategy.experimental_distribute_dataset(dataset):
            outputs, real = self._predict_batch(batch)
            kept = self._local(real).astype(bool)
            parts.append({k: self._local(v)[kept] for k, v in outputs.items()})
        if not parts:
            raise errors.UserError("There are no examples to predict.")
        return {k: np.concatenate([p[k] for p in parts]) for k in parts[0]}

    def _local(self, value: tf.Tensor) -> np.ndarray:
        return np.concatenate(
            [
                v.numpy()
                for v in self._strategy.experimental_local_results(value)
            ]
        )

    def _quotients(self, sums: np.ndarray) -> dict[str, float]:
        """Turn sums [names, (numerator, denominator)] into numbers."""
        pairs = zip(self._objective.names, sums, strict=True)
        numbers = {name: float(a / b) if b else 0.0 for name, (a, b) in pairs}
        losses = self._objective.losses
        total = sum(factor * numbers[name] for name, factor in losses.items())
        return {"loss": total, **numbers}

    # What follows is traced into graphs.

    def _run_steps(
        self, batches: Iterator[dict[str, tf.Tensor]], steps: tf.Tensor
    ) -> tf.Tensor:
        """Make `steps` updates; return their summed ratios, float32 [K + 1, 2].

        The last row holds the sum of gradient norms and the number of steps.
        """
        sums = tf.zeros([len(self._objective.names) + 1, 2])
        for _ in tf.range(steps):
            per_replica = self._strategy.run(self._step, [next(batches)])
            sums += self._strategy.experimental_local_results(per_replica)[0]
        return sums

    def _step(self, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """One update on one replica; the same result on all of them.

        The update depends on the global batch only, not on how replicas and
        parts divide it: each loss is divided by its denominator over the whole
        batch, and the sum of all gradients is clipped once.

        DIFFERS: the original divides and clips on each core.
        """
        replica = tf.distribute.get_replica_context()
        everywhere = tf.distribute.ReduceOp.SUM
        whole = replica.all_reduce(
            everywhere, self._objective.denominators(batch)
        )
        gradients, row_squares, rows = self._sum_over_parts(batch, whole)
        gradients, row_squares, rows = replica.all_reduce(
            everywhere, [gradients, row_squares, rows]
        )
        norm = _global_norm(gradients, row_squares)
        gradients, _ = tf.clip_by_global_norm(
            gradients, optimization.CLIP_NORM, use_norm=norm
        )
        self.optimizer.apply_gradients(
            zip(gradients, self.model.trainable_variables, strict=True),
            skip_gradients_aggregation=True,
        )
        return tf.concat([rows, [[norm, 1.0]]], 0)

    def _sum_over_parts(
        self, batch: dict[str, tf.Tensor], whole: objectives.Tensors
    ) -> _Sums:
        """Add up the gradients of all parts of this replica's batch."""
        parts = self._options.gradient_accumulation_steps
        if parts == 1:
            return self._gradients(batch, whole, self._dropout_seed(0))
        split = {
            name: tf.reshape(value, [parts, -1, *value.shape[1:]])
            for name, value in batch.items()
        }

        def one_part(part: tf.Tensor) -> _Sums:
            chosen = {name: value[part] for name, value in split.items()}
            return self._gradients(chosen, whole, self._dropout_seed(part))

        sums = one_part(tf.constant(0))
        for part in tf.range(1, parts):
            sums = tf.nest.map_structure(tf.add, sums, one_part(part))
        return sums

    def _gradients(
        self,
        batch: dict[str, tf.Tensor],
        whole: objectives.Tensors,
        dropout_seed: tf.Tensor,
    ) -> _Sums:
        """Return a batch's share of the gradient of a larger one, and more.

        The rows that a table's look-ups give are summed into a gradient of the
        table's shape; the square of each row by itself is kept for the norm.
        """
        variables = self.model.trainable_variables
        with tf.GradientTape() as tape:
            ratios = self._objective.ratios(self.model, batch, dropout_seed)
            loss = self._objective.total(ratios, whole)
        gradients = tape.gradient(loss, variables)
        squares = {
            index: tf.reduce_sum(tf.square(gradient.values))
            for index, gradient in enumerate(gradients)
            if isinstance(gradient, tf.IndexedSlices)
        }
        gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
        return gradients, squares, self._rows(ratios)

    def _rows(self, ratios: dict[str, objectives.Ratio]) -> tf.Tensor:
        """Stack all ratios, float32 [names, (numerator, denominator)]."""
        names = self._objective.names
        return tf.stack([tf.stack(list(ratios[name])) for name in names])

    def _dropout_seed(self, part: tf.Tensor | int) -> tf.Tensor:
        """A seed, int32 [2], of run, step, replica, part; stored nowhere."""
        replica = tf.distribute.get_replica_context()
        parts = self._options.gradient_accumulation_steps
        step = tf.cast(self.optimizer.iterations, tf.int32)
        seed = tf.stack([tf.constant(self._options.seed, tf.int32), step])
        return tf.random.experimental.stateless_fold_in(
            seed, replica.replica_id_in_sync_group * parts + part
        )

    def _run_evaluation(self, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        def replica_sums(batch: dict[str, tf.Tensor]) -> tf.Tensor:
            return self._rows(self._objective.ratios(self.model, batch))

        per_replica = self._strategy.run(replica_sums, [batch])
        return self._strategy.reduce(
            tf.distribute.ReduceOp.SUM, per_replica, axis=None
        )

    def _run_prediction(
        self, batch: dict[str, tf.Tensor]
    ) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        outputs = self._strategy.run(self.model, [batch])
        return outputs, batch["is_real_example"]


def _global_norm(
    gradients: list[tf.Tensor], row_squares: dict[int, tf.Tensor]
) -> tf.Tensor:
    """Return the Euclidean norm of the gradients, as the original counts it.

    Where a table is only looked up in, every look-up counts by itself, even if
    two hit the same row: TensorFlow's rule for sparse gradients, and so part of
    what the original computes off TPU. In pretraining these are the segments;
    in finetuning the words too, which no output layer shares then.
    """
    squares = [
        row_squares.get(index, tf.reduce_sum(tf.square(gradient)))
        for index, gradient in enumerate(gradients)
    ]
    return tf.sqrt(tf.add_n(squares))
