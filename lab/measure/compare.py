r"""Compare two recipes by what lab.measure.evaluate has written.

    python -m lab.measure.compare --first=OUT1,OUT2 --second=OUT3,OUT4

Each folder is of one pretrained model. The models of a recipe differ in the
seed of their pretraining, and the first of one recipe is paired with the first
of the other. The table shows the second recipe minus the first, with 95 %
bootstrap intervals (paired.py) over

    held_out       pretraining seeds; no interval with one
    minimal_pairs  paradigms, means over the pretraining seeds
    finetuning     finetuning seeds of all pretraining seeds, pretrained models

Only parts that all folders have are compared, and only if they were measured
with the same settings. The learning rates of finetuning may differ, and whether
random weights were finetuned, too.
"""

import dataclasses
import statistics
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf.common import errors, options
from albert_tf.common.options import option
from lab.measure import finetuning, paired, report

# What a comparison is about; all other settings must be the same.
_MODEL = {"weights", "config", "vocabulary"}
_OF_FINETUNING = {"learning_rate", "encoder_learning_rate", "starts"}
Parts = Sequence[Mapping[str, Any]]


@dataclasses.dataclass(frozen=True)
class CompareOptions:
    """Options of compare."""

    first: str = option(help="Folders of the first recipe, with commas.")
    second: str = option(help="Folders of the second, as many.")


def compare(first: Parts, second: Parts) -> list[list[str]]:
    """Return the rows of the table."""
    shared = set.intersection(*(set(parts) for parts in [*first, *second]))
    rows: list[list[str]] = []
    for name, differences in _PARTS.items():
        if name not in shared:
            continue
        one, other = ([p[name] for p in side] for side in (first, second))
        _require_same(name, [*one, *other])
        pairs = [
            (a["results"], b["results"])
            for a, b in zip(one, other, strict=True)
        ]
        for title, groups in differences(pairs).items():
            found = paired.interval(groups)
            cell = report.describe(vars(found))
            rows.append([title, cell, str(found.count)])
    if not rows:
        raise errors.UserError(
            "The folders have no part in common. Measure the same parts of all."
        )
    return rows


def _require_same(name: str, parts: Parts) -> None:
    free = _MODEL | _OF_FINETUNING
    kept = [
        {k: v for k, v in p["settings"].items() if k not in free} for p in parts
    ]
    names = {
        key
        for settings in kept
        for key in settings.keys() | kept[0].keys()
        if settings.get(key) != kept[0].get(key)
    }
    if names:
        raise errors.UserError(
            f"The folders have the part {name} with different settings: "
            f"{', '.join(sorted(names))}. Measure it again with the same "
            "options."
        )


Pairs = Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]
Groups = dict[str, list[list[float]]]


def _held_out(pairs: Pairs) -> Groups:
    titles = {
        "bits_per_byte": ("bits per byte", 1),
        "word_accuracy": ("hidden words right, %", 100),
        "piece_accuracy": ("hidden pieces right, %", 100),
    }
    return {
        title: [[scale * (b[name] - a[name]) for a, b in pairs]]
        for name, (title, scale) in titles.items()
    }


def _minimal_pairs(pairs: Pairs) -> Groups:
    return {
        "minimal pairs, %": [
            [
                statistics.fmean(
                    b["paradigms"][name] - a["paradigms"][name]
                    for a, b in pairs
                )
                for name in pairs[0][0]["paradigms"]
            ]
        ]
    }


def _finetuning(pairs: Pairs) -> Groups:
    groups = {
        name: [
            difference
            for a, b in pairs
            for difference in finetuning.differences(
                a["tasks"][name]["pretrained"], b["tasks"][name]["pretrained"]
            )
        ]
        for name in pairs[0][0]["tasks"]
    }
    found = {name: [group] for name, group in groups.items()}
    return {**found, "mean of the tasks": list(groups.values())}


_PARTS = {
    "held_out": _held_out,
    "minimal_pairs": _minimal_pairs,
    "finetuning": _finetuning,
}


def run(settings: CompareOptions) -> None:
    """Print the table."""
    sides = [side.split(",") for side in (settings.first, settings.second)]
    first, second = ([report.read(folder) for folder in x] for x in sides)
    wrong = [x for side in sides for x in side if not report.read(x)]
    if wrong or len(first) != len(second):
        raise errors.UserError(
            f"`first` are {len(first)} folders and `second` {len(second)}, of "
            f"which these have no measure: {', '.join(wrong) or 'none'}. Give "
            f"as many, each with a {report.FILE_NAME}."
        )
    head = "second minus first | difference (95 % interval) | numbers"
    lines = report.rows(head, compare(first, second))
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    options.run_script(run, CompareOptions)
