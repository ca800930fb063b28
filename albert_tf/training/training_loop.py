"""The training loop: updates, progress, checkpoints, preemption.

The trainer knows a Keras model and an objective, never the name of a dataset.
Pretraining and every finetuning task use it.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tf_keras as keras
from absl import logging

from albert_tf.common import errors, preemption
from albert_tf.model import model_options
from albert_tf.model.checkpoints import restoring
from albert_tf.model.losses import objectives
from albert_tf.model.optimizers import optimization
from albert_tf.training import (
    distribution,
    evaluation,
    profiler,
    rounding,
    run_checkpoints,
    run_clock,
    run_folder,
    run_log,
    train_step,
    training_options,
    validation,
)

# How long one call of the compiled loop is to take. Between two calls the
# process checks the time limit and SIGTERM.
CHUNK_SECONDS = 3.0
# Updates in a row that are not finite, after which a run stops.
MAX_SKIPPED_UPDATES = 10


class _Training(NamedTuple):
    """What a call of `Trainer.train` works with."""

    batches: Iterator[dict[str, tf.Tensor]]
    num_train_steps: int
    log: run_log.RunLog
    watch: Callable[[], None] | None
    # Checked between two calls of the compiled loop.
    clock: run_clock.RunClock
    handler: preemption.PreemptionHandler
    profiler: profiler.Profiler


class Trainer:
    """Trains one model for one objective in one output folder.

    Model and optimizer are built in the scope of the strategy that is used.
    `resumed_from` is the checkpoint of an earlier start that training goes on
    from, if there is one.
    """

    def __init__(
        self,
        model: keras.Model,
        optimizer: optimization.AdamW,
        objective: objectives.Objective,
        output_dir: str,
        options: training_options.TrainerOptions,
        now: Callable[[], float] = time.monotonic,
    ):
        self.model = model
        self.optimizer = optimizer
        self.output_dir = output_dir
        self.resumed_from: str | None = None
        # Whether all weights come from some training, here or elsewhere.
        self._is_complete = False
        self._options = options
        self._now = now
        self._strategy = model.distribute_strategy
        self._workers = distribution.Workers(self._strategy)
        with self._strategy.scope():
            optimizer.build(model.trainable_variables)
            self._guard = train_step.Guard(options.precision)
        self._update = train_step.TrainStep(
            model,
            optimizer,
            objective,
            self._guard,
            options.gradient_accumulation_steps,
            options.seed,
            options.round_from,
        )
        self._train_loop = train_step.compile_loop(self._update)
        evaluator = evaluation.Evaluator(model, objective)
        evaluated = rounding.Rounding(model, options.round_from).applied
        self.evaluate = evaluated()(evaluator.evaluate)
        self.predict = evaluated()(evaluator.predict)
        # Seconds of training in earlier starts of the run.
        self._elapsed = tf.Variable(
            0.0, trainable=False, dtype=tf.float64, name="elapsed"
        )
        state = tf.train.Checkpoint(
            model=model,
            optimizer=optimizer,
            guard=self._guard,
            elapsed=self._elapsed,
        )
        if optimizer.step_scale is not None:
            # Named as in the checkpoints of earlier versions.
            state.pace = optimizer.step_scale
        self._saved = run_checkpoints.RunCheckpoints(
            state,
            output_dir,
            self._workers,
            options.keep_checkpoint_max,
            evaluated,
        )

    @property
    def step(self) -> int:
        return self._saved.step

    def chief_value(self, value: bool) -> bool:
        """Return what the first worker has; every worker must ask."""
        return self._workers.chief_value(value)

    def restore_or_initialize(
        self,
        init: model_options.InitOptions | None = None,
        *,
        new_heads: bool = False,
        continue_schedule: bool = False,
    ) -> None:
        """Go on from the newest checkpoint of the folder, or start from `init`.

        Args:
            init: The weights to start from, where the folder has no checkpoint.
                Default: those the model has.
            continue_schedule: Whether step and moments come from `init`, too.
        """
        self.resumed_from = self._saved.restore_latest()
        if self.resumed_from:
            logging.info("Going on from %s", self.resumed_from)
        elif init and init.init_checkpoint:
            with self._strategy.scope():
                restored = restoring.initialize(
                    self.model, init, new_heads=new_heads
                )
                if continue_schedule:
                    restoring.restore_optimizer(
                        self.optimizer,
                        self.model.trainable_variables,
                        init.init_checkpoint,
                    )
            self._is_complete = restored is not None and not restored.new

    def restore_best(self) -> None:
        if not (self._saved.restore_best() or self.step or self._is_complete):
            raise run_folder.no_weights_error(self.output_dir)

    def train(
        self,
        dataset: tf.data.Dataset,
        num_train_steps: int,
        log: run_log.RunLog,
        validator: validation.Validation | None = None,
        watch: Callable[[], None] | None = None,
    ) -> None:
        """Train from `step` to `num_train_steps`.

        Args:
            dataset: Endless batches, beginning with the one for `step`.
            validator: Evaluates every checkpoint and keeps the best one.
            watch: Called after every line of training in the log.

        Raises:
            errors.UserError: Too many updates in a row had to be skipped.
            SystemExit: SIGTERM has come, and a checkpoint is written. The code
                is `preemption.EXIT_CODE`.
        """
        self._saved.remove_unfinished(best=validator is not None)
        if self.step < num_train_steps:
            self._saved.check_disk_space(best=validator is not None)
        batches = iter(self._strategy.experimental_distribute_dataset(dataset))
        if validator and self.resumed_from:
            # The earlier start may have ended before it could.
            validator.validate()
        clock = run_clock.RunClock(
            self._options.max_minutes, float(self._elapsed.numpy()), self._now
        )
        profile = profiler.Profiler(
            self._options.profile_steps, self.output_dir
        )
        with preemption.PreemptionHandler() as handler:
            training = _Training(
                batches, num_train_steps, log, watch, clock, handler, profile
            )
            try:
                while self.step < num_train_steps and not clock.is_up:
                    is_saved = self._train_to_next_stop(training)
                    if not (validator and is_saved):
                        continue
                    # Several workers must leave together.
                    alone = self._workers.is_alone
                    with handler.exiting_at_once() if alone else nullcontext():
                        validator.validate()
            finally:
                profile.stop()
        log.end(self.step)

    def compute(
        self,
        set_weights: Callable[[], None],
        log: run_log.RunLog,
        validator: validation.Validation | None = None,
    ) -> None:
        """Have weights computed instead of trained, as the only step."""
        self._saved.remove_unfinished(best=validator is not None)
        if not self.step:
            self._saved.check_disk_space(best=validator is not None)
            set_weights()
            self.optimizer.iterations.assign(1)
            self._saved.save()
        if validator:
            validator.validate()
        log.end(self.step)

    def validation(
        self,
        log: run_log.RunLog,
        evaluate: Callable[[], dict[str, float]],
        key_metric: str,
        data: str = "",
    ) -> validation.Validation:
        return validation.Validation(
            evaluate, key_metric, log, self._saved, self._workers, data
        )

    def _train_to_next_stop(self, training: _Training) -> bool:
        """Train up to the next line of the log; tell if that step is saved."""
        clock, begun = training.clock, self._now()
        rows, is_preempted = self._train_in_chunks(training)
        skipped = int(rows[:, -1, 0].sum())
        if skipped:
            logging.warning(
                "%d of the last %d updates were skipped: numbers that are not "
                "finite.",
                skipped,
                len(rows),
            )
        numbers = self._update.summarize(rows)
        if numbers:
            speed = len(rows) / (self._now() - begun)
            seconds_left = clock.seconds_left
            training.log.write("train", self.step, numbers, speed, seconds_left)
            if training.watch:
                training.watch()
        is_last = self.step == training.num_train_steps
        ended = is_last or clock.is_up or is_preempted
        if self.step % self._options.save_checkpoints_steps and not ended:
            return False
        self._elapsed.assign(clock.elapsed)
        self._saved.save()
        if is_preempted:
            training.handler.exit(
                f"step {self.step} is saved in {self.output_dir}"
            )
        return True

    def _train_in_chunks(self, training: _Training) -> tuple[np.ndarray, bool]:
        """Train up to the next stop, the time limit or SIGTERM.

        Returns:
            The numbers of each update, float32 [steps, names, 2], and whether
            SIGTERM has come to a worker.
        """
        clock, num_train_steps = training.clock, training.num_train_steps
        stop = self._options.next_stop(self.step, num_train_steps)
        rows: list[np.ndarray] = []
        chunk, is_preempted = 1, False
        while self.step < stop and not (is_preempted or clock.is_up):
            training.profiler.update(self.step)
            steps_left = (
                training.profiler.next_change(self.step, stop) - self.step
            )
            begun = self._now()
            steps = tf.constant(min(chunk, steps_left))
            rows.append(self._train_loop(training.batches, steps).numpy())
            preempted, seconds, clock.agreed_seconds = self._workers.gather(
                float(training.handler.is_requested),
                self._now() - begun,
                clock.elapsed,
            ).max(0)
            is_preempted = bool(preempted)
            steps_per_second = len(rows[-1]) / seconds
            clock.adapt_schedule(self.step, num_train_steps, self.optimizer)
            # At most half of the time that is left: the speed may change.
            target_seconds = min(CHUNK_SECONDS, clock.seconds_left / 2)
            chunk = max(
                1, min(2 * chunk, int(steps_per_second * target_seconds))
            )
            if self._guard.has_failed(MAX_SKIPPED_UPDATES):
                raise self._not_finite_error()
        return np.concatenate(rows), is_preempted

    def _not_finite_error(self) -> errors.UserError:
        skipped = int(self._guard.skipped_in_row.numpy())
        return errors.UserError(
            f"The loss or its gradient was not finite for the last {skipped} "
            f"updates before step {self.step}; they were skipped. The last "
            f"checkpoint is {self._saved.newest or 'none yet'}; its weights "
            "are finite. "
            "Lower `learning_rate`, lengthen the warm-up, or try "
            "`precision=float32`, and train into a new `output_dir`, with that "
            "checkpoint as `init_checkpoint` if you like. Labels outside of "
            "the vocabulary do it, too: data_prep.inspect_records shows them."
        )
