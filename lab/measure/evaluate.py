r"""Measure a pretrained model, the same way for every recipe.

    python -m lab.measure.evaluate --init_checkpoint=RUN \
        --held_out_file=CORPUS/held_out.txt --data_dir=DATA --output_dir=OUTPUT

RUN is the folder of a `run_pretraining`, or any checkpoint with a masked LM
head. CORPUS is what `lab.measure.make_corpus` wrote. DATA holds
blimp/blimp.jsonl.xz and what lab.trials.real_tasks needs. The parts:

    cost           steps, tokens, FLOPs and minutes, from the log of the run
    held_out       bits per byte and accuracy on held-out text (held_out.py)
    minimal_pairs  accuracy without training (minimal_pairs.py)
    finetuning     seven tasks, from pretrained and random weights

OUTPUT/measure.json and measure.md are written after each part. A part that is
there is not measured again; if it was measured with other settings or other
weights, the command says so and stops.

docs/recipes.md describes the measure.
"""

import dataclasses
import functools
import hashlib
import os
import sys
from collections.abc import Callable
from typing import Any

from absl import logging

from albert_tf.common import errors, files, options, ranges
from albert_tf.common.options import checked, option
from albert_tf.model.checkpoints import checkpoint_files
from albert_tf.text import tokenization
from lab.measure import (
    cost,
    finetuning,
    held_out,
    minimal_pairs,
    report,
    scoring,
)
from lab.trials import real_tasks as finetuning_tool

PARTS = ("cost", "held_out", "minimal_pairs", "finetuning")


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
    vocab_file: str | None = option(None, "A WordPiece vocabulary instead.")
    seed: int = option(
        2019, "Of windows, hidden words and samples.", within=ranges.SEED
    )
    windows: int = option(
        2000, "Windows of held-out text.", within=ranges.EXAMPLES
    )
    window_words: int = option(
        32, "Words of a window.", within=ranges.Range(2, 2**16)
    )
    minimal_pairs_file: str | None = option(
        None,
        "Files of minimal pairs. Default: blimp/blimp.jsonl.xz in --data_dir.",
    )
    sample: int = option(
        0,
        "Pairs of each phenomenon; 0 means all.",
        within=ranges.EXAMPLES_OR_NONE,
    )
    finetuning_dir: str | None = option(
        None,
        "Folder for the finetuning runs. Default: one in --output_dir. "
        "Models of the same architecture and vocabulary may share one, and "
        "with it the runs from random weights.",
    )
    runs: finetuning_tool.RunOptions = dataclasses.field(
        default_factory=finetuning_tool.RunOptions
    )

    def __post_init__(self) -> None:
        unknown = [name for name in self.chosen if name not in PARTS]
        if unknown:
            raise errors.UserError(
                f"has {unknown[0]!r}. Known are {', '.join(PARTS)}.",
                "parts",
                self.parts,
            )
        if "held_out" in self.chosen and not self.held_out_file:
            self._refuse("held_out", "held_out_file")
        if "minimal_pairs" in self.chosen and not self.pairs_file:
            self._refuse("minimal_pairs", "minimal_pairs_file")
        if "finetuning" in self.chosen and not self.data_dir:
            self._refuse("finetuning", "data_dir")

    def _refuse(self, part: str, missing: str) -> None:
        raise errors.UserError(
            f"has {part}, which needs `{missing}`. Give it, or leave the part "
            "out.",
            "parts",
            self.parts,
        )

    @property
    def chosen(self) -> list[str]:
        """The parts to measure."""
        return [name.strip() for name in self.parts.split(",")]

    @property
    def pairs_file(self) -> str | None:
        """The files of minimal pairs."""
        if self.minimal_pairs_file or not self.data_dir:
            return self.minimal_pairs_file
        return os.path.join(self.data_dir, "blimp", "blimp.jsonl.xz")

    def source(self) -> scoring.Source:
        """Return the checkpoint, and what belongs to it."""
        return scoring.Source.find(
            self.init_checkpoint,
            self.albert_config_file,
            tokenization.VocabularyOptions(
                spm_model_file=self.spm_model_file, vocab_file=self.vocab_file
            ),
        )

    def finetuning(
        self, source: scoring.Source, weights: str
    ) -> finetuning_tool.ToolOptions:
        """Return the options of the finetuning tool.

        Args:
            weights: Tells them apart from others in the same place.
        """
        if source.vocabulary.kind == "vocab_file":
            raise errors.UserError(
                "is a WordPiece vocabulary, which the finetuning runs do not "
                "take. Leave finetuning out of `parts`.",
                "vocab_file",
                source.vocabulary.path,
            )
        inside = os.path.join(self.output_dir, f"finetuning_{weights[:8]}")
        return finetuning_tool.ToolOptions(
            data_dir=str(self.data_dir),
            output_dir=self.finetuning_dir or inside,
            init_checkpoint=self.init_checkpoint,
            albert_config_file=source.config_file,
            spm_model_file=source.vocabulary.path,
            runs=self.runs,
        )


@dataclasses.dataclass(frozen=True)
class Part:
    """One part of the measure."""

    settings: dict[str, Any]
    measure: Callable[[], dict[str, Any]]


def plan(settings: EvaluateOptions) -> dict[str, Part]:
    """Return the chosen parts; read the data, but load no model."""
    weights = checkpoint_files.fingerprint(settings.init_checkpoint)
    source = settings.source()
    source.vocabulary.require()
    files.require_file(source.config_file, "albert_config_file")
    model = {
        "weights": weights,
        "config": files.sha256(source.config_file),
        "vocabulary": files.sha256(
            files.require_file(
                str(source.vocabulary.path), str(source.vocabulary.kind)
            )
        ),
    }
    if {"held_out", "minimal_pairs"} & set(settings.chosen):
        source.require_head()
    load = functools.cache(source.load)
    makers = {
        "cost": lambda: Part(
            {"weights": model["weights"]},
            lambda: cost.of_run(settings.init_checkpoint),
        ),
        "held_out": lambda: _held_out(settings, model, load),
        "minimal_pairs": lambda: _minimal_pairs(settings, model, load),
        "finetuning": lambda: _finetuning(settings, model, source),
    }
    return {name: makers[name]() for name in PARTS if name in settings.chosen}


def _held_out(
    settings: EvaluateOptions,
    model: dict[str, str],
    load: Callable[[], scoring.MaskedLm],
) -> Part:
    path = files.require_file(str(settings.held_out_file), "held_out_file")
    try:
        text = files.read_bytes(path).decode("utf-8")
    except UnicodeDecodeError:
        raise errors.UserError(
            "is not UTF-8. Convert the file first.", "held_out_file", path
        ) from None
    windows = held_out.draw(
        text, settings.window_words, settings.windows, settings.seed
    )
    return Part(
        {
            **model,
            "text": files.sha256(path),
            "windows": settings.windows,
            "window_words": settings.window_words,
            "seed": settings.seed,
        },
        lambda: held_out.measure(load(), windows),
    )


def _minimal_pairs(
    settings: EvaluateOptions,
    model: dict[str, str],
    load: Callable[[], scoring.MaskedLm],
) -> Part:
    pairs = minimal_pairs.read(str(settings.pairs_file))
    pairs = minimal_pairs.draw(pairs, settings.sample, settings.seed)
    content = "\n".join(map(repr, pairs)).encode()
    sentences = [text for pair in pairs for text in (pair.good, pair.bad)]

    def measure() -> dict[str, Any]:
        scores = minimal_pairs.pseudo_log_likelihoods(load(), sentences)
        return minimal_pairs.summarize(pairs, scores)

    digest = hashlib.sha256(content).hexdigest()
    return Part({**model, "pairs": digest}, measure)


def _finetuning(
    settings: EvaluateOptions, model: dict[str, str], source: scoring.Source
) -> Part:
    tool_options = settings.finetuning(source, model["weights"])
    chosen = dataclasses.asdict(settings.runs)
    chosen["data"] = finetuning_tool.prepare(tool_options)
    chosen["recipes"] = {
        name: dataclasses.asdict(finetuning_tool.RECIPES[name])
        for name in settings.runs.chosen
    }
    return Part({**model, **chosen}, lambda: finetuning.measure(tool_options))


def _require_same_weights(
    settings: EvaluateOptions, done: dict[str, Any], weights: str
) -> None:
    """Refuse to put parts beside those of another model."""
    for name, part in done.items():
        if part["settings"]["weights"] != weights:
            raise errors.UserError(
                f"holds the part {name} of another model. Choose another "
                "folder, or measure that part again, too, with "
                f"--overwrite --parts={settings.parts},{name}.",
                "output_dir",
                settings.output_dir,
            )


def run(settings: EvaluateOptions) -> None:
    """Measure the parts that are not there yet; print the table."""
    wanted = plan(settings)
    files.make_folder(settings.output_dir, "output_dir")
    done = report.read(settings.output_dir)
    if settings.overwrite:
        done = {k: part for k, part in done.items() if k not in wanted}
    for name in wanted.keys() & done.keys():
        report.require_same(
            settings.output_dir,
            name,
            done[name]["settings"],
            wanted[name].settings,
        )
    weights = next(iter(wanted.values())).settings["weights"]
    _require_same_weights(settings, done, weights)
    for name, part in wanted.items():
        if name not in done:
            logging.info("Measuring %s", name)
            done[name] = {"settings": part.settings, "results": part.measure()}
            report.write(settings.output_dir, done)
    report.write(settings.output_dir, done)
    sys.stdout.write(report.to_markdown(done))


if __name__ == "__main__":
    options.run_script(run, EvaluateOptions)
