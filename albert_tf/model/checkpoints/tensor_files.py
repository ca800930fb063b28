"""Weights in files of safetensors, as folders of Hugging Face have them."""

import os
import tempfile
from collections.abc import Mapping

import numpy as np
import safetensors
import safetensors.numpy

from albert_tf.common import errors, files, strict_json
from albert_tf.model import int8_weights
from albert_tf.model.checkpoints import layouts

WEIGHTS_NAME = "model.safetensors"
INDEX_NAME = f"{WEIGHTS_NAME}.index.json"

# Other forms of weights, with what to do about them.
_SAVE_AGAIN = (
    "Load the folder once with transformers and save it again with "
    "save_pretrained(FOLDER, safe_serialization=True)."
)
_OTHER_WEIGHTS = {
    "pytorch_model.bin": _SAVE_AGAIN,
    "pytorch_model.bin.index.json": _SAVE_AGAIN,
    "tf_model.h5": "Load it once with transformers 4 and TensorFlow "
    "(AlbertForPreTraining.from_pretrained(FOLDER, from_tf=True)), and save it "
    "with save_pretrained(FOLDER, safe_serialization=True).",
}
# The numbers 0, 1, 2, ..., which older versions saved, too.
_BUFFER = "embeddings.position_ids"
_DTYPES = ("F32", "F16", "BF16")


def find(folder: str) -> list[str]:
    """Return the paths of the weights in a folder: one, or several shards."""
    path = files.safe_join(folder, WEIGHTS_NAME)
    if files.exists(path):
        return [path]
    index = files.safe_join(folder, INDEX_NAME)
    if files.exists(index):
        return _shards(folder, index)
    for name, mend in _OTHER_WEIGHTS.items():
        if files.exists(os.path.join(folder, name)):
            raise errors.UserError(
                f"{folder} has no {WEIGHTS_NAME}, but {name}, which this "
                f"project does not read. {mend}"
            )
    raise errors.UserError(
        f"{folder} has no {WEIGHTS_NAME}. Copy or download it to its "
        "config.json."
    )


def _shards(folder: str, index: str) -> list[str]:
    """Return the paths of the files that an index names."""
    advice = "Copy or download it again."
    table = strict_json.read_object(index, advice).get("weight_map")
    names = set(map(str, table.values())) if isinstance(table, dict) else set()
    if not names or any(os.path.basename(name) != name for name in names):
        raise errors.UserError(
            f"{index} names no files in its folder under weight_map. {advice}"
        )
    paths = [files.safe_join(folder, name) for name in sorted(names)]
    for path in paths:
        if not files.exists(path):
            raise errors.UserError(
                f"{path} does not exist, but {index} names it. Copy or "
                "download it."
            )
    return paths


def shown(folder: str) -> str:
    """Return the path that messages show: the only file, or the folder."""
    paths = find(folder)
    return paths[0] if len(paths) == 1 else folder


def read(folder: str) -> dict[str, np.ndarray]:
    """Return all tensors of a folder as float32, without the known buffer."""
    tensors: dict[str, np.ndarray] = {}
    for path in find(folder):
        try:
            tensors |= _read_file(path)
        except (OSError, safetensors.SafetensorError) as error:
            raise errors.UserError(
                f"{path} cannot be read: {error}. The file is damaged or "
                "incomplete; copy or download it again."
            ) from None
    return tensors


def _read_file(path: str) -> dict[str, np.ndarray]:
    tensors = {}
    with tempfile.TemporaryDirectory() as folder:
        local = path
        if files.is_remote(path):  # safetensors opens local files only.
            local = os.path.join(folder, WEIGHTS_NAME)
            with open(local, "wb") as copy:
                copy.write(files.read_bytes(path))
        with safetensors.safe_open(local, framework="numpy") as stream:
            version = (stream.metadata() or {}).get(int8_weights.FORMAT)
            for name in stream.keys():
                if name.endswith(_BUFFER):
                    continue
                dtype = stream.get_slice(name).get_dtype()
                if dtype not in _DTYPES and not (version and dtype == "I8"):
                    raise errors.UserError(
                        f"{path} holds {name} as {dtype}. Allowed are "
                        f"{', '.join(_DTYPES)}, and I8 as convert_checkpoint "
                        "writes it; save it again in one of them."
                    )
                tensors[name] = stream.get_tensor(name)
                if dtype != "I8":
                    tensors[name] = tensors[name].astype(np.float32)
    if version:
        tensors = int8_weights.dequantize(path, tensors, version)
    return tensors


def to_bytes(tensors: Mapping[str, np.ndarray]) -> bytes:
    """Return the content of a safetensors file, as torch's programs write."""
    return bytes(safetensors.numpy.save(dict(tensors), {"format": "pt"}))


def read_untied(folder: str, family: layouts.Family) -> dict[str, np.ndarray]:
    """Return a folder's tensors by full name, without copies of tied ones."""
    tensors = {family.full_name(n): value for n, value in read(folder).items()}
    for copy, name in family.tied.items():
        if copy not in tensors:
            continue
        tensor = tensors.pop(copy)
        if not np.array_equal(tensor, tensors.setdefault(name, tensor)):
            raise errors.UserError(
                f"{shown(folder)} holds a {copy} that differs from {name}. "
                "This project has one variable for both, as the paper has. "
                "Choose a model that was trained with tie_word_embeddings."
            )
    return tensors


def has_nontrivial_projection(folder: str) -> bool:
    """Tell whether the projection from E to H of an ALBERT changes its input.

    For E == H. Files of transformers always hold this projection; for a model
    without one `huggingface.files_of` writes an identity. True also where no
    weights say so, since transformers' models have one.
    """
    names = WEIGHTS_NAME, INDEX_NAME
    if not any(files.exists(files.safe_join(folder, name)) for name in names):
        return True
    tensors = read_untied(folder, layouts.ALBERT)
    kernel, bias = (
        tensors.get(f"{layouts.HUB_MAPPING}.{leaf}")
        for leaf in ("weight", "bias")
    )
    if kernel is None or bias is None or kernel.ndim != 2:
        return True  # `restore` will refuse these weights.
    return not np.array_equal(kernel, np.eye(len(kernel))) or bool(bias.any())
