r"""Measure the vectors that a model gives texts, without finetuning it.

    python -m lab.measure.sentences --model=albert_small_en \
        --data_dir=DATA --output_dir=OUTPUT

--model is the folder of a run, any checkpoint or its name, a SavedModel, an
ONNX or LiteRT folder, or one of sentence-transformers. DATA holds what
lab/measure/sentence_tasks.py names. OUTPUT/measure.json and measure.md are
written after each task; a task that is there is not measured again.

lab/measure/README.md describes the tasks.
"""

import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Any

from albert_tf.common import options, ranges
from albert_tf.common.options import checked, option
from lab.measure import report, sentence_tasks, text_models

# Takes a small model a minute.
_DEFAULT = "stsb_en_dev,sick,banking77_8,tatoeba_de,tatoeba_ja,tatoeba_zh"


@dataclasses.dataclass(frozen=True)
@checked
class SentencesOptions:
    """Options of sentences."""

    model: str = option(help="What gives the vectors.")
    data_dir: str = option(help="Folder of the data.")
    output_dir: str = option(help="Folder for measure.json and measure.md.")
    tasks: str = option(
        _DEFAULT,
        "Tasks or groups of tasks, with commas. Groups: "
        f"{', '.join(sentence_tasks.GROUPS)}.",
    )
    test_parts: bool = option(
        False,
        "Whether groups have their test parts, too. Choose models without: a "
        "test part is for the one number that is reported.",
    )
    max_seq_length: int | None = option(
        None,
        "Tokens of a text; longer ones are cut. Default: as the model says.",
        within=ranges.TOKENS_OF_TASK,
    )
    overwrite: bool = option(
        False, "Measure the tasks again that are there already."
    )

    def __post_init__(self) -> None:
        sentence_tasks.choose(self.tasks.split(","), with_tests=True)


def plan(settings: SentencesOptions) -> dict[str, report.Part]:
    """Return the chosen tasks; read their data, but do not load the model."""
    model = text_models.find(settings.model, settings.max_seq_length)
    vectors = text_models.Vectors(model.load)
    facts = {
        "weights": model.fingerprint,
        "bytes": model.bytes,
        "reader": model.reader,
        "max_seq_length": settings.max_seq_length,
    }

    def part(name: str) -> report.Part:
        task = sentence_tasks.TASKS[name]
        contents = sentence_tasks.read(task, settings.data_dir)
        hashes = [hashlib.sha256(content).hexdigest() for content in contents]
        chosen = {**facts, "part": task.part, "data": hashes}
        return report.Part(chosen, lambda: task.measure(vectors, contents))

    names = sentence_tasks.choose(
        settings.tasks.split(","), with_tests=settings.test_parts
    )
    return {name: part(name) for name in names}


def to_markdown(parts: Mapping[str, Any]) -> str:
    """Return one table of all tasks."""
    settings = next(iter(parts.values()))["settings"]
    cells = [
        [
            name,
            parts[name]["settings"]["part"],
            parts[name]["results"]["examples"],
            score,
            sentence_tasks.describe(values),
        ]
        for name in sentence_tasks.TASKS
        if name in parts
        for score, values in parts[name]["results"]["scores"].items()
    ]
    size = f"{settings['bytes']:,}"
    cells.append(["size", "", "weights and vocabulary", "bytes", size])
    head = "task | part | examples | score | value"
    return "\n".join(report.rows(head, cells)) + "\n"


def run(settings: SentencesOptions) -> None:
    """Measure the tasks that are not there yet; print the table."""
    report.finish(settings, plan(settings), to_markdown)


if __name__ == "__main__":
    options.run_script(run, SentencesOptions)
