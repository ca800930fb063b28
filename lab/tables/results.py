"""The table of a plan, as Markdown and CSV, and its curves."""

import csv
import fnmatch
import functools
import io
import math
import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from albert_tf.common import files
from albert_tf.training import run_log
from lab.measure import cost, paired, report
from lab.tables import plan

_HEAD = "row | median | lowest | highest | minus base (95 %) | seeds | paper"
_AXES = {"steps": "updates", "minutes": "minutes", "flops": "FLOPs"}
Cells = Sequence[plan.Cell]


def is_done(output_dir: str, task: plan.Task) -> bool:
    """Return whether a command has ended well: its stamp is there."""
    return os.path.exists(f"{output_dir}/{task.name}.json")


def last_line(output_dir: str, task: plan.Task) -> str:
    """Return the last line that a command has printed."""
    path = f"{output_dir}/{task.name}.log"
    if not os.path.exists(path):
        return "not run"
    lines = files.read_bytes(path).decode(errors="replace").split("\n")
    return next((x.strip() for x in reversed(lines) if x.strip()), "no output")


@functools.cache
def numbers(folder: str) -> dict[str, float]:
    """Return all numbers that a command has left in its folder.

    Those of eval_results.txt by their names, the number of parameters from
    the log of a run, and those of a measure: `held_out.bits_per_byte`.
    """
    found: dict[str, float] = {}
    path = os.path.join(folder, "eval_results.txt")
    if os.path.exists(path):
        for line in files.read_bytes(path).decode().splitlines():
            name, _, value = line.partition(" = ")
            found[name] = float(value)
    for facts in run_log.read(folder):
        if "parameters" in facts:
            found["parameters"] = facts["parameters"]
    for name, part in report.read(folder).items():
        found |= _flat(name, part["results"])
    return found


def _flat(name: str, value: Any) -> dict[str, float]:
    if isinstance(value, Mapping):
        parts = [_flat(f"{name}.{key}", x) for key, x in value.items()]
        return {key: x for part in parts for key, x in part.items()}
    return {name: value} if isinstance(value, (int, float)) else {}


def _measured(
    column: plan.Column, cells: Cells, output_dir: str
) -> dict[tuple[str, int], float]:
    """Return the number of each cell that has it, by row and seed."""
    found = {}
    for cell in cells:
        task = cell.tasks[column.step]
        if is_done(output_dir, task):
            known = numbers(os.path.join(output_dir, task.name))
            if names := fnmatch.filter(known, column.key):
                mean = statistics.fmean(known[name] for name in names)
                if math.isfinite(mean):
                    found[cell.row, cell.seed] = column.scale * mean
    return found


def compare(
    column: plan.Column, chosen: plan.Plan, cells: Cells, output_dir: str
) -> Iterator[dict[str, Any]]:
    """Yield median, spread, difference and the paper's number of each row."""
    found = _measured(column, cells, output_dir)
    for cell in cells[:: len(chosen.seeds)]:
        base = ", ".join({**cell.place, **chosen.base}.values())
        values = [found[key] for key in found if key[0] == cell.row]
        pairs = [
            found[cell.row, seed] - found[base, seed]
            for seed in chosen.seeds
            if base != cell.row
            and {(cell.row, seed), (base, seed)} <= found.keys()
        ]
        difference = vars(paired.interval([pairs])) if pairs else {}
        yield {
            "row": cell.row,
            "median": statistics.median(values) if values else None,
            "lowest": min(values, default=None),
            "highest": max(values, default=None),
            **{key: difference.get(key) for key in ("mean", "low", "high")},
            "seeds": len(values),
            "paper": column.paper.get(cell.row),
        }


def _markdown(title: str, lines: Sequence[Mapping[str, Any]]) -> str:
    def shown(value: float | None, sign: str = "") -> str:
        if value is None:
            return "–"
        return f"{value:{sign}{',.0f' if abs(value) >= 1000 else '.4g'}}"

    table = []
    for line in lines:
        mean, low, high = (shown(line[x], "+") for x in ("mean", "low", "high"))
        table.append(
            [
                line["row"],
                *(shown(line[key]) for key in ("median", "lowest", "highest")),
                mean if low == "–" else f"{mean} ({low} to {high})",
                str(line["seeds"]),
                shown(line["paper"]),
            ]
        )
    return "\n".join([f"## {title}\n", *report.rows(_HEAD, table)]) + "\n"


def _holes(cells: Cells, output_dir: str) -> Iterator[str]:
    for cell in cells:
        for task in cell.tasks.values():
            if not is_done(output_dir, task):
                last = last_line(output_dir, task)
                yield f"- {cell.row}, seed {cell.seed}: {task.name}: {last}"
                break


def _unmatched(
    columns: Mapping[str, plan.Column], cells: Cells, output_dir: str
) -> Iterator[str]:
    """Yield columns whose key is none of the numbers that are there."""
    for title, column in columns.items():
        tasks = [cell.tasks[column.step] for cell in cells]
        done = [task for task in tasks if is_done(output_dir, task)]
        folders = [os.path.join(output_dir, task.name) for task in done]
        known = {name for folder in folders for name in numbers(folder)}
        if done and not fnmatch.filter(known, column.key):
            there = f"There are {', '.join(sorted(known)) or 'none'}."
            yield f"- {title}: no {column.key!r} in {column.step}. {there}"


def write(
    chosen: plan.Plan, cells: Cells, output_dir: str, folder: str
) -> None:
    """Write table.md, table.csv and curves.png."""
    tables = {
        title: list(compare(column, chosen, cells, output_dir))
        for title, column in chosen.columns.items()
    }
    text = [
        f"# {chosen.title}\n\n{chosen.note}\n",
        "The models of the paper are larger and were trained for longer: "
        "compare the order of the rows with it, not the numbers. Base: "
        + (", ".join(f"{k} {v}" for k, v in chosen.base.items()) or "none")
        + ".\n",
    ]
    for title, lines in tables.items():
        if any(line["seeds"] for line in lines):
            text.append(_markdown(title, lines))
    holes = list(_holes(cells, output_dir))
    holes += _unmatched(chosen.columns, cells, output_dir)
    if holes:
        text.append("\n".join(["## Not there\n", *holes, ""]))
    rows = io.StringIO()
    names = ["column", *next(iter(tables.values()))[0]]
    writer = csv.DictWriter(rows, names, lineterminator="\n")
    writer.writeheader()
    for title, lines in tables.items():
        writer.writerows({"column": title, **line} for line in lines)
    contents = {"table.csv": rows.getvalue().encode()}
    if chosen.curves:
        text.append("![curves](curves.png)\n")
        contents["curves.png"] = _draw(chosen.curves, cells, output_dir)
    contents["table.md"] = "\n".join(text).encode()
    files.make_folder(folder)
    files.write_together(
        {os.path.join(folder, name): x for name, x in contents.items()}
    )


def _draw(column: plan.Column, cells: Cells, output_dir: str) -> bytes:
    """Draw evaluations over updates, minutes and FLOPs; seeds share a color.

    A finished run is drawn once, named by what its rows have in common.
    """
    import matplotlib.figure  # Slow to import.

    places: dict[str, Mapping[str, str]] = {}
    for cell in cells:
        task, place = cell.tasks[column.step], cell.place
        if is_done(output_dir, task):
            known = places.get(task.name, place).items()
            shared = {key: x for key, x in known if place[key] == x}
            places[task.name] = shared
    figure = matplotlib.figure.Figure(figsize=(15, 4.5), layout="constrained")
    panels = dict(zip(_AXES, figure.subplots(1, 3, sharey=True), strict=True))
    colors: dict[str, str] = {}
    for name, place in places.items():
        row = ", ".join(place.values()) or name
        lines = run_log.read(os.path.join(output_dir, name))
        points = [
            (cost.of_lines(lines[:end]), column.scale * line[column.key])
            for end, line in enumerate(lines)
            if line["split"] == "eval" and column.key in line
        ]
        if not points:
            continue
        label = "_" if row in colors else row  # Not in the legend.
        color = colors.setdefault(row, f"C{len(colors)}")
        for axis, panel in panels.items():
            x, y = [spent[axis] for spent, _ in points], [y for _, y in points]
            panel.plot(x, y, color=color, label=label, marker=".")
    for axis, panel in panels.items():
        panel.set_xlabel(_AXES[axis])
        panel.grid(alpha=0.3)
    panels["steps"].set_ylabel(column.key)
    panels["steps"].legend()
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=80)
    return picture.getvalue()
