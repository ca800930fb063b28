"""What a student learns from a teacher while it is trained."""

import dataclasses
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras

from albert_tf.common import errors, strict_json
from albert_tf.finetuning import (
    base,
    fact_sources,
    finetuning_options,
    saved_outputs,
    teacher,
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
        self._teacher: teacher.AnyTeacher | None = None
        self._facts: dict[str, Any] = {}
        self._stored: saved_outputs.StoredOutputs | None = None
        self._words: np.ndarray | None = None

    def prepare(
        self,
        task: base.Task,
        examples: Sequence[base.Example],
        precision: str | None = None,
    ) -> None:
        """Open the teacher, which `outputs` asks for the same examples."""
        if saved_outputs.is_stored(self._path):
            self._stored = open_stored(self._path, task, examples)
        else:
            asked = self._asked or task
            self._teacher = teacher.open_teacher(self._path, asked, precision)
            self._facts = facts_of(self._teacher, task, examples)
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
            require_same_tokens(self._teacher.task, task)
        if not self._gives_words:
            return
        self._words = word_embeddings.convert_rows(
            self._teacher.model.encoder.embeddings.word_embeddings.numpy(),
            self._teacher.task.tokenizer,
            task.tokenizer,
        )

    def outputs(
        self, examples: Sequence[base.Example], folder: str
    ) -> saved_outputs.StoredOutputs:
        if self._stored is None:
            assert self._teacher is not None, "`prepare` comes first."
            self._stored = ask(self._teacher, self._facts, examples, folder)
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
            table = word_embeddings.reduce_width(self._words, size)
            word_embeddings.assign(model, table)


def facts_of(
    teaching: teacher.AnyTeacher,
    task: base.Task,
    examples: Sequence[base.Example],
) -> dict[str, Any]:
    """Return what a teacher's outputs for training examples follow from.

    A teacher that cuts texts otherwise is refused where that matters.
    """
    facts = _data_facts(task, examples)
    if facts["records"]:
        require_same_tokens(teaching.task, task)
    return {**facts, "teacher": teaching.facts}


def require_same_tokens(taught: base.Task, task: base.Task) -> None:
    if _records(taught) != _records(task):
        raise errors.UserError(
            f"`{teacher.OPTION}` has another vocabulary or cuts texts in "
            "another way than the student. Here the outputs belong to single "
            "tokens: use the same vocabulary, `max_seq_length` and windows."
        )


def ask(
    teaching: teacher.AnyTeacher,
    facts: Mapping[str, Any],
    examples: Sequence[base.Example],
    folder: str,
) -> saved_outputs.StoredOutputs:
    """Ask a teacher for the outputs of examples that nobody has asked for."""
    text = strict_json.dumps(facts, sort_keys=True)
    key = hashlib.sha256(text.encode()).hexdigest()[:16]
    place = os.path.join(folder, f"teacher-{facts['task']}-{key}")
    teaching.task.remarks = {}
    saved_outputs.store(place, facts, examples, teaching.outputs)
    base.log_remarks(teaching.task.remarks)
    return saved_outputs.StoredOutputs(place)


def _data_facts(
    task: base.Task, examples: Sequence[base.Example]
) -> dict[str, Any]:
    are_of_tokens = task.output_widths or task.outputs_are_positions
    # Of one file, options may choose other rows, columns or levels.
    digest = hashlib.sha256()
    for example in examples:
        if type(example).__repr__ is object.__repr__:
            example = example.__getstate__()  # Theirs is a memory address.
        digest.update(f"{example!a}\0".encode())
    return {
        "examples_sha256": digest.hexdigest(),
        "split": base.TRAIN,
        "task": task.name,
        "records": _records(task) if are_of_tokens else None,
    }


def _records(task: base.Task) -> dict[str, Any]:
    """Return what records follow from, beside the texts."""
    tokenizer = task.tokenizer
    return {
        "vocab_sha256": tokenizer.fingerprint,
        **task.settings,
        **tokenizer.settings,
    }


def open_stored(
    folder: str, task: base.Task, examples: Sequence[base.Example]
) -> saved_outputs.StoredOutputs:
    """Open a folder that an earlier run left, for the same examples."""
    stored = saved_outputs.StoredOutputs(folder)
    facts = _data_facts(task, examples)
    names = [n for n in facts if stored.facts.get(n) != facts[n]]
    if names:
        raise errors.UserError(
            f"`{teacher.OPTION}={folder}` holds the outputs for other training "
            "data, or was made by an earlier version: it differs in "
            f"{', '.join(names)}. Name the teacher itself."
        )
    return stored


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
    if saved_outputs.is_stored(path):
        (feature,) = saved_outputs.StoredOutputs(path).layout
        return Vectors(feature.shape[0])
    if tf.saved_model.contains_saved_model(path):
        return Vectors(teacher.SavedTexts(path).width)
    checkpoint = checkpoint_files.find(path, teacher.OPTION)
    folder = run_folder.folder_of(checkpoint)
    if run_folder.is_run(folder):
        run = run_folder.read(folder, teacher.OPTION)
        size = fact_sources.facts_of_run(run).get("projection_size")
        return Vectors(int(size or run.config.hidden_size))
    config = checkpoint_reader.config_beside(checkpoint)
    if config is None:
        raise teacher.no_config(path)
    modules = checkpoint_reader.modules_beside(checkpoint)
    pooling = modules.text_pooling if modules else "mean"
    size = checkpoint_reader.read(checkpoint).projection_size
    return Vectors(size or config.hidden_size, pooling, size)
