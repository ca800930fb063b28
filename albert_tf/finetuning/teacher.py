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
from albert_tf.finetuning import (
    base,
    batches,
    features,
    predictions,
)
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
_BATCH = 64  # Examples. The number decides about no output.
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
    def facts(self) -> dict[str, Any]:
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
        """Return what can be learned, for all records of training examples."""
        found = batches.run_model(
            self._call, self.task, examples, _BATCH, split=base.TRAIN
        )
        # Tokens that can be no answer have numbers that records cannot hold.
        return {
            name: np.maximum(found[name], distillation.MASKED)
            for name in (*distillation.SOFT, distillation.VECTOR)
            if name in found
        }


class SavedTexts:
    """A SavedModel of ours that gives vectors of texts, or their labels.

    Without a task, as long as only `width` is asked for, it gives vectors.
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
        if self._output not in outputs or {*inputs} != {*texts}:
            raise errors.UserError(
                f"`{OPTION}={path}` is a SavedModel that gives no "
                f"{self._output} for {' and '.join(texts)}. Name another one, "
                "or the run or checkpoint that it was exported from."
            )
        if "predicted" in outputs:
            raise _several_labels(path)
        self.width = int(outputs[self._output].shape[-1])
        if task and task.labels:
            labels = self._call([("",) * len(texts)])["labels"].numpy()[0]
            its = tuple(label.decode() for label in labels)
            if its != tuple(task.labels):
                raise _other_labels(its, task.labels, path)

    @property
    def facts(self) -> dict[str, Any]:
        return {"saved_model_sha256": features.content_sha256(self._path)}

    def outputs(self, examples: Sequence[base.Example]) -> base.Outputs:
        """Return the vectors of texts, or logits less a constant, in order."""
        count = len(self._texts)
        texts = [example.texts[:count] for example in examples]
        lengths = [sum(map(len, some)) for some in texts]
        order = np.argsort(lengths, kind="stable")
        found = np.zeros([len(texts), self.width], np.float32)
        for start in range(0, len(texts), _BATCH):
            rows = order[start : start + _BATCH]
            some = [texts[row] for row in rows]
            found[rows] = self._call(some)[self._output]
        if self._output == VECTOR:
            return {VECTOR: found}
        return {"logits": np.log(np.maximum(found, _LEAST_PROBABILITY))}

    def _call(self, texts: Sequence[Sequence[str]]) -> Any:
        columns = zip(self._texts, zip(*texts, strict=True), strict=True)
        return self._ask(**{name: tf.constant(t) for name, t in columns})


AnyTeacher = Teacher | SavedTexts


def open_teacher(
    path: str, task: base.Task, precision: str | None = None
) -> AnyTeacher:
    """Load a model that knows a student's task.

    Args:
        path: The folder of a run (of several, the best one counts) or a
            checkpoint in it, or any checkpoint with config and vocabulary
            beside it; for vectors and labels of texts a SavedModel, too.
        task: That of the student. A run's own has to be of its kind.
        precision: What it computes in; a SavedModel has its own.
    """
    wants_vectors = task.taught_by == VECTOR
    if task.taught_by and tf.saved_model.contains_saved_model(path):
        return SavedTexts(path, task)
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
            taught = predictor.task
            _check_task(taught, task, path)
            model = predictor.load(precision)
            if wants_vectors:  # Of other examples than it was trained on.
                taught = copy.copy(task)
                taught.tokenizer = predictor.task.tokenizer
                taught.max_seq_length = predictor.task.max_seq_length
            return Teacher(taught, model)
    return _of_checkpoint(path, task, precision, needs_head=not wants_vectors)


def _of_checkpoint(
    path: str, task: base.Task, precision: str | None, *, needs_head: bool
) -> Teacher:
    checkpoint = checkpoint_reader.read(path, OPTION)
    if checkpoint.config is None:
        raise no_config(path)
    vocabulary, folder = run_folder.vocabulary_beside(
        checkpoint.path, tokenization.VocabularyOptions()
    )
    if vocabulary.path is None:
        raise errors.UserError(
            f"`{OPTION}={path}` has no vocabulary in {folder}, or several. Put "
            "the one it was trained with there."
        )
    taught = copy.copy(task)
    taught.tokenizer = compatibility.load_tokenizer(
        vocabulary.resolved(), checkpoint.config, path
    )
    positions = checkpoint.config.max_position_embeddings
    taught.max_seq_length = min(task.max_seq_length, positions)
    labels = list(task.labels)
    if labels and huggingface.is_folder(checkpoint.path):
        details = huggingface.read_details(checkpoint.path)
        if details.is_multi_label:
            raise _several_labels(path)
        nameless = [f"LABEL_{n}" for n in range(len(details.labels))]
        if list(details.labels) not in ([], nameless, labels):
            raise _other_labels(details.labels, labels, path)
    encoder = AlbertModel(checkpoint.config, precision=precision)
    model = taught.make_model(encoder)
    has_pooler = any(n.startswith(_POOLER) for n in checkpoint.shapes)
    new = [] if needs_head or has_pooler else [_POOLER]
    restoring.restore(model, checkpoint, OPTION, new_scopes=new)
    return Teacher(taught, model)


def no_config(path: str) -> errors.UserError:
    return errors.UserError(
        f"`{OPTION}={path}` has no config file beside it. Give it its "
        "config.json, or albert_config.json."
    )


def _check_task(taught: base.Task, task: base.Task, path: str) -> None:
    kinds = {(type(t), t.name, t.has_pairs) for t in (taught, task)}
    if len(kinds) > 1:
        raise errors.UserError(
            f"`{OPTION}={path}` was finetuned for {_kind(taught)}, the student "
            f"is for {_kind(task)}. Name a run of the same task."
        )
    if taught.sequences_vary:
        raise errors.UserError(
            f"`{OPTION}={path}` was finetuned with `windows`, so it has "
            "several outputs for a text. Name its SavedModel, or another run."
        )
    for name, here in task.alike.items():
        there = taught.alike[name]
        if there == here:
            continue
        if name == "labels":
            raise _other_labels(there, here, path)
        raise errors.UserError(
            f"`{OPTION}={path}` was finetuned with `{name}={there}`, the "
            f"student has `{name}={here}`. Name a teacher with the same."
        )


def _kind(task: base.Task) -> str:
    return f"{task.name} ({task.kind})" if task.kind else task.name


def _several_labels(path: str) -> errors.UserError:
    return errors.UserError(
        f"`{OPTION}={path}` gives a text several labels, the task one. Name "
        "another teacher."
    )


def _other_labels(there: Any, here: Any, path: str) -> errors.UserError:
    def named(labels: Any) -> str:
        return ", ".join(map(str, labels)) or "a number instead of labels"

    return errors.UserError(
        f"`{OPTION}={path}` knows the labels {named(there)}, the task has "
        f"{named(here)}. Name a teacher with the same labels in the same "
        "order."
    )
