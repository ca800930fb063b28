"""Convert a checkpoint between the original, this project and Hugging Face.

    python -m albert_tf.convert_checkpoint --from=albert_base/model.ckpt-best \
        --to=albert_base_hf --format=huggingface

Weights keep every bit. Moments and global step travel between TF1 and TF2
checkpoints, where the source has them; Hugging Face has no place for them.
"""

import dataclasses
import glob
import os
import shutil
from collections.abc import Callable

import numpy as np
import tensorflow as tf
import tf_keras as keras
from absl import logging

from albert_tf import (
    checkpoints,
    errors,
    files,
    folder_lock,
    huggingface,
    modeling,
    optimization,
    options,
    run_folder,
)
from albert_tf.heads import from_checkpoint
from albert_tf.options import option

_STEP = "global_step"
_MOMENTS = "adam_m", "adam_v"
# The one data file of a checkpoint that is written in one piece.
_DATA_SUFFIX = ".data-00000-of-00001"


@dataclasses.dataclass(frozen=True)
class ConvertOptions:
    """Options of convert_checkpoint."""

    from_: str = option(
        help="Checkpoint to read: all that --init_checkpoint accepts."
    )
    to: str = option(
        help="Prefix to write, such as FOLDER/model.ckpt-best, or for "
        "--format=huggingface a folder. An albert_config.json is written "
        "beside a prefix."
    )
    format: str = option(
        help="tf1: variables by name, as the original release has them. tf2: "
        "a checkpoint of this project. huggingface: config.json and "
        "model.safetensors.",
        choices=("tf1", "tf2", "huggingface"),
    )
    albert_config_file: str | None = option(
        None,
        "JSON file with the architecture. Default: albert_config.json or "
        "config.json beside the checkpoint.",
    )
    overwrite: bool = option(False, "Whether --to may be replaced.")


@dataclasses.dataclass(frozen=True)
class _Source:
    """A model with its weights, and what the optimizer knew about them."""

    model: keras.Model
    config: modeling.AlbertConfig
    state: dict[str, np.ndarray]

    def weights(self) -> dict[str, np.ndarray]:
        return {
            checkpoints.name_of(variable): variable.numpy()
            for variable in self.model.variables
        }


def run(settings: ConvertOptions) -> None:
    """Read, check and write a checkpoint."""
    _refuse_remote(settings)
    folder = settings.to
    if settings.format != "huggingface":
        folder = os.path.dirname(settings.to) or os.curdir
    with folder_lock.hold(folder, "to"):
        _check_target(settings)
        _convert(settings)


def _convert(settings: ConvertOptions) -> None:
    """Convert in a folder that nobody else writes to."""
    source = _read(settings)
    _check_neighbour(settings, source.config)
    _WRITERS[settings.format](source, settings.to)
    logging.info(
        "Wrote %s (%s): %s with %d variables%s.",
        settings.to,
        settings.format,
        type(source.model).__name__,
        len(source.model.variables),
        ", moments and step" if source.state else "",
    )


def _refuse_remote(settings: ConvertOptions) -> None:
    """Refuse what is not a local place.

    Raises:
        errors.UserError: It is none.
    """
    if not settings.to or files.is_remote(settings.to):
        raise errors.UserError(
            f"--to={settings.to} is not a local place. Convert to one, and "
            "copy."
        )


def _check_target(settings: ConvertOptions) -> None:
    """Refuse to write over something, before anything is read.

    Raises:
        errors.UserError: It is there.
    """
    target = settings.to
    if settings.format == "huggingface":
        names = huggingface.CONFIG_NAME, huggingface.WEIGHTS_NAME
        existing = [os.path.join(target, name) for name in names]
        if glob.glob(os.path.join(glob.escape(target), "*.index")):
            raise errors.UserError(
                f"--to={target} holds TensorFlow checkpoints. Give Hugging "
                "Face a folder of its own."
            )
    else:
        existing = [target + suffix for suffix in (_DATA_SUFFIX, ".index")]
        _check_prefix(target)
    if any(map(files.exists, existing)) and not settings.overwrite:
        raise errors.UserError(
            f"--to={target} already exists. Choose another place, or "
            "replace it with --overwrite."
        )


def _check_prefix(prefix: str) -> None:
    """Refuse what is not the prefix of a checkpoint, or not in its own place.

    Raises:
        errors.UserError: See above.
    """
    folder = os.path.dirname(prefix)
    if os.path.isdir(prefix) or prefix.endswith((".index", ".meta", "/")):
        raise errors.UserError(
            f"--to={prefix} is not the prefix of a checkpoint. Use, for "
            f"example, {os.path.join(prefix, 'model.ckpt-best')}."
        )
    for name in (run_folder.OPTIONS_NAME, huggingface.CONFIG_NAME):
        if files.exists(os.path.join(folder, name)):
            raise errors.UserError(
                f"--to={prefix} is in a folder that belongs to something else: "
                f"it holds {name}. Choose another folder."
            )


def _check_neighbour(
    settings: ConvertOptions, config: modeling.AlbertConfig
) -> None:
    """Refuse a folder whose config file is that of another model.

    Raises:
        errors.UserError: It is.
    """
    path = os.path.join(os.path.dirname(settings.to), checkpoints.CONFIG_NAME)
    if settings.format == "huggingface" or not files.exists(path):
        return
    if modeling.AlbertConfig.from_json_file(path) != config:
        raise errors.UserError(
            f"--to={settings.to} would stand beside {path}, which describes "
            "another model. Choose another folder."
        )


def _read(settings: ConvertOptions) -> _Source:
    checkpoint = checkpoints.read(settings.from_, "from")
    config = checkpoint.config
    if settings.albert_config_file:
        config = modeling.AlbertConfig.from_json_file(
            settings.albert_config_file
        )
    if config is None:
        raise errors.UserError(
            f"--from={settings.from_} has no albert_config.json beside it that "
            "can be read. Name the file as --albert_config_file."
        )
    model = from_checkpoint.make_model(config, checkpoint)
    checkpoints.restore(model, checkpoint, "from")
    source = _Source(model, config, checkpoint.load(checkpoint.state))
    _check_state(source, settings.from_)
    return source


def _check_state(source: _Source, path: str) -> None:
    """Refuse moments that do not fit the weights.

    Raises:
        errors.UserError: Some are missing, left over or of another shape.
    """
    wanted = {
        f"{name}/{kind}": value.shape
        for name, value in source.weights().items()
        for kind in _MOMENTS
    }
    found = {n: v.shape for n, v in source.state.items() if n != _STEP}
    wrong = [
        name
        for name in sorted(wanted.keys() | found.keys())
        if wanted.get(name) != found.get(name)
    ]
    if found and wrong:
        raise errors.UserError(
            f"--from={path} has moments that do not fit its weights: "
            f"{', '.join(wrong[:3])} and {max(0, len(wrong) - 3)} more. The "
            "checkpoint is damaged; use another one."
        )


def _write_tf1(source: _Source, prefix: str) -> None:
    """Write variables by name, as TensorFlow 1's Saver does."""
    values = {**source.weights(), **source.state}
    names = sorted(values)

    def write(path: str) -> None:
        tf.raw_ops.SaveV2(
            prefix=path,
            tensor_names=names,
            shape_and_slices=[""] * len(names),
            tensors=[values[name] for name in names],
        )

    _write_prefix(write, prefix, source.config)


def _write_tf2(source: _Source, prefix: str) -> None:
    """Write the object graph that `training.Trainer` writes."""
    parts: dict[str, object] = {"model": source.model}
    if len(source.state) > 1:
        parts["optimizer"] = _optimizer_with(source)
    elif source.state:
        step = int(source.state[_STEP])
        parts[_STEP] = tf.Variable(step, dtype=tf.int64, name=_STEP)
    checkpoint = tf.train.Checkpoint(**parts)
    _write_prefix(checkpoint.write, prefix, source.config)


def _optimizer_with(source: _Source) -> optimization.AdamW:
    optimizer = optimization.AdamW(0.0)  # Moments are the same for both kinds.
    variables = source.model.trainable_variables
    optimizer.build(variables)
    optimizer.iterations.assign(source.state.get(_STEP, 0))
    for index, variable in enumerate(variables):
        name = checkpoints.name_of(variable)
        for kind in _MOMENTS:
            moments = getattr(optimizer, kind)
            moments[index].assign(source.state[f"{name}/{kind}"])
    return optimizer


def _write_prefix(
    write: Callable[[str], object], prefix: str, config: modeling.AlbertConfig
) -> None:
    """Write a checkpoint beside, and give it its name when it is complete."""
    folder = os.path.dirname(prefix)
    files.make_folder(folder, "to")
    files.write_text(
        os.path.join(folder, checkpoints.CONFIG_NAME), config.to_json()
    )
    partial = f"{prefix}.partial"
    shutil.rmtree(partial, ignore_errors=True)  # Of a killed conversion.
    try:
        os.mkdir(partial)
        write(os.path.join(partial, "x"))
        for suffix in (_DATA_SUFFIX, ".index"):
            files.sync(os.path.join(partial, "x" + suffix))
        for suffix in (_DATA_SUFFIX, ".index"):
            os.replace(os.path.join(partial, "x" + suffix), prefix + suffix)
    except tf.errors.OpError as error:
        raise errors.UserError(
            f"Cannot write --to={prefix}: {checkpoints.explain(error)}. Make "
            "room there, or see that you may write there, and start the same "
            "command again."
        ) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _write_huggingface(source: _Source, folder: str) -> None:
    huggingface.write(folder, source.config, source.weights())


_WRITERS = {
    "tf1": _write_tf1,
    "tf2": _write_tf2,
    "huggingface": _write_huggingface,
}

if __name__ == "__main__":
    options.run_script(run, ConvertOptions)
