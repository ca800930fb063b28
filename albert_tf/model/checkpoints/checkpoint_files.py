"""The files of checkpoints: find one, clean up after killed saves.

A prefix is a checkpoint's path without `.index`.
"""

import glob
import os
import re
import shutil
from typing import Any

import tensorflow as tf
from absl import logging

from albert_tf.common import configs, errors, files, scores
from albert_tf.model.checkpoints import (
    huggingface,
    keras_hub,
    sentence_modules,
    tensor_files,
)

# Name of the copy of the best evaluated checkpoint, as in the original.
BEST_NAME = "model.ckpt-best"
# Under which it is written.
NEW_BEST_NAME = f"{BEST_NAME}_new"
# The file in which TensorFlow lists the checkpoints of a folder.
STATE_NAME = "checkpoint"
CONFIG_NAME = "albert_config.json"
# The prefix in the archives of Google's BERT.
BERT_NAME = "bert_model.ckpt"
_SUFFIX = re.compile(r"\.(index|meta|data-\d{5}-of-\d{5})$")


def find(path: str, option: str = "init_checkpoint") -> str:
    """Return the checkpoint that `path` means.

    Args:
        path: A prefix (`.../model.ckpt-best`) or one of its files; a folder,
            which means its best checkpoint, else its latest, or those of the
            best of several runs in it; an unpacked TF-Hub module; a Hugging
            Face folder or the weights in it; a preset of KerasHub; a folder
            with weights in bfloat16; or the name of one that comes with this
            package.

    Returns:
        A prefix without `.index`, or one of the last folders.
    """
    path = configs.find_checkpoint(path)
    if path.endswith(".safetensors"):
        return _hugging_face_folder_of(path, option)
    prefix = path.rstrip("/") or path
    if not tf.io.gfile.isdir(prefix):
        prefix = _SUFFIX.sub("", prefix)
    if tf.io.gfile.isdir(prefix):
        prefix = sentence_modules.encoder_folder(prefix)
        checkpoint = _find_in_folder(prefix)
        if checkpoint:
            return checkpoint
        best = scores.best_folder(prefix)
        if best != prefix:
            return find(best, option)
        raise _ambiguous_folder_error(prefix, f"`{option}={path}`")
    if not is_prefix(prefix):
        if files.exists(path):
            raise errors.UserError(
                f"`{option}={path}` is a file, but no checkpoint. Give the "
                "folder, or a prefix such as FOLDER/model.ckpt-125000."
            )
        raise errors.UserError(
            f"`{option}={path}` is neither a folder nor a checkpoint: "
            f"{prefix}.index does not exist."
            f"{files.suggest(path, configs.checkpoint_names())}"
            f"{configs.note(path)} Check the path, and give it up to, not "
            "including, '.index'."
        )
    return prefix


def fingerprint(path: str) -> str:
    """Return a hash of the weights of a checkpoint."""
    target = find(path)
    if is_prefix(target):
        # It holds a checksum of each tensor.
        return files.sha256(f"{target}.index")
    return "+".join(map(files.sha256, weight_files(target)))


def weight_files(folder: str) -> list[str]:
    """Return the paths of the weights in a folder that `find` returns."""
    if keras_hub.is_folder(folder):
        return [keras_hub.weights_path(folder)]
    return tensor_files.find(folder)


def _find_in_folder(folder: str) -> str | None:
    """Return a folder's best, else latest checkpoint; None if none is clear."""
    names = [BEST_NAME, "variables/variables", BERT_NAME]
    files.safe_join(folder, STATE_NAME)
    state = _read_state(folder)
    if state is not None:
        # Only its name counts, because the folder may have been moved.
        names.append(os.path.basename(state.model_checkpoint_path))
    for name in names:
        if is_prefix(os.path.join(folder, name)):
            for path in glob.glob(f"{glob.escape(folder)}/{name}.*"):
                files.safe_join(folder, os.path.relpath(path, folder))
            return os.path.join(folder, name)
    tests = huggingface.is_folder, keras_hub.is_folder, is_small
    return folder if any(test(folder) for test in tests) else None


def _ambiguous_folder_error(folder: str, source: str) -> errors.UserError:
    names = sorted(tf.io.gfile.listdir(folder))
    prefixes = [n.removesuffix(".index") for n in names if n.endswith(".index")]
    hint = "such as FOLDER/model.ckpt-125000"
    if prefixes:
        hint = f"one of {', '.join(prefixes[:5])} there"
    return errors.UserError(
        f"{source} is a folder that does not say which checkpoint is meant (no "
        f"{BEST_NAME}.index, no file named checkpoint that names an existing "
        "one, no config.json of Hugging Face or KerasHub). Name the prefix, "
        f"{hint}."
    )


def _hugging_face_folder_of(path: str, option: str) -> str:
    folder, name = os.path.split(path)
    folder = folder or "."
    is_weights = name == huggingface.WEIGHTS_NAME and files.exists(path)
    if not (is_weights and huggingface.is_folder(folder)):
        raise errors.UserError(
            f"`{option}={path}` is not the {huggingface.WEIGHTS_NAME} of a "
            "Hugging Face folder with its config.json. Name a folder that "
            "holds both."
        )
    return folder


def is_small(folder: str) -> bool:
    """Tell whether a folder has our config and weights in one small file.

    The weights have the original's names.
    """
    names = CONFIG_NAME, huggingface.WEIGHTS_NAME
    paths = [files.safe_join(folder, name) for name in names]
    return all(map(files.exists, paths)) and not huggingface.is_folder(folder)


def is_prefix(prefix: str) -> bool:
    """Tell whether a path is the prefix of an existing checkpoint."""
    index = prefix + ".index"
    return tf.io.gfile.exists(index) and not tf.io.gfile.isdir(index)


def numbered(folder: str) -> list[str]:
    """Return the prefixes `model.ckpt-N` in a run's folder, newest first.

    The file named checkpoint is not read, because it may be damaged too.
    """
    if not tf.io.gfile.isdir(folder):
        return []
    numbers = [
        int(match[1])
        for name in tf.io.gfile.listdir(folder)
        if (match := re.fullmatch(r"model\.ckpt-(\d+)\.index", name))
    ]
    return [
        os.path.join(folder, f"model.ckpt-{number}")
        for number in sorted(numbers, reverse=True)
    ]


def identities(prefix: str) -> dict[str, Any]:
    """Return what tells the files of a checkpoint from those of another."""
    folder, name = os.path.split(prefix)
    return {
        file: files.identity(files.safe_join(folder, file))
        for file in files.list_folder(folder)
        if file.startswith(f"{name}.")
    }


def replace(new: str, prefix: str) -> None:
    """Rename a checkpoint, so that it replaces another one.

    The index comes last. A reader that has one file of each notices it by the
    checksums, and reads again; see `checkpoint_reader.read`.
    """
    folder, name = os.path.split(new)
    for file in files.list_folder(folder):
        if file.startswith(f"{name}."):
            ending = file.removeprefix(name)
            tf.io.gfile.rename(new + ending, prefix + ending, overwrite=True)


def remove_unfinished(
    folder: str, *, numbered: bool = True, best: bool = True
) -> None:
    """Remove what killed saves left in a local run's folder.

    TensorFlow writes `model.ckpt-N_temp/` before `model.ckpt-N`, and its list
    of checkpoints under another name first. When it deletes a checkpoint, the
    index goes first. No other process may be saving. `numbered` and `best` say
    which checkpoints this process writes.
    """
    if files.is_remote(folder) or not os.path.isdir(folder):
        return
    new = os.path.join(folder, NEW_BEST_NAME)
    if best and is_prefix(new):
        if glob.glob(f"{glob.escape(new)}.data-*"):
            os.remove(f"{new}.index")
        else:  # Killed within `replace`.
            replace(new, os.path.join(folder, BEST_NAME))
    prefixes = "|".join(
        [r"model\.ckpt-\d+"] * numbered
        + [re.escape(BEST_NAME), re.escape(NEW_BEST_NAME)] * best
    )
    for name in os.listdir(folder) if prefixes else ():
        path = os.path.join(folder, name)
        if numbered and re.fullmatch(rf"{STATE_NAME}\.tmp[0-9a-f]{{32}}", name):
            os.remove(path)
        data = re.fullmatch(rf"({prefixes})\.data-\d{{5}}-of-\d{{5}}", name)
        if data and not is_prefix(os.path.join(folder, data[1])):
            os.remove(path)
        is_folder = re.fullmatch(rf"({prefixes})_temp", name)
        if is_folder and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)


def clean_state(folder: str) -> None:
    """Make TensorFlow's list of checkpoints name exactly those in its folder.

    A `tf.train.CheckpointManager` deletes the oldest in the list, wherever they
    lie, and the folder may come from somebody else. Checkpoints that are not in
    the list would never be deleted; a checkpoint that was saved just before the
    process was killed may be missing there, or the list may be damaged.
    """
    path = os.path.join(folder, STATE_NAME)
    if files.exists(path) and _read_state(folder) is None:
        logging.warning("%s is damaged; it will be made again.", path)
    prefixes = numbered(folder)[::-1]
    if not prefixes:
        if files.exists(path):
            tf.io.gfile.remove(path)
        return
    # TensorFlow makes paths in a relative folder relative to it; to an absolute
    # folder it adds the name.
    names = [os.path.basename(prefix) for prefix in prefixes]
    listed = names if os.path.isabs(folder) else prefixes
    tf.compat.v1.train.update_checkpoint_state(
        folder,
        listed[-1],
        listed,
        all_model_checkpoint_timestamps=[
            files.size_and_time(f"{prefix}.index")[1] / 1e9
            for prefix in prefixes
        ],
        # Only later checkpoints may be deleted. A file may have the time 0.
        last_preserved_timestamp=-1.0,
    )


def _read_state(folder: str) -> Any:
    """Return TensorFlow's list of checkpoints, None if it cannot be read."""
    try:
        return tf.train.get_checkpoint_state(folder)
    except (ValueError, UnicodeDecodeError, tf.errors.OpError):
        return None


def short_message(error: tf.errors.OpError) -> str:
    """Return a TensorFlow error's message without names of operations."""
    return re.sub(r"\{\{.*?\}\} ?| \[Op:.*\]", "", error.message).strip()


def write_error(target: str, error: tf.errors.OpError) -> OSError:
    return OSError(
        f"Cannot write {target}: {short_message(error)}. Make room there, or "
        "see that you may write there"
    )
