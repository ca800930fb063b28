"""The log of a run: terminal, TensorBoard and a file of JSON lines.

`metrics.jsonl` is the record of a run; `run_card.py` draws everything from it.
Every line has `split` (`train`, `eval`, `end`, of a start `facts`) and `step`.
"""

import dataclasses
import math
import os
import resource
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
from absl import logging

from albert_tf.common import files, strict_json

FILE_NAME = "metrics.jsonl"
# Where a process that follows the checkpoints of another keeps its log.
EVALUATION_FOLDER = "evaluation"
# Key of a line of evaluation: by which metric and on what it was made.
MEASURED = "measured"
# Keys of a line that are no losses or metrics.
NOT_METRICS = {
    "split",
    "step",
    MEASURED,
    "time",
    "examples_per_second",
    "tokens_per_second",
    "gigaflops",
    "peak_memory_mb",
}
# Key in the line of a start of what a model reaches that knows only how
# frequent pieces are, by metric.
BASELINES = {
    "masked_lm_loss": "entropy_of_labels",
    "masked_lm_accuracy": "share_of_most_frequent_label",
}
# Only the terminal shortens names; files keep them.
_SHORT = {
    "masked_lm": "mlm",
    "sentence_order": "sop",
    "next_sentence": "nsp",
    "sentence_reordering": "reordering",
    "sentence_distance": "distance",
    "replaced_token": "rtd",
    "accuracy": "acc",
}


def read(output_dir: str) -> list[dict[str, Any]]:
    """Return the lines of a run's log; damaged ones are left out, and counted.

    A number that was not finite is null in the file, and NaN here. Earlier
    versions wrote NaN and Infinity, which are no JSON; these are read, too.
    """
    path = files.safe_join(output_dir, FILE_NAME)
    if not files.exists(path):
        return []
    lines = [*map(_parse_line, files.read_bytes(path).splitlines())]
    damaged = [n for n, line in enumerate(lines, 1) if line is None]
    if damaged:
        logging.warning(
            "%s: left out %d damaged lines; the first is line %d. The run's "
            "card and curves lack their numbers.",
            path,
            len(damaged),
            damaged[0],
        )
    return [line for line in lines if line is not None]


def _parse_line(text: bytes) -> dict[str, Any] | None:
    """Return a line of the log; None if it is damaged."""
    try:
        line = strict_json.loads(text)
    except strict_json.JsonError:
        return None
    if not isinstance(line, dict) or not isinstance(line.get("split"), str):
        return None
    if type(line.get("step")) is not int:
        return None
    if line["split"] not in ("train", "eval"):
        used = (
            value
            for name, value in line.items()
            if name.endswith("_per_step") or name in BASELINES.values()
        )
        return line if all(isinstance(v, (int, float)) for v in used) else None
    numbers = {k: math.nan if v is None else v for k, v in line.items()}
    metrics = (v for k, v in numbers.items() if k not in ("split", MEASURED))
    return (
        numbers if all(isinstance(v, (int, float)) for v in metrics) else None
    )


def final_step(output_dir: str) -> int | None:
    """Return the step at which training ended; None if it has not."""
    lines = read(output_dir)
    return lines[-1]["step"] if lines and lines[-1]["split"] == "end" else None


def column(
    lines: Sequence[Mapping[str, Any]],
    split: str,
    name: str,
    measured: str | None = None,
) -> list[tuple[int, float]]:
    """Return (step, value) for every line of `split` that has `name`.

    If `measured` is given, lines that measured something else are left out;
    those of earlier versions do not say what.
    """
    return [
        (line["step"], line[name])
        for line in lines
        if line["split"] == split and name in line
        if measured in (None, line.get(MEASURED, measured))
    ]


class ExampleCost(NamedTuple):
    """What one example costs in training, on average."""

    tokens: float  # Padding included.
    flops: float  # Of matrix products, forward and backward.


@dataclasses.dataclass(frozen=True)
class Provenance:
    """What a start of a run is made with: machine, versions, data.

    Attributes:
        training_data: Digest of the training data, see `check_same_data`.
        entropy_of_labels: Of the pieces to predict, in nats: the masked-LM
            loss of a model that knows only how frequent they are. None, and
            not in the log, if it is not known.
        share_of_most_frequent_label: The accuracy of that model; None as above.
    """

    command: str
    parameters: int
    data: str
    python: str
    machine: str
    devices: str
    versions: str
    training_data: str
    entropy_of_labels: float | None = None
    share_of_most_frequent_label: float | None = None


class RunLog:
    """Collects the numbers of one run, over restarts."""

    def __init__(
        self,
        output_dir: str,
        batch_size: float,
        cost: ExampleCost | None = None,
    ):
        self._output_dir = output_dir
        self._batch_size = batch_size  # Examples per step, on average.
        self._cost = cost
        files.make_folder(output_dir)
        self._lines = read(output_dir)
        self._num_train_steps = 0
        self._writers: dict[str, tf.summary.SummaryWriter] = {}

    def start(
        self,
        step: int,
        num_train_steps: int,
        provenance: Provenance | None = None,
    ) -> None:
        """Write a start's line; drop an earlier one's lines after `step`."""
        self._num_train_steps = num_train_steps
        self._lines = [
            line
            for line in self._lines
            if line["step"] <= step and line["split"] != "end"
        ]
        per_step = {"examples_per_step": round(self._batch_size, 3)}
        if self._cost:
            tokens = round(self._batch_size * self._cost.tokens)
            per_step["tokens_per_step"] = tokens
        line = {"split": "facts", "step": step, **per_step}
        values = dataclasses.asdict(provenance) if provenance else {}
        line |= {k: v for k, v in values.items() if v is not None}
        self._lines.append(line)
        self._save()

    def write(
        self,
        split: str,
        step: int,
        numbers: dict[str, float],
        steps_per_second: float | None = None,
        seconds_left: float = math.inf,
        measured: str | None = None,
    ) -> None:
        """Write numbers to the file, to TensorBoard and to the terminal.

        Args:
            seconds_left: The time to the end, whatever steps are left.
            measured: What the numbers may be compared with, see `column`.
        """
        line = {"split": split, "step": step, "time": time.time(), **numbers}
        if measured is not None:
            line[MEASURED] = measured
        if steps_per_second is not None:
            examples = steps_per_second * self._batch_size
            line["examples_per_second"] = examples
            if self._cost:
                line["tokens_per_second"] = examples * self._cost.tokens
                line["gigaflops"] = examples * self._cost.flops / 1e9
            line["peak_memory_mb"] = peak_memory_mb()
        self._lines = [
            old
            for old in self._lines
            if (old["split"], old["step"]) != (split, step)
        ]
        self._lines.append(line)
        self._save()
        events = os.path.join(self._output_dir, split)
        with files.name_full_disk(events):
            if split not in self._writers:
                self._writers[split] = tf.summary.create_file_writer(events)
            with self._writers[split].as_default(step):
                for name, value in numbers.items():
                    tf.summary.scalar(name, value)
        print(self._format(line, steps_per_second, seconds_left), flush=True)

    def column(
        self, split: str, name: str, measured: str | None = None
    ) -> list[tuple[int, float]]:
        """Return step and value of each line that has them, see `column`."""
        return column(self._lines, split, name, measured)

    def end(self, step: int) -> None:
        """Write that training has ended, and flush TensorBoard's files."""
        self._lines.append({"split": "end", "step": step})
        self._save()
        self.flush()

    def flush(self) -> None:
        for writer in self._writers.values():
            writer.flush()

    def _save(self) -> None:
        text = "".join(strict_json.dumps(line) + "\n" for line in self._lines)
        files.write_text(os.path.join(self._output_dir, FILE_NAME), text)

    def _format(
        self,
        line: dict[str, Any],
        steps_per_second: float | None,
        seconds_left: float,
    ) -> str:
        total = self._num_train_steps or line["step"]
        shown = [
            f"{line['split']:<5} step {line['step']:>{len(str(total))}}/{total}"
        ]
        shown += [
            format_number(name, value)
            for name, value in line.items()
            if name not in NOT_METRICS
        ]
        if steps_per_second is not None:
            left = min(seconds_left, (total - line["step"]) / steps_per_second)
            shown.append(f"{line['examples_per_second']:,.1f} examples/s")
            if self._cost:
                shown.append(f"{line['tokens_per_second']:,.0f} tokens/s")
                shown.append(f"{line['gigaflops']:,.0f} GFLOP/s")
            shown.append(f"ETA {format_seconds(left)}")
        return "  ".join(shown)


def peak_memory_mb() -> float:
    """Return the most memory this process has had so far, in MiB.

    That of the first GPU, if there is one; else that of the host.
    """
    if tf.config.list_logical_devices("GPU"):
        peak: int = tf.config.experimental.get_memory_info("GPU:0")["peak"]
        return peak / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def write_eval_results(
    output_dir: str, step: int, numbers: dict[str, float]
) -> None:
    """Write and print an evaluation as the original does: `key = value`.

    Source: original release, run_pretraining.main, `eval_results.txt`.
    """
    numbers = {**numbers, "global_step": step}
    text = "".join(f"{k} = {numbers[k]}\n" for k in sorted(numbers))
    files.write_text(os.path.join(output_dir, "eval_results.txt"), text)
    print(text, end="", flush=True)


def format_number(name: str, value: float) -> str:
    """Return, for example, `mlm acc 41.2%` for a name and its value."""
    for long, short in _SHORT.items():
        name = name.replace(long, short)
    name = name.replace("_", " ")
    if name == "learning rate":
        return f"lr {value:.2e}"
    if name.endswith("acc"):
        return f"{name} {value:.1%}"
    return f"{name} {value:.3f}"


def format_seconds(seconds: float) -> str:
    """Return hours:minutes:seconds."""
    minutes, left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{left:02}"
