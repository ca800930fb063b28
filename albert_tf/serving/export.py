"""Restore a model, save it for another program, measure what was saved."""

import dataclasses
import functools
import os
import pathlib
import tempfile
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from absl import logging

from albert_tf.common import errors, files, folder_lock, outputs, strict_json
from albert_tf.finetuning import base, overlaps
from albert_tf.model.checkpoints import restoring
from albert_tf.model.execution import adaptive
from albert_tf.serving import depth_table, scoring, source
from albert_tf.serving.client import ask
from albert_tf.serving.export_options import ExportOptions
from albert_tf.serving.formats import (
    id_model,
    lite_model,
    mediapipe_model,
    onnx_model,
    saved_model,
)
from albert_tf.serving.services import service
from albert_tf.text import tokenization

_FORMATS = {
    form.name: form
    for form in (lite_model.FORMAT, mediapipe_model.FORMAT, onnx_model.FORMAT)
}
# One of them shows that a folder is an export.
_MARKS = ("saved_model.pb", id_model.DESCRIPTION_NAME)
_NUM_CALIBRATION = 256  # Texts at most; with 64 one can be half of the error.


def run(settings: ExportOptions) -> None:
    """Restore a model, save it, and measure what was saved."""
    if files.is_remote(settings.export_dir):
        raise errors.UserError(
            f"`export_dir={settings.export_dir}` is remote. Export to a local "
            "folder, and copy it."
        )
    target = os.path.realpath(settings.export_dir)
    # Beside the folder, which is replaced as a whole.
    lock = f"{target}{folder_lock.NAME}"
    with folder_lock.hold(settings.export_dir, "export_dir", lock=lock):
        files.clear_replacement(target)
        _check_target(settings)
        files.require_folder_target(settings.export_dir, "export_dir")
        _export(settings)


def _export(settings: ExportOptions) -> None:
    """Restore, save and measure a model; the folder is locked already."""
    if not settings.is_saved_model:
        _FORMATS[settings.format].require()
    origin = source.find(settings.source)
    task = source.make_task(origin)
    examples = _read_examples("eval_file", settings.eval_file, task)
    texts = _read_examples("calibration_file", settings.calibration_file, task)
    depths = source.depths(origin, adaptive=settings.adaptive)
    source.check_depths(origin, depths)
    if settings.adaptive and not settings.is_saved_model:
        _require_one_layer(settings, origin)
    float32, checkpoint = _restore_service(settings, origin, task)
    save = _save_model
    if not settings.is_saved_model:
        save = functools.partial(_save_id_model, texts=_select_evenly(texts))
    with files.replace_folder(settings.export_dir) as folder:
        report: dict[str, Any] = {
            "checkpoint": checkpoint,
            "vocab_sha256": tokenization.load(origin.vocabulary).fingerprint,
            "format": settings.format,
            "precision": settings.precision,
            "options": float32.text_options,
            **save(settings, origin, task, float32, folder),
            "bytes": sum(
                path.stat().st_size
                for path in pathlib.Path(folder).rglob("*")
                if path.is_file()
            ),
        }
        if task and settings.eval_file:
            report["scores"], _ = _score_export(
                settings, float32, folder, task, examples
            )
            float32_model = functools.partial(
                id_model.ask, float32.functions["tokens"]
            )
            report["scores_in_float32"] = scoring.by_ids(
                float32_model, float32.ids, task, examples
            )
            if settings.is_saved_model and len(depths) > 1:
                points = _measure_depths(
                    settings, origin, float32, task, depths, examples
                )
                depth_table.write(folder, points, task.key_metric)
                report["depths"] = [point._asdict() for point in points]
        text = strict_json.dumps(report, indent=2, sort_keys=True) + "\n"
        files.write_text(os.path.join(folder, ask.REPORT_NAME), text)
    target = settings.export_dir
    logging.info("Exported %s to %s:\n%s", checkpoint, target, text)


def _require_one_layer(settings: ExportOptions, origin: source.Source) -> None:
    """Refuse several different layers: the format's loop applies only one."""
    config = origin.config
    if len(set(config.layer_groups)) > 1 or config.inner_group_num > 1:
        raise errors.UserError(
            f"`adaptive` with `format={settings.format}` is for models that "
            "apply one layer again and again; those of this one differ. Export "
            "a SavedModel."
        )


def _restore_service(
    settings: ExportOptions,
    origin: source.Source,
    task: base.Task | None,
    precision: str = "float32",
) -> tuple[service.Service, str]:
    """Return a service with restored weights, and the checkpoint's path."""
    served = source.make_service(origin, task, precision)
    if settings.adaptive:
        served.adapt(
            source.depths(origin, adaptive=True),
            adaptive.Rule(settings.patience, settings.entropy),
        )
    restored = restoring.restore(served.model, origin.checkpoint, origin.option)
    if precision != "float32":
        served.freeze()
    return served, restored.path


def _save_model(
    settings: ExportOptions,
    origin: source.Source,
    task: base.Task | None,
    float32: service.Service,
    folder: str,
) -> dict[str, Any]:
    """Write a SavedModel; return how much its outputs differ from float32."""
    served, precision = float32, settings.precision
    if precision != "float32":
        served, _ = _restore_service(settings, origin, task, precision)
    saved_model.save(served, folder, with_text=settings.with_text)
    loaded = tf.saved_model.load(folder)
    return {
        "largest_difference": id_model.compare(
            service.id_functions(float32),
            origin.config,
            lambda name, inputs: ask.Signature(loaded, name).compute(inputs),
        )
    }


def _save_id_model(
    settings: ExportOptions,
    origin: source.Source,
    task: base.Task | None,
    float32: service.Service,
    folder: str,
    *,
    texts: Sequence[base.Example],
) -> dict[str, Any]:
    """Write a network, calibrated with `texts`; return its difference."""
    options = {k: v for k, v in origin.values.items() if k == "task_name"}
    inputs: Sequence[scoring.Inputs] = ()
    if task and texts:
        inputs = scoring.to_inputs(float32.ids, task, texts)
    description = id_model.save(
        id_model.IdModel(
            float32, origin.vocabulary, settings.precision, options, inputs
        ),
        folder,
        _FORMATS[settings.format],
    )
    return {
        "largest_difference": {
            name: function["largest_difference"]
            for name, function in description["functions"].items()
        }
    }


def _score_export(
    settings: ExportOptions,
    served: service.Service,
    folder: str,
    task: base.Task,
    examples: Sequence[base.Example],
) -> tuple[dict[str, float], depth_table.RecordedModel]:
    """Score what was saved, loaded as users load it; return it, too."""
    if not settings.is_saved_model:
        form = _FORMATS[settings.format]
        path = os.path.join(folder, form.file_name)
        model = depth_table.RecordedModel(
            functools.partial(form.open(path), "tokens")
        )
        return scoring.by_ids(model, served.ids, task, examples), model
    name = "serving_default" if settings.with_text else "tokens"
    signature = ask.Signature(tf.saved_model.load(folder), name)
    model = depth_table.RecordedModel(signature.compute)
    if settings.with_text:
        return scoring.by_texts(model, task, examples), model
    return scoring.by_ids(model, served.ids, task, examples), model


def _measure_depths(
    settings: ExportOptions,
    origin: source.Source,
    float32: service.Service,
    task: base.Task,
    depths: Sequence[int],
    examples: Sequence[base.Example],
) -> list[depth_table.Point]:
    """Return score and speed at each depth, each patience and `entropy`."""
    rules: list[tuple[str, Any]] = [("depth", n) for n in depths]
    if float32.can_adapt:
        rules += [("patience", n) for n in range(1, len(depths))]
        if settings.entropy is not None:
            rules.append(("entropy", settings.entropy))
    plain = dataclasses.replace(
        settings, adaptive=False, patience=None, entropy=None
    )
    models, named = [], []
    for kind, value in rules:
        variant, at_depth = plain, origin
        if kind == "depth":
            values = {**origin.values, "depth": value}
            at_depth = dataclasses.replace(origin, values=values)
        else:
            variant = dataclasses.replace(plain, adaptive=True, **{kind: value})
        served, _ = _restore_service(
            variant, at_depth, task, settings.precision
        )
        with tempfile.TemporaryDirectory() as folder:
            saved_model.save(served, folder, with_text=settings.with_text)
            scores, model = _score_export(
                settings, served, folder, task, examples
            )
        models.append(model)
        named.append((kind, value, scores[task.key_metric]))
    return depth_table.measure(models, named)


def _read_examples(
    name: str, path: str | None, task: base.Task | None
) -> list[base.Example]:
    """Read the file that an option names, if it is given."""
    if not path:
        return []
    if task is None:
        raise errors.UserError(
            f"`{name}={path}` needs a finetuned model whose `run_dir` says "
            "what it was finetuned for. Leave it out."
        )
    if not files.exists(path):
        raise errors.UserError(
            f"`{name}={path}` does not exist. Check the path."
        )
    try:
        examples = task.read(path, task.eval_splits[0])
        if name_of_whole := task.read_whole:
            for text in task.texts(examples)[name_of_whole]:
                overlaps.require_short(text)
    except (errors.UserError, ValueError) as error:
        # It may name the option that names such a file elsewhere.
        raise errors.UserError(
            f"`{name}={path}` cannot be used: {error}"
        ) from None
    if not examples:
        raise errors.UserError(f"`{name}={path}` has no text. Check it.")
    return examples


def _select_evenly(examples: Sequence[base.Example]) -> Sequence[base.Example]:
    """Return up to 256 examples at equal distances: files are often sorted."""
    return examples[:: -(-len(examples) // _NUM_CALIBRATION) or 1]


def _check_target(settings: ExportOptions) -> None:
    """Refuse to write where something else would be lost."""
    target = settings.export_dir
    files.refuse_file(target, "export_dir")
    outputs.refuse_inputs(settings, "export_dir", [target])
    if not files.exists(target):
        return
    if not any(files.exists(os.path.join(target, mark)) for mark in _MARKS):
        raise errors.UserError(
            f"`export_dir={target}` already exists and is not an export, so "
            "it is not replaced. Choose another folder."
        )
    if not settings.overwrite:
        raise errors.UserError(
            f"`export_dir={target}` already exists. Choose another folder, or "
            "replace it with `overwrite`."
        )
