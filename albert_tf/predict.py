r"""Predict a file of your own with a finetuned model: its folder is enough.

    python -m albert_tf.predict --run_dir=runs/rte \
        --input_file=pairs.tsv --output_file=predictions.jsonl

The input is a TSV file whose first row names the columns `text`, `text_pair`
(for tasks with pairs) and, if wanted, `id`; or one JSON object a line with
these keys. For RACE it is one article a line, as in `all.txt`, with or without
answers. The output has the prediction and the probabilities for each: JSON
lines, or a table if its name ends in .tsv.
"""

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras
from absl import logging

from albert_tf import (
    checkpoints,
    errors,
    files,
    modeling,
    options,
    run_folder,
    scores,
    tokenization,
)
from albert_tf.options import option
from albert_tf.tasks import base, registry


@dataclasses.dataclass(frozen=True)
class PredictOptions:
    """Options of predict."""

    run_dir: str = option(
        help="The --output_dir of run_classifier or its siblings."
    )
    input_file: str = option(help="TSV or JSON lines, without labels.")
    output_file: str = option(help="JSON lines, or a table (.tsv), to write.")
    checkpoint: str | None = option(
        None, "Checkpoint to use. Default: the best, else the latest."
    )
    batch_size: int = option(32, "Records that go through the model together.")

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise errors.UserError(
                f"--batch_size={self.batch_size} is below 1. Use a whole "
                "number from 1."
            )


def run(settings: PredictOptions) -> None:
    """Predict all examples of a file."""
    source = run_folder.read(settings.run_dir)
    if "task_name" not in source.options:
        raise errors.UserError(
            f"--run_dir={settings.run_dir} was made by {source.program}, which "
            "finetunes no task. Name the folder of a finetuned model."
        )
    task = registry.make(source.options, tokenization.load(source.vocabulary))
    task.remember(scores.of_best(settings.run_dir))
    examples = task.read(settings.input_file, base.PREDICT)
    model = task.make_model(modeling.AlbertModel(source.config))
    used = checkpoints.restore(
        model,
        settings.checkpoint or settings.run_dir,
        "checkpoint" if settings.checkpoint else "run_dir",
    )
    outputs = predict(model, task, examples, settings.batch_size)
    answers = list(task.answers(outputs, examples))
    is_table = settings.output_file.endswith(".tsv")
    files.write_text(
        settings.output_file,
        to_table(answers) if is_table else to_json_lines(answers),
    )
    logging.info("Predicted %d examples with %s", len(examples), used.path)


def predict(
    model: keras.Model,
    task: base.Task,
    examples: Sequence[base.Example],
    batch_size: int,
) -> base.Outputs:
    """Return the outputs of a model for all records of the examples."""
    call = tf.function(model.call)
    parts: list[dict[str, np.ndarray]] = []
    for batch, count in batches(task, examples, batch_size):
        outputs = call({k: tf.constant(v) for k, v in batch.items()})
        parts.append({k: v.numpy()[:count] for k, v in outputs.items()})
    return {k: np.concatenate([p[k] for p in parts]) for k in parts[0]}


def batches(
    task: base.Task, examples: Sequence[base.Example], batch_size: int
) -> Iterator[tuple[dict[str, np.ndarray], int]]:
    """Yield batches of records, the last one filled with zeros.

    Yields:
        By name [batch_size, *shape], int32 and float32, and how many of the
        rows are records.
    """
    names = [feature.name for feature in task.layout(base.PREDICT)]
    waiting = {name: [] for name in names}  # type: dict[str, list[np.ndarray]]
    for values in task.featurize(examples, base.PREDICT):
        for name in names:
            waiting[name].extend(values[name])
        while len(waiting[names[0]]) >= batch_size:
            yield _stack(waiting, batch_size), batch_size
    count = len(waiting[names[0]])
    if count:
        yield _stack(waiting, batch_size), count


def _stack(
    waiting: dict[str, list[np.ndarray]], size: int
) -> dict[str, np.ndarray]:
    """Take `size` rows away from the front; fewer are filled up with zeros."""
    batch = {}
    for name, rows in waiting.items():
        taken = np.stack(rows[:size])
        kind = np.int32 if taken.dtype.kind == "i" else np.float32
        batch[name] = np.zeros((size, *taken.shape[1:]), kind)
        batch[name][: len(taken)] = taken
        del rows[:size]
    return batch


def to_json_lines(answers: Iterable[Mapping[str, Any]]) -> str:
    """Return one JSON object a line."""
    return "".join(
        json.dumps(answer, ensure_ascii=False) + "\n" for answer in answers
    )


def to_table(answers: Sequence[Mapping[str, Any]]) -> str:
    """Return rows with a header; each probability has a column of its own."""
    rows: list[dict[str, Any]] = []
    for answer in answers:
        row: dict[str, Any] = {}
        for name, value in answer.items():
            row.update(value if isinstance(value, dict) else {name: value})
        rows.append(row)
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[_cell(row.get(name, "")) for name in names] for row in rows]
    return "".join("\t".join(line) + "\n" for line in [names, *cells])


def _cell(value: Any) -> str:
    """Return a value as the text of one cell."""
    return " ".join(str(value).split())


if __name__ == "__main__":
    options.run_script(run, PredictOptions)
