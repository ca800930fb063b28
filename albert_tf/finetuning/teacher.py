"""A model that teaches: a finetuned run, or any checkpoint."""

import copy
import dataclasses
import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401 - registers the tokenizer's operations.
import tf_keras as keras

from albert_tf.common import errors
from albert_tf.finetuning import base, batches, features, packing, predictions
from albert_tf.model import compatibility
from albert_tf.model.checkpoints import (
    checkpoint_files,
    checkpoint_reader,
    huggingface,
    restoring,
)
from albert_tf.model.losses import distillation
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.text import tokenization
from albert_tf.training import run_folder

OPTION = "teacher"
_BATCH = 64  # Examples; no output depends on it.
_POOLER = "bert/pooler"
VECTOR = distillation.VECTOR
_LEAST_PROBABILITY = 1e-30


class Teacher:
    """A model with its own vocabulary, for the student's task."""

    def __init__(self, task: base.Task, model: keras.Model):
        self.task = task
        self.model = model
        self._call = predictions.compile_model(model)

    @property
    def identity(self) -> dict[str, Any]:
        digest = hashlib.sha256()
        for variable in sorted(self.model.variables, key=lambda v: v.name):
            digest.update(variable.name.encode() + variable.numpy().tobytes())
        return {
            "weights_sha256": digest.hexdigest(),
            "vocab_sha256": self.task.tokenizer.fingerprint,
            "options": {**self.task.settings, **self.task.tokenizer.settings},
            "config": dataclasses.asdict(self.model.encoder.config),
            "precision": str(self.model.encoder.precision),
            "text_pooling": getattr(self.model, "text_pooling", None),
        }

    def outputs(self, examples: Sequence[base.Example]) -> base.Outputs:
        """Return the outputs that a student learns from, for all records."""
        outputs = batches.run_model(
            self._call, self.task, examples, _BATCH, split=base.TRAIN
        )
        # Tokens that can be no answer have numbers that records cannot hold.
        return {
            name: np.maximum(outputs[name], distillation.MASKED)
            for name in (*distillation.SOFT, distillation.VECTOR)
            if name in outputs
        }


class PairTeacher(Teacher):
    """A model that reads two texts at once and scores them: a cross-encoder.

    The score is its number, or the logit of the label 1 less that of 0.
    """

    def outputs(self, examples: Sequence[base.Example]) -> base.Outputs:
        """Return `scores`, float32 [n, texts - 1], of a text with others."""
        pairs = [
            packing.TextExample(one.guid, (one.texts[0], other))
            for one in examples
            for other in one.texts[1:]
        ]
        outputs = batches.run_model(self._call, self.task, pairs, _BATCH)
        logits = outputs["logits"]
        scores = logits[:, -1] - (logits[:, 0] if self.task.labels else 0)
        return {distillation.SCORES: scores.reshape(len(examples), -1)}


class TextTeacher:
    """A teacher that is a SavedModel: it gives vectors or labels of texts.

    Without a task, which is enough for `width`, it gives vectors.
    """

    def __init__(self, path: str, task: base.Task | None = None):
        self.task: Any = task
        self._path = path
        self._model = tf.saved_model.load(path)
        self._ask = self._model.signatures.get("serving_default")
        outputs = self._ask.structured_outputs if self._ask else {}
        self._output = (task.taught_by if task else None) or VECTOR
        inputs = self._ask.structured_input_signature[1] if self._ask else {}
        texts = ("text", "text_pair")[: 1 + bool(task and task.has_pairs)]
        self._texts = texts
        taught = outputs.get(self._output)
        if not (taught and taught.dtype.is_floating) or {*inputs} != {*texts}:
            raise errors.UserError(
                f"`{OPTION}={path}` is a SavedModel that gives no float32 "
                f"{self._output} for {' and '.join(texts)}. Name another one, "
                "or the run or checkpoint that it was exported from."
            )
        if "predicted" in outputs:
            raise _multi_label_error(path)
        self.width = int(outputs[self._output].shape[-1])
        if task and task.labels:
            labels = self._call([("",) * len(texts)])["labels"].numpy()[0]
            names = tuple(label.decode() for label in labels)
            if names != tuple(task.labels):
                raise _label_error(names, task.labels, path)

    @property
    def identity(self) -> dict[str, Any]:
        return {"saved_model_sha256": features.content_sha256(self._path)}

    def outputs(self, examples: Sequence[base.Example]) -> base.Outputs:
        """Return the vectors of texts, or logits up to a constant, in order."""
        count = len(self._texts)
        texts = [example.texts[:count] for example in examples]
        lengths = [sum(map(len, parts)) for parts in texts]
        order = np.argsort(lengths, kind="stable")
        values = np.zeros([len(texts), self.width], np.float32)
        for start in range(0, len(texts), _BATCH):
            rows = order[start : start + _BATCH]
            batch = [texts[row] for row in rows]
            values[rows] = self._call(batch)[self._output]
        if self._output == VECTOR:
            return {VECTOR: values}
        return {"logits": np.log(np.maximum(values, _LEAST_PROBABILITY))}

    def _call(self, texts: Sequence[Sequence[str]]) -> Any:
        columns = zip(self._texts, zip(*texts, strict=True), strict=True)
        return self._ask(**{name: tf.constant(t) for name, t in columns})


AnyTeacher = Teacher | TextTeacher


def open_teacher(
    path: str, task: base.Task, precision: str | None = None
) -> AnyTeacher:
    """Load a model that knows a student's task.

    Args:
        path: The folder of a run (of several, the best one counts) or a
            checkpoint in it, or any checkpoint with config and vocabulary
            beside it; for vectors and labels of texts a SavedModel, too. For
            scores of pairs a run alone.
        task: The student's task; a run must have been finetuned for the same.
            That of scores is of any task with pairs that `PairTeacher` reads.
        precision: Of the computations; a SavedModel has its own.
    """
    wants_vectors = task.taught_by == VECTOR
    wants_scores = task.taught_by == distillation.SCORES
    if (
        not wants_scores
        and task.taught_by
        and tf.saved_model.contains_saved_model(path)
    ):
        return TextTeacher(path, task)
    folder = run_folder.folder_of(checkpoint_files.find(path, OPTION))
    if run_folder.is_run(folder):
        name = run_folder.read(folder, OPTION).options.get("task_name")
        if name == task.name or not wants_vectors:
            predictor = predictions.RunPredictor(
                folder,
                None if tf.io.gfile.isdir(path) else path,
                _BATCH,
                option=OPTION,
            )
            teacher_task = predictor.task
            if wants_scores:
                _require_scores(path, teacher_task)
                return PairTeacher(teacher_task, predictor.load(precision))
            _check_task(teacher_task, task, path)
            model = predictor.load(precision)
            if task.teacher_reads_alike:
                teacher_task = copy.copy(task)
                teacher_task.tokenizer = predictor.task.tokenizer
                teacher_task.max_seq_length = predictor.task.max_seq_length
            return Teacher(teacher_task, model)
    if wants_scores:
        _require_scores(path, None)
    return _load_checkpoint(path, task, precision, needs_head=not wants_vectors)


def _load_checkpoint(
    path: str, task: base.Task, precision: str | None, *, needs_head: bool
) -> Teacher:
    """Make a teacher of the student's task from any checkpoint."""
    checkpoint = checkpoint_reader.read(path, OPTION)
    if checkpoint.config is None:
        raise no_config_error(path)
    vocabulary, folder = run_folder.vocabulary_beside(
        checkpoint.path, tokenization.VocabularyOptions()
    )
    if vocabulary.path is None:
        raise errors.UserError(
            f"`{OPTION}={path}` has no vocabulary in {folder}, or several. Put "
            "the one it was trained with there."
        )
    teacher_task = copy.copy(task)
    teacher_task.tokenizer = compatibility.load_tokenizer(
        vocabulary.resolved(), checkpoint.config, path
    )
    if needs_head and task.scale != (0.0, 1.0):
        raise errors.UserError(
            f"`{OPTION}={path}` is no run, so the unit of its numbers is not "
            "known. Name the run, or learn with `ranking_loss=pairwise`."
        )
    positions = checkpoint.config.max_position_embeddings
    teacher_task.max_seq_length = min(task.max_seq_length, positions)
    labels = list(task.labels)
    if labels and huggingface.is_folder(checkpoint.path):
        details = huggingface.read_details(checkpoint.path)
        if details.is_multi_label:
            raise _multi_label_error(path)
        nameless = [f"LABEL_{n}" for n in range(len(details.labels))]
        if list(details.labels) not in ([], nameless, labels):
            raise _label_error(details.labels, labels, path)
    encoder = AlbertModel(checkpoint.config, precision=precision)
    model = teacher_task.make_model(encoder)
    has_pooler = any(n.startswith(_POOLER) for n in checkpoint.shapes)
    new_scopes = [] if needs_head or has_pooler else [_POOLER]
    restoring.restore(model, checkpoint, OPTION, new_scopes=new_scopes)
    return Teacher(teacher_task, model)


def no_config_error(path: str) -> errors.UserError:
    return errors.UserError(
        f"`{OPTION}={path}` has no config file beside it. Give it its "
        "config.json, or albert_config.json."
    )


def _check_task(teacher_task: base.Task, task: base.Task, path: str) -> None:
    """Refuse a run of another task, or with other labels or options."""
    kinds = {(type(t), t.name, t.has_pairs) for t in (teacher_task, task)}
    if len(kinds) > 1:
        raise errors.UserError(
            f"`{OPTION}={path}` was finetuned for {_task_name(teacher_task)}, "
            f"the student is for {_task_name(task)}. Name a run of the same "
            "task."
        )
    if teacher_task.sequences_vary:
        raise errors.UserError(
            f"`{OPTION}={path}` was finetuned with `windows`, so it has "
            "several outputs for a text. Name its SavedModel, or another run."
        )
    for name, actual in task.alike.items():
        expected = teacher_task.alike[name]
        if expected == actual:
            continue
        if name == "labels":
            raise _label_error(expected, actual, path)
        raise errors.UserError(
            f"`{OPTION}={path}` was finetuned with `{name}={expected}`, the "
            f"student has `{name}={actual}`. Name a teacher with the same."
        )


def _require_scores(path: str, task: base.Task | None) -> None:
    """Refuse what is no run, or one whose outputs do not score two texts."""
    is_score = task and (
        task.problem == "number"
        or (task.problem == "label" and task.labels == ("0", "1"))
    )
    if not (task and is_score and task.has_pairs) or task.sequences_vary:
        kind = f"was finetuned for {_task_name(task)}" if task else "is no run"
        raise errors.UserError(
            f"`{OPTION}={path}` {kind}. Name a run of run_classifier that "
            "scores pairs of texts: a ranking, or pairs with numbers or the "
            "labels 0 and 1."
        )


def _task_name(task: base.Task) -> str:
    return f"{task.name} ({task.kind})" if task.kind else task.name


def _multi_label_error(path: str) -> errors.UserError:
    return errors.UserError(
        f"`{OPTION}={path}` gives a text several labels, the task one. Name "
        "another teacher."
    )


def _label_error(labels: Any, expected: Any, path: str) -> errors.UserError:
    def listed(names: Any) -> str:
        return ", ".join(map(str, names)) or "a number instead of labels"

    return errors.UserError(
        f"`{OPTION}={path}` knows the labels {listed(labels)}, the task has "
        f"{listed(expected)}. Name a teacher with the same labels in the same "
        "order."
    )
