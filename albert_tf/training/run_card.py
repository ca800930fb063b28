"""The run card: one Markdown page and one picture that describe a run.

Everything on it is read from the run's folder (`run_options.json`,
`albert_config.json`, `metrics.jsonl`), so the card can be made again at any
time:

    python -m albert_tf.write_run_card --output_dir=FOLDER
"""

import contextlib
import dataclasses
import importlib.metadata
import io
import os
import platform
import statistics
import sys
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tf_keras as keras

import albert_tf
from albert_tf.common import errors, files, imports, markdown
from albert_tf.model.config import AlbertConfig
from albert_tf.training import confusion, run_folder, run_log

figures = imports.later("matplotlib.figure")

CARD_NAME = "run_card.md"
_HEAD = "# Run card: "
CURVES_NAME = "learning_curves.png"
# How the curves name what `run_log.BASELINES` says of a metric.
_BASELINE_LABELS = {
    "masked_lm_loss": "frequencies only",
    "masked_lm_accuracy": "most frequent piece",
}
# Other wheels than "tensorflow", such as tensorflow-tpu, hold the same module.
_PACKAGES = ("tf_keras", "tensorflow-text", "sentencepiece", "numpy", "libtpu")


def provenance(
    model: keras.Model, data_description: str, data_digest: str
) -> run_log.Provenance:
    """Return command, machine, versions and data of this start of a run."""
    devices = [device.name for device in tf.config.list_logical_devices()]
    # Where a head is computed nothing is trained.
    variables = model.trainable_variables or model.weights
    versions = {
        "albert_tf": albert_tf.__version__,
        "tensorflow": tf.__version__,
    }
    for name in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return run_log.Provenance(
        command=" ".join(sys.argv),
        parameters=sum(int(tf.size(v)) for v in variables),
        data=data_description,
        python=platform.python_version(),
        machine=f"{platform.machine()}, {os.cpu_count()} cores",
        devices=", ".join(devices),
        versions=", ".join(f"{k} {v}" for k, v in versions.items()),
        training_data=data_digest,
    )


def write(output_dir: str) -> str:
    """Write card and curves into a run's folder; return the card's path."""
    run = run_folder.read(output_dir, "output_dir")
    lines = _read_log(output_dir)
    picture = io.BytesIO()
    _draw_curves(lines).savefig(picture, format="png", dpi=80)
    drawn = {os.path.join(output_dir, CURVES_NAME): picture.getvalue()}
    pictures = [f"![curves]({CURVES_NAME})\n"]
    confusions = confusion.read(output_dir)
    for split, counts in confusions.items():
        if counts.is_multi_label:  # Each is right or wrong by itself.
            continue
        name = confusion.file_name(split, "png")
        drawn[os.path.join(output_dir, name)] = counts.draw()
        pictures.append(f"![{split}]({name})\n")
    files.write_together(drawn)
    path = os.path.join(output_dir, CARD_NAME)
    files.write_text(path, _card(lines, run, confusions, *pictures))
    return path


def refuse_foreign(output_dir: str) -> None:
    """Refuse to replace a card that no run wrote."""
    path = os.path.join(output_dir, CARD_NAME)
    if files.exists(path) and not files.read_bytes(path).startswith(
        _HEAD.encode()
    ):
        raise errors.UserError(
            f"{path} was written by hand. Move it away, or rename it."
        )


def read_text(output_dir: str) -> str:
    """Return the card of a run without its picture."""
    run = run_folder.read(output_dir, "output_dir")
    return _card(_read_log(output_dir), run, confusion.read(output_dir))


def _read_log(output_dir: str) -> list[dict[str, Any]]:
    """Return the log, with that of a process that follows the checkpoints."""
    lines = run_log.read(output_dir)
    return lines + run_log.read(
        os.path.join(output_dir, run_log.EVALUATION_FOLDER)
    )


def summary(config: AlbertConfig, provenance: run_log.Provenance) -> str:
    """Return the first line of a run's output."""
    return (
        f"ALBERT with {provenance.parameters:,} parameters: "
        f"{config.sharing}, embedding size {config.embedding_size}, hidden "
        f"size {config.hidden_size}, {config.num_attention_heads} heads, "
        f"{config.hidden_act}, dropout {config.hidden_dropout_prob} (hidden) "
        f"and {config.attention_probs_dropout_prob} (attention). "
        f"Devices: {provenance.devices}. Data: {provenance.data}"
    )


def _card(
    lines: list[dict[str, Any]],
    run: run_folder.Run,
    confusions: Mapping[str, confusion.Confusion],
    *pictures: str,
) -> str:
    starts = _select(lines, "facts")
    sections = [f"{_HEAD}{run.program}\n", *pictures]
    for split, title in (
        ("eval", "Last evaluation"),
        ("train", "Last training line"),
    ):
        chosen = _select(lines, split)
        if chosen:
            sections += [f"## {title}\n", _to_table(chosen[-1])]
    for split, counts in confusions.items():
        sections += [f"## Labels of {split}\n", counts.to_markdown()]
    speed = _summarize_speed(lines)
    if speed:
        sections += ["## Speed and memory\n", _to_table(speed)]
    if starts:
        sections += [
            "## Data, model, software and machine\n",
            _to_table(starts[-1]),
        ]
    # With what the run has found where an option was left out.
    sections += ["## Options\n", _to_table({**run.options, **run.facts})]
    sections += ["## Architecture\n", _to_table(dataclasses.asdict(run.config))]
    return "\n".join(sections)


def _select(lines: list[dict[str, Any]], split: str) -> list[dict[str, Any]]:
    return [line for line in lines if line["split"] == split]


def _summarize_speed(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Return median speeds, peak memory, and how much data was trained on."""
    train, starts = _select(lines, "train"), _select(lines, "facts")
    if not train or not starts:
        return {}
    speed: dict[str, Any] = {}
    for name in ("examples_per_second", "tokens_per_second", "gigaflops"):
        if values := [line[name] for line in train if name in line]:
            speed[f"{name}, median"] = statistics.median(values)
    peaks = (line.get("peak_memory_mb", 0.0) for line in train)
    speed["peak_memory_mb"] = max(peaks)
    # A run may go on from the step of another one.
    steps = train[-1]["step"] - starts[0]["step"]
    for name in ("examples", "tokens"):
        if f"{name}_per_step" in starts[-1]:
            seen = steps * starts[-1][f"{name}_per_step"]
            speed[f"{name}_seen"] = f"{round(seen):,}"
    return speed


def _to_table(values: dict[str, Any]) -> str:
    rows = (
        (name, f"{value:.6g}" if isinstance(value, float) else str(value))
        for name, value in values.items()
        if name not in ("split", "time")
    )
    return markdown.table(["name", "value"], rows, has_numbers=False)


def _draw_curves(lines: list[dict[str, Any]]) -> Any:
    """Draw one panel for every loss and metric, training and evaluation.

    A dashed line shows the unigram baseline, if the last start wrote it.
    """
    starts = _select(lines, "facts")
    names = {
        name
        for line in _select(lines, "train") + _select(lines, "eval")
        for name in line.keys() - run_log.NOT_METRICS
        if not name.startswith("threshold_of_")  # There may be hundreds.
    }
    ordered = sorted(names, key=lambda name: (not name.endswith("loss"), name))
    columns = 3
    rows = max(1, -(-len(ordered) // columns))
    figure = figures.Figure(figsize=(4.5 * columns, 3 * rows))
    # Fixed: a layout that fits itself would draw everything twice.
    figure.subplots_adjust(
        left=0.05,
        right=0.99,
        bottom=0.5 / (3 * rows),
        top=1 - 0.35 / (3 * rows),
        wspace=0.2,
        hspace=0.45,
    )
    for index, name in enumerate(ordered):
        axes = figure.add_subplot(rows, columns, index + 1, title=name)
        for split in ("train", "eval"):
            chosen = _select(lines, split)
            points = [(x["step"], x[name]) for x in chosen if name in x]
            if points:
                axes.plot(*zip(*points, strict=True), marker=".", label=split)
        baseline = run_log.BASELINES.get(name)
        if starts and baseline in starts[-1]:
            axes.axhline(
                starts[-1][baseline],
                color="gray",
                linestyle="dashed",
                label=_BASELINE_LABELS[name],
            )
        axes.set_xlabel("step")
        axes.grid(alpha=0.3)
        axes.legend()
    return figure
