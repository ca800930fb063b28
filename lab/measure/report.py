"""The file of a measure, part by part, and its table."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf.common import errors, files, strict_json
from lab.measure import finetuning

FILE_NAME = "measure.json"
TABLE_NAME = "measure.md"
_DAMAGED = "Delete the file, and measure again."


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


def write(folder: str, parts: Mapping[str, Any]) -> None:
    """Write `measure.md` and, last, `measure.json`."""
    text = strict_json.dumps({"parts": parts}, indent=2) + "\n"
    contents = {FILE_NAME: text, TABLE_NAME: to_markdown(parts)}
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
