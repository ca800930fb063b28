"""What a student learns from a teacher while it is trained."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras

from albert_tf.common import errors
from albert_tf.finetuning import (
    base,
    finetuning_options,
    teacher,
    teacher_outputs,
)
from albert_tf.model.checkpoints import checkpoint_files, checkpoint_reader
from albert_tf.model.losses import distillation, objectives
from albert_tf.training import run_folder, word_embeddings

_WEIGHT = 0.5  # Share of a teacher in the loss.


class Lesson:
    """What a student learns from a teacher, beside its own labels."""

    def __init__(
        self,
        path: str,
        objective: Callable[..., objectives.Objective],
        *,
        asked: base.Task | None = None,
        gives_words: bool = False,
        gives_states: bool = False,
    ):
        """Say what is to be learned; `prepare` opens the teacher.

        Args:
            path: See `teacher.open_teacher`; or a folder of stored outputs.
            objective: From the objective of the labels, and the names of the
                teacher's outputs, to that of the student.
            asked: The task as a teacher without one gets it. Default: the
                student's.
            gives_words: Whether the student's word embeddings start from the
                teacher's.
            gives_states: Whether the teacher is asked for the states of all
                tokens in every update, through `model`.
        """
        self.objective = objective
        self._path = path
        self._asked = asked
        self._gives_words = gives_words
        self._gives_states = gives_states
        self._teacher: teacher.Teacher | teacher.SavedTexts | None = None
        self._facts: dict[str, Any] = {}
        self._stored: teacher_outputs.StoredOutputs | None = None
        self._words: np.ndarray | None = None

    def prepare(
        self,
        task: base.Task,
        examples: Sequence[base.Example],
        precision: str | None = None,
    ) -> None:
        """Open the teacher, which `outputs` asks for the same examples."""
        if teacher_outputs.is_stored(self._path):
            self._stored = teacher_outputs.open_stored(
                self._path, task, examples
            )
        else:
            asked = self._asked or task
            self._teacher = teacher.open_teacher(self._path, asked, precision)
            self._facts = teacher_outputs.facts_of(
                self._teacher, task, examples
            )
        if not (self._gives_words or self._gives_states):
            return
        if not isinstance(self._teacher, teacher.Teacher):
            raise errors.UserError(
                f"`{teacher.OPTION}={self._path}` shows outputs alone, no word "
                "embeddings or states of tokens. Use `word_embeddings=random` "
                "without `hidden_weight` and `relation_weight`, or name the "
                "model itself."
            )
        if self._gives_states:
            teacher_outputs.require_same_tokens(self._teacher.task, task)
        if not self._gives_words:
            return
        self._words = word_embeddings.for_vocabulary(
            self._teacher.model.encoder.embeddings.word_embeddings.numpy(),
            self._teacher.task.tokenizer,
            task.tokenizer,
        )

    def outputs(
        self, examples: Sequence[base.Example], folder: str
    ) -> teacher_outputs.StoredOutputs:
        if self._stored is None:
            assert self._teacher is not None, "`prepare` comes first."
            self._stored = teacher_outputs.store(
                self._teacher, self._facts, examples, folder
            )
            if not self._gives_states:
                self._teacher = None  # The student gets its memory.
        return self._stored

    @property
    def model(self) -> keras.Model | None:
        """The teacher with its head; None of a lesson without states."""
        return getattr(self._teacher, "model", None)

    def start(self, model: keras.Model) -> None:
        if self._words is not None:
            size = model.encoder.config.embedding_size
            table = word_embeddings.reduced(self._words, size)
            word_embeddings.assign(model, table)


def soft_labels(
    settings: finetuning_options.TeacherOptions,
) -> Lesson | None:
    if settings.teacher is None:
        return None
    weight = settings.teacher_weight
    weight = _WEIGHT if weight is None else weight
    temperature = settings.temperature or 1.0
    return Lesson(
        settings.teacher,
        lambda hard, names: distillation.soft_labels(
            hard, names, weight, temperature
        ),
    )


@dataclasses.dataclass(frozen=True)
class Vectors:
    """What is known of a teacher's vectors before it is loaded."""

    width: int
    text_pooling: str = "mean"
    projection_size: int = 0


def vectors_of(path: str) -> Vectors:
    """Return what a run, a checkpoint or a folder of outputs says."""
    if teacher_outputs.is_stored(path):
        (feature,) = teacher_outputs.StoredOutputs(path).layout
        return Vectors(feature.shape[0])
    if tf.saved_model.contains_saved_model(path):
        return Vectors(teacher.SavedTexts(path).width)
    found = checkpoint_files.find(path, teacher.OPTION)
    folder = run_folder.folder_of(found)
    if run_folder.is_run(folder):
        run = run_folder.read(folder, teacher.OPTION)
        size = run.facts.get("projection_size")
        return Vectors(int(size or run.config.hidden_size))
    config = checkpoint_reader.config_beside(found)
    if config is None:
        raise teacher.no_config(path)
    modules = checkpoint_reader.modules_beside(found)
    pooling = modules.text_pooling if modules else "mean"
    size = checkpoint_reader.read(found).projection_size
    return Vectors(size or config.hidden_size, pooling, size)
