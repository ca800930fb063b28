"""The outputs of a model for a split, kept for ensembles."""

import dataclasses
import io
import os
import struct
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from albert_tf.common import errors, files, strict_json
from albert_tf.finetuning import base

# Name of the entry that is no output.
_FACTS = "facts_json"
# What numpy and zipfile raise for a file that is damaged, or another one.
_DAMAGE = (
    AttributeError,
    EOFError,
    KeyError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)


@dataclasses.dataclass(frozen=True)
class SavedOutputs:
    """Outputs for all records of a split; `facts` of `features.describe`."""

    outputs: base.Outputs
    source: str
    facts: Mapping[str, Any]


def path(folder: str, split: str) -> str:
    return os.path.join(folder, f"{split}_outputs.npz")


def write_arrays(target: str, arrays: dict[str, Any]) -> None:
    content = io.BytesIO()
    np.savez(content, **arrays)
    files.write_together({target: content.getvalue()})


def save(folder: str, split: str, saved: SavedOutputs) -> None:
    names = sorted(saved.outputs)
    facts = strict_json.dumps(
        {"source": saved.source, "facts": saved.facts, "outputs": names}
    )
    arrays = {_FACTS: np.array(facts), **saved.outputs}
    write_arrays(path(folder, split), arrays)


def load(folder: str, split: str) -> SavedOutputs:
    file = files.in_folder(folder, os.path.basename(path(folder, split)))
    if not files.exists(file):
        raise errors.UserError(
            f"{file} is not there. Run the folder's command again with "
            "`do_eval` (for a dev split) or `do_predict` (for a test split), "
            "without `do_train` if it is trained."
        )
    try:
        with np.load(io.BytesIO(files.read_bytes(file))) as arrays:
            outputs = {name: arrays[name] for name in arrays.files}
        facts = strict_json.loads(str(outputs.pop(_FACTS)))
        # A zip file whose number of entries is damaged just has fewer.
        if facts.get("outputs", sorted(outputs)) != sorted(outputs):
            raise ValueError("An output is missing.")
        if not all((values < np.inf).all() for values in outputs.values()):
            raise ValueError("A number is not finite.")
        return SavedOutputs(outputs, facts["source"], facts["facts"])
    except _DAMAGE:
        raise errors.UserError(
            f"{file} is damaged. Remove it, and run the folder's command "
            "again with `do_eval` or `do_predict`."
        ) from None
