"""The table of a plan, as Markdown and CSV, and its curves."""

import csv
import fnmatch
import io
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


def stamp(output_dir: str, task: plan.Task) -> str:
    """Return the file that says that a command has ended well."""
    return os.path.join(output_dir, f"{task.name}.json")


def log(output_dir: str, task: plan.Task) -> str:
    """Return the file of what a command has printed."""
    return os.path.join(output_dir, f"{task.name}.log")


def last_line(output_dir: str, task: plan.Task) -> str:
    """Return the last line of a log."""
    path = log(output_dir, task)
    if not os.path.exists(path):
        return "not run"
    lines = files.read_bytes(path).decode(errors="replace").split("\n")
    return next((x.strip() for x in reversed(lines) if x.strip()), "no output")


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
    for line in run_log.read(folder):
        if "parameters" in line:
            found["parameters"] = line["parameters"]
    for name, part in report.read(folder).items():
        found |= _flat(name, part["results"])
    return found


def _flat(name: str, value: Any) -> dict[str, float]:
    if isinstance(value, Mapping):
        parts = [_flat(f"{name}.{key}", x) for key, x in value.items()]
        return {key: x for part in parts for key, x in part.items()}
    return {name: value} if isinstance(value, (int, float)) else {}


def measured(
    column: plan.Column, cells: Sequence[plan.Cell], output_dir: str
) -> dict[tuple[str, int], float]:
    """Return the number of each cell that has it, by row and seed."""
    found = {}
    for cell in cells:
        task = cell.tasks[column.step]
        if not os.path.exists(stamp(output_dir, task)):
            continue
        known = numbers(os.path.join(output_dir, task.name))
        names = fnmatch.filter(known, column.key)
        if names:
            mean = statistics.fmean(known[name] for name in names)
            found[cell.row, cell.seed] = column.scale * mean
    return found


def lines_of(
    column: plan.Column,
    chosen: plan.Plan,
    cells: Sequence[plan.Cell],
    output_dir: str,
) -> Iterator[dict[str, Any]]:
    """Yield the line of each row: median, spread, difference, paper."""
    found = measured(column, cells, output_dir)
    for cell in cells[:: len(chosen.seeds)]:
        base = ", ".join({**cell.place, **chosen.base}.values())
        values = [found[k] for k in found if k[0] == cell.row]
        pairs = [
            found[cell.row, seed] - found[base, seed]
            for seed in chosen.seeds
            if {(cell.row, seed), (base, seed)} <= found.keys()
        ]
        is_compared = chosen.base and base != cell.row and pairs
        difference = paired.interval([pairs]) if is_compared else None
        yield {
            "row": cell.row,
            "median": statistics.median(values) if values else None,
            "lowest": min(values, default=None),
            "highest": max(values, default=None),
            "difference": difference.mean if difference else None,
            "low": difference.low if difference else None,
            "high": difference.high if difference else None,
            "seeds": len(values),
            "paper": column.paper.get(cell.row),
        }


def _shown(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _markdown(title: str, lines: Sequence[Mapping[str, Any]]) -> str:
    table = [
        [
            line["row"],
            *(_shown(line[key]) for key in ("median", "lowest", "highest")),
            "–"
            if line["difference"] is None
            else report.describe({**line, "mean": line["difference"]}),
            str(line["seeds"]),
            _shown(line["paper"]),
        ]
        for line in lines
    ]
    return "\n".join([f"## {title}\n", *report.rows(_HEAD, table)]) + "\n"


def _holes(cells: Sequence[plan.Cell], output_dir: str) -> Iterator[str]:
    for cell in cells:
        for task in cell.tasks.values():
            if not os.path.exists(stamp(output_dir, task)):
                last = last_line(output_dir, task)
                yield f"- {cell.row}, seed {cell.seed}: {task.name}: {last}"
                break


def write(
    chosen: plan.Plan, cells: Sequence[plan.Cell], output_dir: str, folder: str
) -> str:
    """Write table.md, table.csv and curves.png; return the first's path."""
    files.make_folder(folder)
    tables = {
        title: list(lines_of(column, chosen, cells, output_dir))
        for title, column in chosen.columns.items()
    }
    text = [
        f"# {chosen.title}\n\n{chosen.note}\n",
        "The models of the paper are larger and trained for longer: compare "
        "the order of rows with it, not the numbers. Base: "
        f"{', '.join(chosen.base.values()) or 'none'}.\n",
        *(_markdown(title, lines) for title, lines in tables.items()),
    ]
    holes = list(_holes(cells, output_dir))
    if holes:
        text.append("\n".join(["## Not there\n", *holes]) + "\n")
    if chosen.curves:
        text.append("![curves](curves.png)\n")
        picture = io.BytesIO()
        _draw(chosen.curves, cells, output_dir).savefig(picture, dpi=80)
        curves = os.path.join(folder, "curves.png")
        with files.replace_atomically(curves, through_link=False) as stream:
            stream.write(picture.getvalue())
    rows = io.StringIO()
    names = ["column", *next(iter(tables.values()))[0]]
    writer = csv.DictWriter(rows, names, lineterminator="\n")
    writer.writeheader()
    for title, lines in tables.items():
        writer.writerows({"column": title, **line} for line in lines)
    files.write_text(os.path.join(folder, "table.csv"), rows.getvalue())
    path = os.path.join(folder, "table.md")
    files.write_text(path, "\n".join(text))
    return path


def _draw(
    column: plan.Column, cells: Sequence[plan.Cell], output_dir: str
) -> Any:
    """Draw evaluations over updates, minutes and FLOPs; seeds share a color."""
    import matplotlib.figure  # Slow to import.

    figure = matplotlib.figure.Figure(figsize=(15, 4.5), layout="constrained")
    colors = {row: f"C{n}" for n, row in enumerate({c.row: 0 for c in cells})}
    panels = dict(zip(_AXES, figure.subplots(1, 3, sharey=True), strict=True))
    named: set[str] = set()
    for cell in cells:
        task = cell.tasks[column.step]
        lines = run_log.read(os.path.join(output_dir, task.name))
        points = [
            (cost.of_lines(lines[:end]), column.scale * line[column.key])
            for end, line in enumerate(lines)
            if line["split"] == "eval" and column.key in line
        ]
        for name, panel in panels.items():
            panel.plot(
                [spent[name] for spent, _ in points],
                [value for _, value in points],
                color=colors[cell.row],
                label="" if cell.row in named else cell.row,
            )
        named.add(cell.row)
    for name, panel in panels.items():
        panel.set_xlabel(_AXES[name])
        panel.grid(alpha=0.3)
    panels["steps"].set_ylabel(column.key)
    panels["steps"].legend()
    return figure
