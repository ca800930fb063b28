"""Any model that gives texts vectors, whatever its files are."""

import dataclasses
import functools
import hashlib
import importlib
import json
import os
import pathlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from albert_tf.common import (
    errors,
    files,
    imports,
    packed_vectors,
    prompts,
    strict_json,
)
from albert_tf.model.checkpoints import (
    checkpoint_files,
    restoring,
    sentence_modules,
)
from albert_tf.serving import source, source_options
from albert_tf.serving.client import ask
from albert_tf.serving.formats import id_model
from albert_tf.training import run_folder

sentence_transformers = imports.later("sentence_transformers")

# From texts to float32 [texts, width].
Encode = Callable[[Sequence[str]], np.ndarray]
_BATCH = 64


@dataclasses.dataclass(frozen=True)
class TextModel:
    """A model's files, and how they are read.

    Attributes:
        reader: The program that computes the vectors.
        files: Weights and vocabulary; of exports and of what
            sentence-transformers reads, all files.
        prompting: What is put before texts; of exports and others their files
            say so.
    """

    reader: str
    files: Sequence[str]
    load: Callable[[], Encode]
    prompting: prompts.PromptOptions = prompts.NONE

    @property
    def bytes(self) -> int:
        return sum(map(files.size, self.files))

    @property
    def fingerprint(self) -> str:
        hashes = [files.sha256(path) for path in self.files]
        if given := self.prompting.to_dict():
            hashes.append(strict_json.dumps(given, sort_keys=True))
        return hashlib.sha256("".join(hashes).encode()).hexdigest()


def find(
    path: str, max_seq_length: int | None, prompt: str | None = None
) -> TextModel:
    """Say how a model is read.

    Args:
        path: A SavedModel, an ONNX or LiteRT folder with answer.py, the folder
            of a run or a checkpoint in it, any checkpoint with config and
            vocabulary beside it, or the name of one that comes with the
            package. A folder that only sentence-transformers can read is left
            to it.
        max_seq_length: Of tokens; None: as the model says.
        prompt: The name of that of all texts, of a run or a checkpoint.
            Default: as the model says.
    """
    folder = _all_files(path)
    for name, open_export in {
        "saved_model.pb": _open_saved_model,
        id_model.DESCRIPTION_NAME: _open_answers,
    }.items():
        if os.path.join(path, name) in folder:
            if max_seq_length:
                raise errors.UserError(
                    f"`max_seq_length={max_seq_length}` is part of an export "
                    f"such as {path}. Leave it out, or export with it."
                )
            load = functools.partial(open_export, path)
            return TextModel("albert_tf", folder, load)
    try:
        return _find_checkpoint(path, max_seq_length, prompt)
    except errors.UserError as error:
        if os.path.join(path, sentence_modules.MODULES_NAME) not in folder:
            raise
        logging.warning("sentence-transformers reads %s: %s", path, error)
    load = functools.partial(_open_foreign, path, max_seq_length)
    return TextModel("sentence-transformers", folder, load)


def _all_files(path: str) -> list[str]:
    found = pathlib.Path(path).rglob("*") if os.path.isdir(path) else ()
    return sorted(str(one) for one in found if one.is_file())


def _find_checkpoint(
    path: str, max_seq_length: int | None, prompt: str | None
) -> TextModel:
    place = checkpoint_files.find(path, "model")
    folder = run_folder.folder_of(place)
    given: dict[str, Any] = {"init_checkpoint": path}
    if run_folder.is_run(folder):
        given = {"run_dir": folder, "checkpoint": place}
    origin = source.find(
        source_options.SourceOptions(
            task="embedding", max_seq_length=max_seq_length, **given
        )
    )
    if prompt is not None:
        values = {**origin.values, "prompt": prompt}
        origin = dataclasses.replace(origin, values=values)
    task: Any = source.make_task(origin)
    vocabulary = str(origin.vocabulary.path)
    if checkpoint_files.is_prefix(place):
        names = sorted(checkpoint_files.identities(place))
        weights = [os.path.join(os.path.dirname(place), n) for n in names]
    else:
        weights = checkpoint_files.weight_files(place)
    load = functools.partial(_restore, origin, task)
    return TextModel("albert_tf", [*weights, vocabulary], load, task.prompts)


def _restore(origin: source.Source, task: Any) -> Encode:
    served = source.make_service(origin, task)
    restoring.restore(served.model, origin.checkpoint, origin.option)
    give = served.functions["serving_default"]
    return lambda texts: np.asarray(give(tf.constant(texts))["embedding"])


def _open_saved_model(path: str) -> Encode:
    signature = ask.load(path, "serving_default")
    return lambda texts: np.asarray(
        signature.compute({"text": np.array(texts, "O")})["embedding"]
    )


def _open_answers(path: str) -> Encode:
    sys.path.insert(0, path)  # Its answer.py imports what lies beside it.
    model = importlib.import_module("answer").Model(path)
    about = json.loads(files.read_bytes(f"{path}/{id_model.DESCRIPTION_NAME}"))
    output = about["functions"]["tokens"]["outputs"]["embedding"]
    return lambda texts: np.array(
        [
            row["embedding"]
            for row in model.answers([{"text": text} for text in texts])
        ],
        output["dtype"],
    )


def _open_foreign(path: str, max_seq_length: int | None) -> Encode:
    model = sentence_transformers.SentenceTransformer(path, device="cpu")
    model.max_seq_length = max_seq_length or model.max_seq_length
    return lambda texts: np.asarray(
        model.encode([*texts], batch_size=_BATCH, show_progress_bar=False)
    )


class Vectors:
    """The vectors of texts, each computed once, divided by their length."""

    def __init__(self, load: Callable[[], Encode]):
        self.encode = functools.cache(load)
        self._stored: dict[str, np.ndarray] = {}

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """Return float32 [texts, width]."""
        new = sorted({*texts} - self._stored.keys(), key=lambda t: (len(t), t))
        for start in range(0, len(new), _BATCH):
            batch = new[start : start + _BATCH]
            vectors = self.encode()(batch)
            if not np.isfinite(vectors).all():
                raise errors.UserError(
                    "The model gives vectors that are not finite. Name another."
                )
            vectors = packed_vectors.unpack(vectors)
            lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
            rows = vectors / np.maximum(lengths, 1e-12)
            self._stored.update(zip(batch, rows, strict=True))
        return np.stack([self._stored[text] for text in texts])
