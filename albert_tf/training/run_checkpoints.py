"""The checkpoints of a run: save them, restore the newest or the best."""

import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable

import tensorflow as tf
from absl import logging

from albert_tf.common import errors, files
from albert_tf.model.checkpoints import checkpoint_files
from albert_tf.training import distribution


@dataclasses.dataclass(frozen=True, eq=False)
class RunCheckpoints:
    """Saves and restores the state of a training in the folder of its run.

    The `optimizer` of the state counts the updates.

    Attributes:
        evaluated: Within it the model has the weights that are evaluated, which
            are those of the best checkpoint.
    """

    state: tf.train.Checkpoint
    output_dir: str
    workers: distribution.Workers
    max_to_keep: int
    evaluated: Callable[[], contextlib.AbstractContextManager[None]] = (
        contextlib.nullcontext
    )

    @property
    def _folder(self) -> str:
        """Where this process saves."""
        strategy = self.workers.strategy
        return distribution.worker_folder(strategy, self.output_dir)

    @functools.cached_property
    def _manager(self) -> tf.train.CheckpointManager:
        """Saves numbered checkpoints; a run that only evaluates needs none."""
        checkpoint_files.clean_state(self._folder)
        return tf.train.CheckpointManager(
            self.state,
            self._folder,
            max_to_keep=self.max_to_keep,
            checkpoint_name="model.ckpt",
            step_counter=self.state.optimizer.iterations,
        )

    @property
    def step(self) -> int:
        return int(self.state.optimizer.iterations.numpy())

    @property
    def newest(self) -> str | None:
        """Prefix of the newest numbered checkpoint in the folder."""
        return next(iter(checkpoint_files.numbered(self.output_dir)), None)

    def remove_unfinished(
        self, *, numbered: bool = True, best: bool = True
    ) -> None:
        """Remove what killed saves left; see `checkpoint_files`."""
        checkpoint_files.remove_unfinished(
            self._folder, numbered=numbered, best=best
        )
        self._remove_worker_copies()

    def check_disk_space(self, *, best: bool) -> None:
        """Make sure that a checkpoint fits on the disk, before any update.

        An earlier checkpoint is only deleted when the new one is complete.

        Args:
            best: Whether the best one is kept, too; the first needs room.
        """
        index = f"{checkpoint_files.BEST_NAME}.index"
        is_first = best and not files.exists(
            os.path.join(self.output_dir, index)
        )
        needed_bytes = sum(
            value.dtype.size * value.shape.num_elements()
            for value in tf.train.TrackableView(self.state).descendants()
            if isinstance(value, tf.Variable)
        )
        needed_bytes *= 1 + is_first
        files.require_disk_space(self.output_dir, needed_bytes, "output_dir")

    def save(self) -> None:
        self._write(
            lambda: self._manager.save(checkpoint_number=self.step),
            f"model.ckpt-{self.step}",
        )

    def save_best(self) -> None:
        """Save this step as the best one, in the place of an earlier one."""
        name = checkpoint_files.BEST_NAME
        path = os.path.join(self._folder, name)
        new = os.path.join(self._folder, checkpoint_files.NEW_BEST_NAME)

        def write() -> None:
            with self.evaluated():
                self.state.write(new)
            checkpoint_files.replace(new, path)

        self._write(write, name)
        # No worker may read it before it is complete.
        self.workers.gather(0.0)

    def _write(self, write: Callable[[], object], name: str) -> None:
        """Write a checkpoint; an earlier one stays until it is complete.

        Its half is removed if it cannot be completed.
        """
        try:
            with files.name_full_disk(os.path.join(self._folder, name)):
                write()
        except OSError:
            is_best = name == checkpoint_files.BEST_NAME
            self.remove_unfinished(numbered=not is_best, best=is_best)
            raise
        except tf.errors.OpError as error:
            raise checkpoint_files.write_error(
                f"a checkpoint to `output_dir={self.output_dir}`", error
            ) from None
        self._remove_worker_copies()

    def _remove_worker_copies(self) -> None:
        """Remove what a worker other than the chief had to save, too."""
        if self._folder != self.output_dir:
            for path in tf.io.gfile.glob(f"{self._folder}/model.ckpt-*"):
                tf.io.gfile.remove(path)

    def restore_latest(self) -> str | None:
        """Restore the newest readable checkpoint; return it, or None."""
        restored, failures = None, []
        for path in checkpoint_files.numbered(self.output_dir):
            try:
                self.restore(path)
            except errors.UserError as error:
                logging.warning("%s Trying the one before.", error)
                failures.append(str(error))
            else:
                restored = path
                break
        if failures and not restored:
            raise errors.UserError(
                f"No checkpoint in `output_dir={self.output_dir}` can be read. "
                f"{failures[0]} Restore the folder from a copy, or train into "
                "another one."
            )
        self._check_same_step()
        return restored

    def restore_best(self) -> bool:
        """Restore the best checkpoint; tell whether there is one."""
        best = os.path.join(self.output_dir, checkpoint_files.BEST_NAME)
        if not tf.io.gfile.exists(best + ".index"):
            return False
        self.restore(best)
        self._check_same_step()
        return True

    def restore(self, path: str) -> None:
        """Restore a checkpoint of this run, a prefix without `.index`."""
        try:
            status = self.state.restore(path)
            status.assert_existing_objects_matched()
        except (
            tf.errors.OpError,
            IndexError,
            AssertionError,
            ValueError,
        ) as error:
            raise errors.UserError(
                f"The checkpoint {path} cannot be read: "
                f"{str(error).splitlines()[0][:300]}."
            ) from None

    def _check_same_step(self) -> None:
        """Make sure that all workers have read the same checkpoint."""
        steps = self.workers.gather(self.step)
        if steps.min() != steps.max():
            raise errors.UserError(
                "Workers found checkpoints of different steps in "
                f"`output_dir={self.output_dir}`, from {steps.min():.0f} to "
                f"{steps.max():.0f}. It must be one folder that all workers "
                "see."
            )
