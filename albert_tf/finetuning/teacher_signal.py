"""The distillation signal: what a student learns from a teacher in training."""

import dataclasses
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras

from albert_tf.common import errors, prompts, strict_json
from albert_tf.finetuning import (
    base,
    fact_sources,
    finetuning_options,
    saved_outputs,
    teacher,
    teacher_vectors,
)
from albert_tf.model.checkpoints import checkpoint_files, checkpoint_reader
from albert_tf.model.losses import distillation, objectives
from albert_tf.training import run_folder, word_embeddings

_WEIGHT = 0.5  # Share of a teacher in the loss.


@dataclasses.dataclass
class TeacherSignal:
    """The signal of a teacher: outputs, and perhaps embeddings and states.

    `prepare` opens the teacher.

    Attributes:
        path: See `teacher.open_teacher`; or a folder of stored outputs. None:
            there are `vectors` alone.
        objective: From the objective of the labels, and the names of the
            teacher's outputs, to that of the student.
        vectors: Learnt in place of the outputs of a teacher.
        dimensions: What the width of vectors is reduced to.
        default_task: The task of a teacher whose checkpoint has none. Default:
            the student's.
        copies_embeddings: Whether the student's word embeddings start from the
            teacher's.
        uses_states: Whether each update also computes the teacher's hidden
            states of all tokens, through `model`.
    """

    path: str | None
    objective: Callable[..., objectives.Objective]
    vectors: teacher_vectors.FileVectors | None = None
    dimensions: int | None = None
    default_task: base.Task | None = None
    copies_embeddings: bool = False
    uses_states: bool = False

    def __post_init__(self) -> None:
        self._teacher: teacher.AnyTeacher | None = None
        self._key: dict[str, Any] = {}
        self._targets: saved_outputs.Targets | None = None
        self._word_embeddings: np.ndarray | None = None

    def prepare(
        self,
        task: base.Task,
        examples: Sequence[base.Example],
        precision: str | None = None,
    ) -> None:
        """Open the teacher, or its stored outputs for these examples."""
        needs_model = self.copies_embeddings or self.uses_states
        if self.vectors:
            self.vectors.require_rows(len(examples))
            self._targets = self.vectors
        elif saved_outputs.has_teacher_outputs(str(self.path)):
            self._targets = open_stored(str(self.path), task, examples)
        if self.path and (needs_model if self.vectors else not self._targets):
            self._teacher = teacher.open_teacher(
                self.path, self.default_task or task, precision
            )
        if self._teacher and not self._targets:
            self._key = outputs_key(self._teacher, task, examples)
        if not needs_model:
            return
        if not isinstance(self._teacher, teacher.Teacher):
            raise errors.UserError(
                f"`{teacher.OPTION}={self.path}` shows outputs alone, no word "
                "embeddings or states of tokens. Use `word_embeddings=random` "
                "without `hidden_weight` and `relation_weight`, or name the "
                "model itself."
            )
        if self.uses_states:
            require_same_tokens(self._teacher.task, task)
            if list(task.for_teacher(examples)) != list(examples):
                raise errors.UserError(
                    "`hidden_weight` and `relation_weight` compare the tokens "
                    "of one text, but `train_file` has another one for the "
                    "teacher. Leave them out, or its column `teacher_text`."
                )
        if not self.copies_embeddings:
            return
        self._word_embeddings = word_embeddings.convert_rows(
            self._teacher.model.encoder.embeddings.word_embeddings.numpy(),
            self._teacher.task.tokenizer,
            task.tokenizer,
        )

    def outputs(
        self, examples: Sequence[base.Example], folder: str
    ) -> saved_outputs.Targets:
        if self._targets is None:
            assert self._teacher is not None, "`prepare` comes first."
            self._targets = load_or_compute(
                self._teacher, self._key, examples, folder
            )
        if not self.uses_states:
            self._teacher = None  # The student gets its memory.
        if self.dimensions:
            return saved_outputs.ReducedVectors(self._targets, self.dimensions)
        return self._targets

    @property
    def model(self) -> keras.Model | None:
        """The teacher with its head; None unless the signal has states."""
        return getattr(self._teacher, "model", None)

    def start(self, model: keras.Model) -> None:
        if self._word_embeddings is not None:
            size = model.encoder.config.embedding_size
            table = word_embeddings.reduce_width(self._word_embeddings, size)
            word_embeddings.assign(model, table)


def outputs_key(
    opened: teacher.AnyTeacher,
    task: base.Task,
    examples: Sequence[base.Example],
) -> dict[str, Any]:
    """Return all that a teacher's outputs for training examples depend on.

    If outputs are of single tokens, the teacher must tokenize as the student.
    """
    key = _data_key(task, examples)
    if key["records"]:
        require_same_tokens(opened.task, task)
    return {**key, "teacher": opened.identity}


def require_same_tokens(teacher_task: base.Task, task: base.Task) -> None:
    if _tokenization_settings(teacher_task) != _tokenization_settings(task):
        raise errors.UserError(
            f"`{teacher.OPTION}` has another vocabulary or cuts texts in "
            "another way than the student. Here the outputs belong to single "
            "tokens: use the same vocabulary, `max_seq_length` and windows."
        )


def load_or_compute(
    opened: teacher.AnyTeacher,
    key: Mapping[str, Any],
    examples: Sequence[base.Example],
    folder: str,
) -> saved_outputs.TeacherOutputs:
    """Return a teacher's outputs for examples; compute those not stored yet."""
    text = strict_json.dumps(key, sort_keys=True)
    name = hashlib.sha256(text.encode()).hexdigest()[:16]
    path = os.path.join(folder, f"teacher-{key['task']}-{name}")
    task = opened.task
    task.remarks = {}
    examples = task.for_teacher(examples)
    saved_outputs.store_outputs(path, key, examples, opened.outputs)
    base.log_remarks(task.remarks)
    return saved_outputs.TeacherOutputs(path)


def _data_key(
    task: base.Task, examples: Sequence[base.Example]
) -> dict[str, Any]:
    """Return the student's part of the key under which outputs are stored.

    It has a hash of the examples, not of their file: of one file, options may
    choose other rows, columns or levels.
    """
    has_token_outputs = task.output_widths or task.outputs_are_positions
    digest = hashlib.sha256()
    for example in examples:
        if type(example).__repr__ is object.__repr__:
            example = example.__getstate__()  # Not its address.
        digest.update(f"{example!a}\0".encode())
    return {
        "examples_sha256": digest.hexdigest(),
        "split": base.TRAIN,
        "task": task.name,
        "records": _tokenization_settings(task) if has_token_outputs else None,
    }


def _tokenization_settings(task: base.Task) -> dict[str, Any]:
    """Return the settings that tokenization of the records depends on."""
    tokenizer = task.tokenizer
    return {
        "vocab_sha256": tokenizer.fingerprint,
        **task.settings,
        **tokenizer.settings,
    }


def open_stored(
    folder: str, task: base.Task, examples: Sequence[base.Example]
) -> saved_outputs.TeacherOutputs:
    """Open outputs that an earlier run has stored for the same examples."""
    stored = saved_outputs.TeacherOutputs(folder)
    key = _data_key(task, examples)
    names = [n for n in key if stored.key.get(n) != key[n]]
    if names:
        raise errors.UserError(
            f"`{teacher.OPTION}={folder}` holds the outputs for other training "
            "data, or was made by an earlier version: it differs in "
            f"{', '.join(names)}. Name the teacher itself."
        )
    return stored


def soft_labels(
    settings: finetuning_options.TeacherOptions,
) -> TeacherSignal | None:
    """Return the signal of a teacher's class probabilities, if named."""
    if settings.teacher is None:
        return None
    weight = settings.teacher_weight
    weight = _WEIGHT if weight is None else weight
    temperature = settings.temperature or 1.0
    return TeacherSignal(
        settings.teacher,
        lambda hard, names: distillation.soft_labels(
            hard, names, weight, temperature
        ),
    )


@dataclasses.dataclass(frozen=True)
class VectorInfo:
    """How a teacher makes its vectors, known before it is loaded."""

    width: int
    text_pooling: str = "mean"
    projection_size: int = 0
    prompting: prompts.PromptOptions = prompts.NONE


def describe_vectors(path: str) -> VectorInfo:
    """Find out about the vectors of a run, a checkpoint or stored outputs."""
    if saved_outputs.has_teacher_outputs(path):
        (feature,) = saved_outputs.TeacherOutputs(path).layout
        return VectorInfo(feature.shape[0])
    if tf.saved_model.contains_saved_model(path):
        return VectorInfo(teacher.TextTeacher(path).width)
    checkpoint = checkpoint_files.find(path, teacher.OPTION)
    folder = run_folder.folder_of(checkpoint)
    if run_folder.is_run(folder):
        run = run_folder.read(folder, teacher.OPTION)
        facts = fact_sources.facts_of_run(run)
        width = int(facts.get("projection_size") or run.config.hidden_size)
        given = facts.get("prompts"), facts.get("prompt")
        return VectorInfo(width, prompting=prompts.PromptOptions(*given))
    config = checkpoint_reader.config_beside(checkpoint)
    if config is None:
        raise teacher.no_config_error(path)
    modules = checkpoint_reader.modules_beside(checkpoint)
    size = checkpoint_reader.read(checkpoint).projection_size
    width = size or config.hidden_size
    if modules is None:
        return VectorInfo(width, projection_size=size)
    return VectorInfo(width, modules.text_pooling, size, modules.prompting)
