"""A plan: the cells of a table, and the commands that each needs.

README.md describes the file. A step is one command. The folder of its results
is named by a hash of the command, of the files that it names and, because it
names the folders of the steps that it reads, of all commands before it. So what
several cells or plans have in common is done once, and a changed command begins
anew, with all that reads its results.
"""

import dataclasses
import functools
import hashlib
import itertools
import math
import os
import re
import shlex
import string
import tomllib
from collections.abc import Mapping
from typing import Any

import pydantic

from albert_tf.common import errors, files, strict_json
from albert_tf.model.config import AlbertConfig

# Names that no step, axis or value can have.
_RESERVED = {"config", "tables", "seed", "output_dir", "corpus_dir", "data_dir"}


@dataclasses.dataclass(frozen=True)
class Task:
    """A command, once for all cells that need it.

    Attributes:
        name: Step and hash: the place of its results, below the output folder.
        words: The command's module and options.
        needs: Names of the tasks whose results it reads.
        minutes: How long it is expected to take.
        config: The architecture that it reads, if any.
    """

    name: str
    words: tuple[str, ...]
    needs: tuple[str, ...]
    minutes: float
    config: AlbertConfig | None


@dataclasses.dataclass(frozen=True)
class Cell:
    """A place in the table: a value on each axis, and a seed."""

    place: Mapping[str, str]
    seed: int
    tasks: Mapping[str, Task]  # By step.

    @property
    def row(self) -> str:
        """The name of the table's row, which seeds share."""
        return ", ".join(self.place.values())


class _Strict(pydantic.BaseModel, extra="forbid", strict=True, frozen=True):
    """Refuses unknown keys and values of another type."""


class Column(_Strict):
    """What a step measures: the mean of all numbers that `key` matches."""

    step: str
    key: str
    scale: float = 1
    paper: dict[str, float] = {}


class Change(_Strict, extra="allow"):
    """What a value of an axis changes; further keys are options of steps."""

    config: dict[str, Any] = {}
    budget: dict[str, float] = {}  # Factors.
    __pydantic_extra__: dict[str, str]


class Plan(_Strict):
    """A plan file, with what it extends."""

    title: str
    note: str = ""
    config: dict[str, Any] = {}
    seeds: list[int]
    budget: dict[str, float] = {}
    values: dict[str, str | int | float] = {}
    steps: dict[str, str]
    axes: dict[str, dict[str, Change]]
    base: dict[str, str] = {}
    columns: dict[str, Column] = pydantic.Field(min_length=1)
    curves: Column | None = None
    sizes: dict[str, dict[str, Any]] = {}

    def check(self) -> None:
        """Refuse names that are nowhere else in the plan."""
        wrong = [x for x in self.steps if not re.fullmatch(r"[a-z_]+", x)]
        wrong += sorted(_RESERVED & {*self.steps, *self.axes, *self.values})
        wrong += sorted(self.steps.keys() & {*self.axes, *self.values})
        if wrong:
            raise errors.UserError(
                f"{wrong[0]!r} cannot be the name of a step, or of an axis or "
                "value beside it. Give another one, of small letters."
            )
        for axis, values in self.axes.items():
            for value, change in values.items():
                allowed = {"config", "budget", *self.steps}
                where = f"key of axes.{axis}.{value}"
                errors.require_known(where, change.model_extra, allowed)
                errors.require_known(
                    f"{where}.budget", change.budget, self.steps
                )
        errors.require_known("key of budget", self.budget, self.steps)
        errors.require_known("axis", self.base, self.axes)
        for axis, value in self.base.items():
            errors.require_known(
                f"value of axes.{axis}", [value], self.axes[axis]
            )
        if (
            len({*self.seeds}) < len(self.seeds)
            or min(self.seeds, default=0) < 0
        ):
            raise errors.UserError(
                f"seeds = {self.seeds} are not different numbers from 0 on. "
                "Give each seed once."
            )
        if not (self.seeds and self.axes and all(self.axes.values())):
            raise errors.UserError(
                "The plan has no cells. Give at least one axis with a value, "
                "and a seed."
            )
        rows = set(map(", ".join, itertools.product(*self.axes.values())))
        columns = dict(self.columns)
        if self.curves:
            columns["curves"] = self.curves
        for name, column in columns.items():
            errors.require_known(
                f"step for {name!r}", [column.step], self.steps
            )
            errors.require_known(f"row for {name!r}", column.paper, rows)

    def cells(self, places: Mapping[str, str]) -> list[Cell]:
        """Return all cells, the seeds of a row behind each other.

        Args:
            places: Paths that commands name: `output_dir` and others.
        """
        found = []
        for labels in itertools.product(*self.axes.values()):
            place = dict(zip(self.axes, labels, strict=True))
            for seed in self.seeds:
                cell = Cell(place, seed, self._tasks(place, seed, places))
                if found and (found[-1].row, found[-1].tasks) == (
                    cell.row,
                    cell.tasks,
                ):
                    raise errors.UserError(
                        f"{cell.row!r} has the same commands with each seed. "
                        "Name {seed} in a step."
                    )
                found.append(cell)
        return found

    def _tasks(
        self, place: Mapping[str, str], seed: int, places: Mapping[str, str]
    ) -> dict[str, Task]:
        changes = [self.axes[axis][value] for axis, value in place.items()]
        values = {**self.values, **place, "seed": seed}
        config = _config(
            functools.reduce(
                _merged, [change.config for change in changes], self.config
            )
        )
        tasks: dict[str, Task] = {}
        for step, command in self.steps.items():
            minutes = self.budget.get(step, 0) * math.prod(
                change.budget.get(step, 1) for change in changes
            )
            more = (change.model_extra.get(step, "") for change in changes)
            text = " ".join([command, *more])
            given = _Command(step, text, values, config, tasks)
            try:
                tasks[step] = given.task(places, minutes)
            except (ValueError, LookupError) as error:  # Of braces, names.
                raise errors.UserError(f"In step {step}: {error}") from None
        return tasks


@dataclasses.dataclass(frozen=True)
class _Command:
    """A command with names in braces."""

    step: str
    text: str
    values: Mapping[str, Any]
    config: AlbertConfig | None
    before: Mapping[str, Task]

    def task(self, places: Mapping[str, str], minutes: float) -> Task:
        own = ["config"] if self.config else []
        known = {*places, *self.values, *self.before, self.step, *own}
        parts = string.Formatter().parse(self.text)
        fields = {name for _, name, *_ in parts if name is not None}
        errors.require_known("name here", fields, known)
        for name in fields & places.keys():
            if not places[name]:
                raise errors.UserError(f"`{name}` is needed. Give it.")
        # The same wherever the places are. The files there count by content.
        general = self._words({name: name for name in places}, self.step)
        found = self._words(places, self.step, os.devnull)
        digest = hashlib.sha256()
        for word, here in zip(general, found, strict=True):
            digest.update(f"{word}\n{_content(here)}\n".encode())
        name = f"{self.step}/{digest.hexdigest()[:12]}"
        return Task(
            name,
            tuple(self._words(places, name, places["output_dir"])),
            tuple(t.name for key, t in self.before.items() if key in fields),
            minutes,
            self.config if "config" in fields else None,
        )

    def _words(
        self, places: Mapping[str, str], name: str, root: str = ""
    ) -> list[str]:
        results = {key: task.name for key, task in self.before.items()}
        results[self.step] = name
        if self.config:
            results["config"] = config_path(self.config)
        paths = {key: os.path.join(root, x) for key, x in results.items()}
        quoted = {k: shlex.quote(v) for k, v in {**places, **paths}.items()}
        return shlex.split(self.text.format(**{**self.values, **quoted}))


def config_path(config: AlbertConfig) -> str:
    """Return the place of a model's file, below the output folder."""
    digest = hashlib.sha256(config.to_json().encode()).hexdigest()
    return f"config/{digest[:12]}.json"


def _config(values: Mapping[str, Any]) -> AlbertConfig | None:
    """Return the architecture of `file` with changes, if there is any."""
    if not values:
        return None
    changes = dict(values)
    path = files.require_file(changes.pop("file", ""), "config.file")
    known = strict_json.read_object(path, "Give the file of a model.")
    return AlbertConfig.from_dict({**known, **changes}, "config")


@functools.cache
def _content(word: str) -> str:
    """Return the hash of the file that an option names, if it does."""
    path = word.partition("=")[2]
    return files.sha256(path) if os.path.isfile(path) else ""


def read(path: str, size: str) -> Plan:
    """Read a plan in a size: `default`, or one of its `sizes`."""
    content = _read(path)
    try:
        sizes = {"default": {}, **Plan(**content).sizes}
        errors.require_known("size", [size], sizes)
        plan = Plan(**_merged(content, sizes[size]))
        plan.check()
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        part, *inner = map(str, first["loc"])
        keys = f"plan are extends, {', '.join(Plan.model_fields)}"
        if inner and part in ("columns", "curves"):
            keys = f"column are {', '.join(Column.model_fields)}"
        raise errors.UserError(
            f"`plan={path}` {'.'.join([part, *inner])}: {first['msg']}. "
            f"Correct it. The keys of a {keys}."
        ) from None
    except errors.UserError as error:
        raise errors.UserError(f"`plan={path}` is wrong: {error}") from None
    return plan


def _read(path: str, inside: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the content of a file, with what it extends."""
    raw = files.read_bytes(files.require_file(path, "plan"))
    try:
        content = tomllib.loads(raw.decode())
    except ValueError as error:  # Not TOML, or not UTF-8.
        raise errors.UserError(f"`plan={path}` is not TOML: {error}.") from None
    other = content.pop("extends", None)
    if other is None:
        return content
    other = os.path.join(os.path.dirname(path), str(other))
    if os.path.realpath(other) in map(os.path.realpath, (path, *inside)):
        raise errors.UserError(f"`plan={path}` extends itself.")
    return _merged(_read(other, (*inside, path)), content)


def _merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return both tables, with the values of the second where both have one.

    Example:
        {"a": {"b": 1, "c": 2}} and {"a": {"c": 3}} give {"a": {"b": 1, "c": 3}}
    """
    found = dict(one)
    for key, value in other.items():
        is_table = isinstance(value, dict) and isinstance(found.get(key), dict)
        found[key] = _merged(found[key], value) if is_table else value
    return found
