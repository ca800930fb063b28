"""The training loop: steps under a strategy, evaluation, checkpoints, resume.

The trainer knows a Keras model and an objective, never the name of a dataset.
Pretraining and every finetuning task use it.
"""

import dataclasses
import functools
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext

import numpy as np
import tensorflow as tf
import tf_keras as keras
from absl import logging

from albert_tf import (
    checkpoints,
    distribution,
    errors,
    modeling,
    objectives,
    optimization,
    preemption,
    ranges,
    run_log,
    train_step,
)
from albert_tf.options import checked, option

# What one call of the compiled loop aims at. Between two calls the process
# looks at the clock and at signals.
CHUNK_SECONDS = 3.0
# Between two looks for new checkpoints of another process.
FOLLOW_SECONDS = 5.0


@dataclasses.dataclass(frozen=True)
@checked
class TrainerOptions:
    """How a run is computed, and cut into loops and checkpoints."""

    precision: str = option(
        "float32",
        "What matrix products are computed in. Weights, norms and softmax are "
        "float32 always; float16 scales its loss.",
        choices=modeling.PRECISIONS,
    )
    recompute: bool = option(
        False,
        "Whether to compute each layer again for its gradient, which needs "
        "less memory and a third more time.",
        may_change=True,
    )
    iterations_per_loop: int = option(
        1000,
        "Steps between two looks at the numbers: one line of progress each.",
        within=ranges.STEPS,
        may_change=True,
    )
    save_checkpoints_steps: int = option(
        5000,
        "Steps between checkpoints (and evaluations).",
        within=ranges.STEPS,
        may_change=True,
    )
    keep_checkpoint_max: int = option(
        5,
        "Checkpoints to keep, beside the best one.",
        within=ranges.Range(1, 10**6),
        may_change=True,
    )
    gradient_accumulation_steps: int = option(
        1,
        "Parts that each replica's share of a batch is cut into, one after the "
        "other, so that a large batch needs little memory. The update is that "
        "of the whole batch.",
        within=ranges.BATCH,
        may_change=True,
    )
    max_minutes: float = option(
        0.0,
        "Time for training and its evaluations, over restarts, as far as "
        "checkpoints know of it: the learning rate falls to 0 when it is up, "
        "if --num_train_steps does not come first, and the warm-up keeps its "
        "share of the whole. 0: no limit.",
        within=ranges.Range(0, 10**7),
    )
    max_skipped_updates: int = option(
        10,
        "Updates with numbers that are not finite are skipped; after so many "
        "in a row the run stops.",
        within=ranges.STEPS,
        may_change=True,
    )
    profile_steps: str | None = option(
        None,
        "Two steps, such as 10,20, between which TensorBoard's profiler runs.",
        may_change=True,
    )
    seed: int = option(
        12345,
        "Seed of initial weights, order of examples and dropout.",
        within=ranges.SEED,
    )

    def __post_init__(self) -> None:
        if self.profile_steps and not self._is_profile(self.profile_steps):
            raise errors.UserError(
                f"--profile_steps={self.profile_steps} is not two steps, the "
                "smaller first. Write, for example, --profile_steps=10,20."
            )

    @staticmethod
    def _is_profile(text: str) -> bool:
        first, _, last = text.partition(",")
        numbers = first.isdecimal() and last.isdecimal()
        return numbers and int(first) < int(last)


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is trained.

    Attributes:
        make_model: Builds the model with random weights.
        make_optimizer: Builds the optimizer with its schedule.
        objective: What to minimize and what to report.
        initialize: Gives the model the weights it starts from; not called when
            an earlier start has left a checkpoint.
        initialize_optimizer: The same for step and moments.
    """

    make_model: Callable[[], keras.Model]
    make_optimizer: Callable[[], optimization.AdamW]
    objective: objectives.Objective
    initialize: Callable[[keras.Model], checkpoints.Restored | None] | None = (
        None
    )
    initialize_optimizer: (
        Callable[[optimization.AdamW, list[tf.Variable]], None] | None
    ) = None


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
        now: Callable[[], float] = time.monotonic,
    ):
        """Create model and optimizer under the strategy; restore if possible.

        Args:
            output_dir: Folder of checkpoints and logs.
            options: See `TrainerOptions`.
            strategy: The devices.
            plan: What is trained.
            now: The time in seconds, from any moment on.

        Raises:
            errors.UserError: None of the folder's checkpoints can be read, or
                workers see different ones.
        """
        self.output_dir = output_dir
        # Where this process saves.
        self._folder = distribution.worker_folder(strategy, output_dir)
        self._options = options
        self._strategy = strategy
        self._now = now
        self._workers = distribution.Agreement(strategy)
        self._objective = plan.objective
        # Before any tokenizer of tensorflow_text is built: seeding clears them.
        keras.utils.set_random_seed(options.seed)
        with strategy.scope():
            self.model = plan.make_model()
            self.optimizer = plan.make_optimizer()
            self.optimizer.build(self.model.trainable_variables)
            self._guard = train_step.Guard(options.precision)
        # Seconds of training in earlier starts of the run.
        self._elapsed = tf.Variable(
            0.0, trainable=False, dtype=tf.float64, name="elapsed"
        )
        parts = {
            "model": self.model,
            "optimizer": self.optimizer,
            "guard": self._guard,
            "elapsed": self._elapsed,
        }
        if self.optimizer.pace is not None:
            parts["pace"] = self.optimizer.pace
        self._checkpoint = tf.train.Checkpoint(**parts)
        # Whether all weights come from some training, here or elsewhere.
        self._is_complete = False
        self.resumed_from = self._restore_latest()
        if self.resumed_from:
            logging.info("Going on from %s", self.resumed_from)
        elif plan.initialize:
            with strategy.scope():
                restored = plan.initialize(self.model)
                if plan.initialize_optimizer:
                    plan.initialize_optimizer(
                        self.optimizer, self.model.trainable_variables
                    )
            self._is_complete = restored is not None and not restored.new
        self._update = train_step.TrainStep(
            self.model,
            self.optimizer,
            self._objective,
            self._guard,
            options.gradient_accumulation_steps,
            options.seed,
        )
        # Without AutoGraph, whose rewriting takes longer than all the tracing.
        trace = tf.function(autograph=False)
        self._train_loop = trace(self._run_steps)
        self._evaluate_batch = trace(self._run_evaluation)
        self._predict_batch = trace(self._run_prediction)

    @functools.cached_property
    def _manager(self) -> tf.train.CheckpointManager:
        """Saves numbered checkpoints; who only evaluates needs none."""
        checkpoints.clean_state(self._folder)
        return tf.train.CheckpointManager(
            self._checkpoint,
            self._folder,
            max_to_keep=self._options.keep_checkpoint_max,
            checkpoint_name="model.ckpt",
            step_counter=self.optimizer.iterations,
        )

    @property
    def step(self) -> int:
        """Updates done so far."""
        return int(self.optimizer.iterations.numpy())

    def of_chief(self, value: bool) -> bool:
        """Return what the first worker has; every worker must ask."""
        return self._workers.of_chief(value)

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
                is copied to `model.ckpt-best`; larger is better, but for names
                that end in `loss`.

        Raises:
            errors.UserError: Too many updates in a row had to be skipped.
            SystemExit: The process was asked to end, by SIGTERM; a checkpoint
                is written. The code is `preemption.EXIT_CODE`.
        """
        checkpoints.remove_unfinished(self._folder, best=bool(evaluate))
        batches = iter(self._strategy.experimental_distribute_dataset(dataset))
        clock = _Clock(self._options.max_minutes, self._elapsed, self._now)
        profiler = _Profiler(self._options.profile_steps, self.output_dir)
        if evaluate and self.resumed_from:
            # The earlier start may have ended before it could.
            self._evaluate_once(log, evaluate, key_metric)
        with preemption.Watch() as watch:
            while self.step < num_train_steps and not clock.is_up:
                saved = self._train_to_next_stop(
                    batches, num_train_steps, (log, clock, watch, profiler)
                )
                if not (evaluate and saved):
                    continue
                # Several workers must leave together.
                alone = self._workers.is_alone
                with watch.leaving_at_once() if alone else nullcontext():
                    self._evaluate_once(log, evaluate, key_metric)
        profiler.stop()
        log.end(self.step)

    def follow(
        self,
        num_train_steps: int,
        log: run_log.RunLog,
        evaluate: Callable[[], dict[str, float]],
        key_metric: str,
    ) -> None:
        """Evaluate the checkpoints that another process writes.

        Begins with those that are there, and ends after the one of
        `num_train_steps`, or the one that the other process ended with.

        Args:
            num_train_steps: Where the other process stops.
            log: Where numbers go; not the log of the other process.
            evaluate: See `train`.
            key_metric: See `train`.
        """
        checkpoints.remove_unfinished(self._folder, numbered=False)
        done = {step for step, _ in log.column("eval", key_metric)}
        while True:
            for path in reversed(checkpoints.numbered(self.output_dir)):
                step = int(path.rsplit("-", 1)[1])
                if step in done:
                    continue
                done.add(step)
                try:
                    self._restore(path)
                except errors.UserError as error:
                    # Removed meanwhile, as the oldest of many are.
                    logging.warning("%s It is left out.", error)
                    continue
                self._evaluate_once(log, evaluate, key_metric)
            ended = run_log.end_of(self.output_dir)
            if num_train_steps in done or ended in done:
                return
            time.sleep(FOLLOW_SECONDS)

    def _train_to_next_stop(
        self,
        batches: Iterator[dict[str, tf.Tensor]],
        num_train_steps: int,
        services: "_Services",
    ) -> bool:
        """Train up to the next line of the log; tell whether it is saved."""
        log, clock, watch, profiler = services
        start = self.step
        stop = self._next_stop(num_train_steps)
        rows: list[np.ndarray] = []
        begun = self._now()
        chunk, stopping = 1, False
        while self.step < stop and not (rows and clock.is_up):
            profiler.look(self.step)
            left = profiler.bound(self.step, stop) - self.step
            chunk_begun = self._now()
            steps = tf.constant(min(chunk, left))
            rows.append(self._train_loop(batches, steps).numpy())
            asked, seconds, elapsed = self._workers.gather(
                float(watch.is_asked),
                self._now() - chunk_begun,
                clock.elapsed,
            ).max(0)
            stopping = bool(asked)
            clock.agreed = elapsed
            rate = len(rows[-1]) / seconds
            chunk = max(1, min(2 * chunk, int(rate * CHUNK_SECONDS)))
            if clock.set_pace(self.step, num_train_steps, self.optimizer):
                chunk = max(1, min(chunk, int(rate * clock.seconds_left / 2)))
            self._check_guard()
            if stopping:
                break
        work = self.step - start, begun
        self._log(log, np.concatenate(rows), work, clock.seconds_left)
        if stopping:
            self._save(clock)
            watch.leave(f"step {self.step} is saved in {self.output_dir}")
        ended = self.step == num_train_steps or clock.is_up
        if self.step % self._options.save_checkpoints_steps and not ended:
            return False
        self._save(clock)
        return True

    def _next_stop(self, num_train_steps: int) -> int:
        every = self._options.iterations_per_loop
        saving = self._options.save_checkpoints_steps
        return min(
            num_train_steps,
            (self.step // every + 1) * every,
            (self.step // saving + 1) * saving,
        )

    def _check_guard(self) -> None:
        """Stop a run that does not find back to finite numbers.

        Nothing needs to be undone: skipped updates change no weight.
        """
        in_row = int(self._guard.skipped_in_row.numpy())
        # float16 first tries smaller scales.
        scales = float(self._guard.loss_scale.numpy()) > 1.0
        if in_row < self._options.max_skipped_updates or scales:
            return
        saved = [*checkpoints.numbered(self.output_dir), "none yet"][0]
        raise errors.UserError(
            f"The loss or its gradient was not finite for the last {in_row} "
            f"updates before step {self.step}; they were skipped. The last "
            f"checkpoint is {saved}; its weights are finite. "
            "Lower --learning_rate, lengthen the warm-up, or try "
            "--precision=float32, and train into a new --output_dir, with that "
            "checkpoint as --init_checkpoint if you like. Labels outside of "
            "the vocabulary do it, too: data_prep.inspect_records shows them."
        )

    def _log(
        self,
        log: run_log.RunLog,
        rows: np.ndarray,
        work: tuple[int, float],
        seconds_left: float,
    ) -> None:
        """Write a line about steps, float32 [steps, names, 2]."""
        steps, begun = work
        sums = rows.astype(np.float64).sum(0)
        skipped = int(sums[-1, 0])
        if skipped:
            logging.warning(
                "%d of the last %d updates were skipped: numbers that are not "
                "finite.",
                skipped,
                steps,
            )
        if skipped == steps:
            return
        numbers = self._quotients(sums[:-2])
        numbers["gradient_norm"] = float(sums[-2, 0] / sums[-2, 1])
        # The rate of the last update that was made.
        rate = self.optimizer.rate(tf.constant(self.step - 1))
        numbers["learning_rate"] = float(rate)
        if skipped:
            numbers["skipped_updates"] = float(skipped)
        seconds = self._now() - begun
        log.write("train", self.step, numbers, steps / seconds, seconds_left)

    def _evaluate_once(
        self,
        log: run_log.RunLog,
        evaluate: Callable[[], dict[str, float]],
        key_metric: str,
    ) -> None:
        """Evaluate this step, unless the log has it; copy it if it is best."""
        known = self.step in dict(log.column("eval", key_metric))
        if not self._workers.of_chief(known):
            log.write("eval", self.step, evaluate())
        self._keep_best(log, key_metric)

    def _keep_best(self, log: run_log.RunLog, key_metric: str) -> None:
        sign = -1 if key_metric.endswith("loss") else 1
        scores = [
            (sign * score, -step)
            for step, score in log.column("eval", key_metric)
            if math.isfinite(score)
        ]
        is_best = bool(scores) and max(scores)[1] == -self.step
        if self._workers.of_chief(is_best):
            path = os.path.join(self._folder, checkpoints.BEST_NAME)
            self._write(lambda: self._checkpoint.write(path))
            # None reads it before it is complete.
            self._workers.gather(0.0)

    def _save(self, clock: "_Clock") -> None:
        self._elapsed.assign(clock.elapsed)
        self._write(lambda: self._manager.save(checkpoint_number=self.step))

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

    def _restore_latest(self) -> str | None:
        """Restore the newest checkpoint that can be read, and return it.

        Raises:
            errors.UserError: There are some, and none can be read; or other
                workers see others.
        """
        found = None
        failures = []
        for path in checkpoints.numbered(self.output_dir):
            try:
                self._restore(path)
            except errors.UserError as error:
                logging.warning("%s Trying the one before.", error)
                failures.append(str(error))
                continue
            found = path
            break
        if failures and not found:
            raise errors.UserError(
                f"No checkpoint in --output_dir={self.output_dir} can be read. "
                f"{failures[0]} Restore the folder from a copy, or train into "
                "another one."
            )
        self._check_same_step()
        return found

    def _check_same_step(self) -> None:
        """Make sure that all workers have read the same checkpoint.

        Raises:
            errors.UserError: They have not.
        """
        steps = self._workers.gather(self.step)
        if steps.min() != steps.max():
            raise errors.UserError(
                f"Workers found checkpoints of different steps in --output_dir="
                f"{self.output_dir}, from {steps.min():.0f} to "
                f"{steps.max():.0f}. It must be one folder that all workers "
                "see."
            )

    def _restore(self, path: str) -> None:
        try:
            status = self._checkpoint.restore(path)
            status.assert_existing_objects_matched()
        except (
            *(tf.errors.OpError, IndexError, AssertionError, ValueError),
        ) as error:
            raise errors.UserError(
                f"The checkpoint {path} cannot be read: "
                f"{str(error).splitlines()[0][:300]}."
            ) from None

    def restore_best(self) -> None:
        """Take the weights of the best checkpoint, else keep those there are.

        Raises:
            errors.UserError: Those there are would be random.
        """
        best = os.path.join(self.output_dir, checkpoints.BEST_NAME)
        if tf.io.gfile.exists(best + ".index"):
            self._restore(best)
            self._check_same_step()
        elif not self.step and not self._is_complete:
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
            kept = self._gather(real).astype(bool)
            parts.append({k: self._gather(v)[kept] for k, v in outputs.items()})
        if not parts:
            raise errors.UserError("There are no examples to predict.")
        return {k: np.concatenate([p[k] for p in parts]) for k in parts[0]}

    def _gather(self, value: tf.Tensor) -> np.ndarray:
        """Return the values of all replicas, in the order of the batch."""
        gathered: np.ndarray = self._strategy.gather(value, axis=0).numpy()
        return gathered

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
        """Make `steps` updates; return the rows of each, [steps, names, 2]."""
        shape = [len(self._update.names), 2]
        nothing = tf.TensorArray(tf.float32, steps, element_shape=shape)

        def one_step(
            number: tf.Tensor, rows: tf.TensorArray
        ) -> tuple[tf.Tensor, tf.TensorArray]:
            per_replica = self._strategy.run(self._update, [next(batches)])
            local = self._strategy.experimental_local_results(per_replica)
            return number + 1, rows.write(number, local[0])

        _, rows = tf.while_loop(
            lambda number, _: number < steps,
            one_step,
            (tf.constant(0), nothing),
            parallel_iterations=1,
        )
        return rows.stack()

    def _run_evaluation(self, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        def replica_sums(batch: dict[str, tf.Tensor]) -> tf.Tensor:
            ratios = self._objective.ratios(self.model, batch)
            return self._objective.stack(ratios)

        per_replica = self._strategy.run(replica_sums, [batch])
        return self._strategy.reduce(
            tf.distribute.ReduceOp.SUM, per_replica, axis=None
        )

    def _run_prediction(
        self, batch: dict[str, tf.Tensor]
    ) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        outputs = self._strategy.run(self.model, [batch])
        return outputs, batch["is_real_example"]


class _Clock:
    """The time of a run over its restarts, and the end that follows from it."""

    def __init__(
        self,
        max_minutes: float,
        earlier: tf.Variable,
        now: Callable[[], float],
    ):
        self._now = now
        self._budget = max_minutes * 60
        self._earlier = float(earlier.numpy())
        self._begun = self._now()
        # What all workers take the elapsed time for.
        self.agreed = self._earlier
        self._warm: tuple[int, float] | None = None

    @property
    def elapsed(self) -> float:
        """Seconds of the run so far, its restarts included."""
        return self._earlier + self._now() - self._begun

    @property
    def seconds_left(self) -> float:
        """Seconds to the end of the budget; infinite without one."""
        if not self._budget:
            return math.inf
        return max(0.0, self._budget - self.agreed)

    @property
    def is_up(self) -> bool:
        return not self.seconds_left

    def set_pace(
        self, step: int, num_train_steps: int, optimizer: optimization.AdamW
    ) -> bool:
        """Let the schedule end when the time is up; tell if there is a limit.

        The steps that are left follow from the rate since the first chunk,
        which was slow because it was compiled.
        """
        if not self._budget:
            return False
        if self._warm is None:
            self._warm = step, self.agreed
            return True
        done, since = step - self._warm[0], self.agreed - self._warm[1]
        last = step + done / since * self.seconds_left
        optimizer.set_pace(max(1.0, num_train_steps / max(last, step + 1)))
        return True


class _Profiler:
    """Runs TensorBoard's profiler between two steps."""

    def __init__(self, steps: str | None, output_dir: str):
        self._first, self._last = map(int, (steps or "0,0").split(","))
        self._folder = output_dir
        self._is_running = False

    def bound(self, step: int, stop: int) -> int:
        """Return the step up to which nothing changes."""
        changes = [s for s in (self._first, self._last) if step < s < stop]
        return min([*changes, stop])

    def look(self, step: int) -> None:
        """Begin or end at the right step."""
        if not self._is_running and self._first <= step < self._last:
            tf.profiler.experimental.start(self._folder)
            self._is_running = True
        elif step >= self._last:
            self.stop()

    def stop(self) -> None:
        """End, if it runs."""
        if self._is_running:
            tf.profiler.experimental.stop()
            self._is_running = False


_Services = tuple[run_log.RunLog, _Clock, preemption.Watch, _Profiler]
