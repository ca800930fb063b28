r"""Measure a pretrained model, the same way for every recipe.

    python -m lab.measure.evaluate --init_checkpoint=RUN \
        --held_out_file=CORPUS/held_out.txt --data_dir=DATA --output_dir=OUTPUT

RUN is the folder of a `run_pretraining`, or any checkpoint with a masked LM
head. CORPUS is what `lab.measure.make_corpus` wrote. DATA holds
blimp/blimp.jsonl.xz and what lab/measure/real_tasks.py names. The parts:

    cost           steps, tokens, FLOPs and minutes, from the log of the run
    held_out       bits per byte and accuracy on held-out text (held_out.py)
    minimal_pairs  accuracy without training (minimal_pairs.py)
    finetuning     seven tasks, from pretrained and random weights

OUTPUT/measure.json and measure.md are written after each part. A part that is
there is not measured again; if it was measured with other settings or other
weights, the command says so and stops. A released model needs
--finetuning_options='{"learning_rate": 3e-5, "encoder_learning_rate": null}'.

lab/measure/README.md describes the measure.
"""

import contextlib
import dataclasses
import functools
import hashlib
import os
from collections.abc import Callable
from typing import Any

from albert_tf import run_classifier
from albert_tf.common import (
    errors,
    files,
    options,
    ranges,
    strict_json,
)
from albert_tf.common.options import checked, option
from albert_tf.model.checkpoints import checkpoint_files
from albert_tf.text import tokenization
from lab.measure import (
    cost,
    finetuning,
    held_out,
    minimal_pairs,
    real_tasks,
    report,
    scoring,
)

# The parts, and the option that each needs.
PARTS = {
    "cost": "init_checkpoint",
    "held_out": "held_out_file",
    "minimal_pairs": "data_dir",
    "finetuning": "data_dir",
}
_SEED = 2019  # Of windows, hidden words and samples.
_WINDOW_WORDS = 32


@dataclasses.dataclass(frozen=True)
@checked
class EvaluateOptions:
    """Options of evaluate."""

    init_checkpoint: str = option(help="Folder of the pretrained model.")
    output_dir: str = option(help="Folder for measure.json and measure.md.")
    data_dir: str | None = option(
        None, "Folder of the real files, for minimal_pairs and finetuning."
    )
    held_out_file: str | None = option(
        None, "Text, an empty line between documents, for held_out."
    )
    parts: str = option(",".join(PARTS), "Parts, separated by commas.")
    overwrite: bool = option(
        False, "Measure the parts again that are there already."
    )
    albert_config_file: str | None = option(
        None, "The architecture. Default: the file beside the checkpoint."
    )
    spm_model_file: str | None = option(
        None, "The vocabulary. Default: the one beside the checkpoint."
    )
    windows: int = option(
        2000, "Windows of held-out text.", within=ranges.EXAMPLES
    )
    sample: int = option(
        0,
        "Minimal pairs of each phenomenon; 0 means all.",
        within=ranges.EXAMPLES_OR_NONE,
    )
    finetuning_dir: str | None = option(
        None,
        "Folder for the finetuning runs. Default: one in --output_dir. "
        "Models of the same architecture and vocabulary may share one, and "
        "with it the runs from random weights.",
    )
    tasks: str = option(
        ",".join(real_tasks.RECIPES), "Tasks of finetuning, with commas."
    )
    starts: str = option(
        ",".join(real_tasks.STARTS),
        "Weights that finetuning starts from, with commas; without random "
        "there is nothing to compare with, and half of the time.",
    )
    seeds: int = option(
        3,
        "Finetuning runs of each kind, with the seeds 1, 2 and so on.",
        within=ranges.RUNS,
    )
    examples: int = option(
        0,
        "Training examples of each task; more than there are means all. "
        "Default: by task.",
        within=ranges.EXAMPLES_OR_NONE,
    )
    finetuning_options: str = option(
        "{}",
        "Options of run_classifier for all finetuning runs, as JSON, such as "
        '\'{"optimizer": "lamb", "rte": {"num_train_epochs": 8}}\', the last '
        "of one task alone. Default: by task, for small models that "
        "were pretrained for an hour; see lab/measure/real_tasks.py.",
    )

    def __post_init__(self) -> None:
        changes = None
        with contextlib.suppress(strict_json.JsonError):
            changes = strict_json.loads(self.finetuning_options)
        if not isinstance(changes, dict):
            raise errors.UserError(
                f"`finetuning_options={self.finetuning_options}` is not JSON "
                'such as {"learning_rate": 3e-5}. Correct it.'
            )
        known = {*options.names(run_classifier.ClassifierOptions)}
        for_all, by_task = real_tasks.split_changes(changes)
        for name, given, allowed in (
            ("parts", self.parts.split(","), PARTS),
            ("tasks", self.tasks.split(","), real_tasks.RECIPES),
            ("starts", self.starts.split(","), real_tasks.STARTS),
            ("finetuning_options", by_task, real_tasks.RECIPES),
            *(
                ("finetuning_options", given, known - real_tasks.OWN)
                for given in (for_all, *by_task.values())
            ),
        ):
            errors.require_known(f"name for `{name}`", given, allowed)
        for part in self.parts.split(","):
            if not getattr(self, PARTS[part]):
                raise errors.UserError(
                    f"`parts={self.parts}` has {part}, which needs "
                    f"`{PARTS[part]}`. Give it, or leave the part out."
                )


def plan(settings: EvaluateOptions) -> dict[str, report.Part]:
    """Return the chosen parts; read the data, but load no model."""
    chosen = settings.parts.split(",")
    source = scoring.Source.find(
        settings.init_checkpoint,
        settings.albert_config_file,
        tokenization.VocabularyOptions(spm_model_file=settings.spm_model_file),
    )
    source.vocabulary.require()
    vocabulary = files.require_file(
        str(source.vocabulary.path), str(source.vocabulary.kind)
    )
    files.require_file(source.config_file, "albert_config_file")
    model = {
        "weights": checkpoint_files.fingerprint(settings.init_checkpoint),
        "config": files.sha256(source.config_file),
        "vocabulary": files.sha256(vocabulary),
    }
    if {"held_out", "minimal_pairs"} & set(chosen):
        source.read()
    load = functools.cache(source.load)
    makers = {
        "cost": lambda: report.Part(
            {"weights": model["weights"]},
            lambda: cost.of_run(settings.init_checkpoint),
        ),
        "held_out": lambda: _held_out(settings, model, load),
        "minimal_pairs": lambda: _minimal_pairs(settings, model, load),
        "finetuning": lambda: _finetuning(settings, model, source),
    }
    return {name: makers[name]() for name in PARTS if name in chosen}


def _held_out(
    settings: EvaluateOptions,
    model: dict[str, str],
    load: Callable[[], scoring.MaskedLm],
) -> report.Part:
    path = files.require_file(str(settings.held_out_file), "held_out_file")
    text = "\n".join(files.read_lines(path, "held_out_file"))
    windows = held_out.draw(text, _WINDOW_WORDS, settings.windows, _SEED)
    return report.Part(
        {
            **model,
            "text": files.sha256(path),
            "windows": settings.windows,
            "window_words": _WINDOW_WORDS,
            "seed": _SEED,
        },
        lambda: held_out.measure(load(), windows),
    )


def _minimal_pairs(
    settings: EvaluateOptions,
    model: dict[str, str],
    load: Callable[[], scoring.MaskedLm],
) -> report.Part:
    path = os.path.join(str(settings.data_dir), "blimp", "blimp.jsonl.xz")
    pairs = minimal_pairs.read(files.require_file(path, "data_dir"))
    pairs = minimal_pairs.draw(pairs, settings.sample, _SEED)
    content = "\n".join(map(repr, pairs)).encode()
    sentences = [text for pair in pairs for text in (pair.good, pair.bad)]

    def measure() -> dict[str, Any]:
        scores = minimal_pairs.pseudo_log_likelihoods(load(), sentences)
        return minimal_pairs.summarize(pairs, scores)

    digest = hashlib.sha256(content).hexdigest()
    return report.Part({**model, "pairs": digest}, measure)


def _finetuning(
    settings: EvaluateOptions, model: dict[str, str], source: scoring.Source
) -> report.Part:
    # One for each model in the same place.
    inside = f"{settings.output_dir}/finetuning_{model['weights'][:8]}"
    runs = real_tasks.Plan(
        data_dir=str(settings.data_dir),
        output_dir=settings.finetuning_dir or inside,
        init_checkpoint=settings.init_checkpoint,
        config_file=source.config_file,
        vocabulary=source.vocabulary,
        tasks=settings.tasks.split(","),
        starts=settings.starts.split(","),
        seeds=settings.seeds,
        examples=settings.examples,
        changes=strict_json.loads(settings.finetuning_options),
    )
    places = real_tasks.prepare(runs)
    chosen = {
        **model,
        **runs.changes,
        "starts": runs.starts,
        "seeds": runs.seeds,
        "data": {name: place.name for name, place in places.items()},
        "recipes": {
            name: dataclasses.asdict(real_tasks.RECIPES[name])
            for name in runs.tasks
        },
    }
    return report.Part(
        chosen, lambda: finetuning.summarize(real_tasks.finish(runs, places))
    )


def run(settings: EvaluateOptions) -> None:
    """Measure the parts that are not there yet; print the table."""
    report.finish(settings, plan(settings), report.to_markdown)


if __name__ == "__main__":
    options.run_script(run, EvaluateOptions)
