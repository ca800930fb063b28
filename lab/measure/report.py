"""The file of a measure, part by part, and its table."""

import dataclasses
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from absl import logging

from albert_tf.common import errors, files, outputs, strict_json
from lab.measure import finetuning

FILE_NAME = "measure.json"
TABLE_NAME = "measure.md"
_DAMAGED = "Delete the file, and measure again."
Table = Callable[[Mapping[str, Any]], str]


@dataclasses.dataclass(frozen=True)
class Part:
    """One part of a measure.

    Attributes:
        settings: All that its results depend on; `weights` are those of the
            model, the same for all parts.
    """

    settings: dict[str, Any]
    measure: Callable[[], dict[str, Any]]


def finish(settings: Any, wanted: Mapping[str, Part], to_table: Table) -> None:
    """Measure the parts that are not there yet; print the table.

    Args:
        settings: Options, with `output_dir` and `overwrite`.
        to_table: From all parts to their tables in Markdown.
    """
    done = read(settings.output_dir)
    names = FILE_NAME, TABLE_NAME
    written = [os.path.join(settings.output_dir, name) for name in names]
    outputs.check(settings, "output_dir", written, is_own=bool(done))
    files.make_folder(settings.output_dir, "output_dir")
    if settings.overwrite:
        done = {k: part for k, part in done.items() if k not in wanted}
    _require_same(settings.output_dir, done, wanted)
    for name, part in wanted.items():
        if name not in done:
            logging.info("Measuring %s", name)
            done[name] = {"settings": part.settings, "results": part.measure()}
            _write(settings.output_dir, done, to_table)
    sys.stdout.write(to_table(done))


def _require_same(
    folder: str, done: Mapping[str, Any], wanted: Mapping[str, Part]
) -> None:
    """Refuse parts that were measured with other settings or weights."""
    weights = next(iter(wanted.values())).settings["weights"]
    for name, part in done.items():
        before = part["settings"]
        now = {**before, "weights": weights}
        if name in wanted:
            now = wanted[name].settings
        others = sorted(
            k for k in before.keys() | now.keys() if before.get(k) != now.get(k)
        )
        if others:
            raise errors.UserError(
                f"`output_dir={folder}` holds the part {name}, measured with "
                f"other {', '.join(others)}. Choose another folder, or measure "
                "that part again with --overwrite."
            )


def read(folder: str) -> dict[str, Any]:
    """Return the parts that are there, by name."""
    path = os.path.join(folder, FILE_NAME)
    if not files.exists(path):
        return {}
    content = strict_json.read(path, _DAMAGED)
    parts = content.get("parts") if isinstance(content, dict) else None
    if not isinstance(parts, dict):
        raise errors.UserError(f"{path} holds no measure. {_DAMAGED}")
    return parts


def _write(folder: str, parts: Mapping[str, Any], to_table: Table) -> None:
    """Write `measure.md` and, last, `measure.json`."""
    text = strict_json.dumps({"parts": parts}, indent=2) + "\n"
    contents = {FILE_NAME: text, TABLE_NAME: to_table(parts)}
    files.write_together(
        {os.path.join(folder, n): x.encode() for n, x in contents.items()}
    )


def to_markdown(parts: Mapping[str, Any]) -> str:
    """Return the tables of all parts."""
    tables = {
        "cost": _cost,
        "held_out": _held_out,
        "minimal_pairs": _minimal_pairs,
        "finetuning": _finetuning,
    }
    return "\n".join(
        "\n".join([f"## {name}\n", *table(parts[name]["results"])]) + "\n"
        for name, table in tables.items()
        if name in parts
    )


def rows(head: str, cells: Sequence[Sequence[str]]) -> list[str]:
    """Return a Markdown table."""
    columns = head.count("|")
    return [
        f"| {head} |",
        f"| --- |{' ---: |' * columns}",
        *(f"| {' | '.join(line)} |" for line in cells),
    ]


def describe(difference: Mapping[str, Any]) -> str:
    """Return, for example, `+1.20 (+0.50 to +2.00)`."""
    mean, low, high = (difference[key] for key in ("mean", "low", "high"))
    if low is None:
        return f"{mean:+.2f}"
    return f"{mean:+.2f} ({low:+.2f} to {high:+.2f})"


def _cost(found: Mapping[str, Any]) -> list[str]:
    cells = [["runs", ", ".join(found["runs"]) or "no log"]]
    if found["not_counted"]:
        cells.append(["started from, not counted", found["not_counted"]])
    if found["runs"]:
        cells += [
            ["steps", f"{found['steps']:,.0f}"],
            ["tokens, with padding", f"{found['tokens']:,.0f}"],
            ["FLOPs of matrix products", f"{found['flops']:.3e}"],
            ["minutes of training", f"{found['minutes']:.1f}"],
        ]
    return rows("pretraining | value", cells)


def _held_out(found: Mapping[str, Any]) -> list[str]:
    cells = [
        ["bits per byte", f"{found['bits_per_byte']:.4f}"],
        ["of these for the pieces", f"{found['piece_bits_per_byte']:.4f}"],
        ["of these for their numbers", f"{found['count_bits_per_byte']:.4f}"],
        ["hidden words right", f"{100 * found['word_accuracy']:.1f} %"],
        ["hidden pieces right", f"{100 * found['piece_accuracy']:.1f} %"],
        ["hidden words", f"{found['hidden_words']:,}"],
        ["unknown pieces among the hidden", f"{found['unknown_pieces']:,}"],
    ]
    return rows("held-out text, 15 % of the words hidden | value", cells)


def _minimal_pairs(found: Mapping[str, Any]) -> list[str]:
    cells = [["overall", f"{found['overall']:.1f}"]]
    cells += [[k, f"{v:.1f}"] for k, v in found["fields"].items()]
    cells += [[k, f"{v:.1f}"] for k, v in found["phenomena"].items()]
    pairs = f"{found['pairs']:,} minimal pairs, {found['ties']:,} ties"
    return rows(f"{pairs} | % right", cells)


def _finetuning(found: Mapping[str, Any]) -> list[str]:
    cells = [
        [
            name,
            task["metric"],
            f"{task['majority']:.1f}",
            finetuning.describe(task["random"]),
            finetuning.describe(task["pretrained"]),
            describe(task["difference"]) if "difference" in task else "–",
        ]
        for name, task in found["tasks"].items()
    ]
    if "mean_difference" in found:
        mean = describe(found["mean_difference"])
        cells.append(["mean", "", "", "", "", mean])
    return rows(
        "task | metric | majority | random weights | pretrained | difference",
        cells,
    )
