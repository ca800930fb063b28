"""Files of a GLUE task to examples.

Source: the original's classifier_utils (processors).
"""

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

from absl import logging

from albert_tf.common import errors, files, rows
from albert_tf.finetuning.packing import TextExample
from albert_tf.tasks.glue import specs

# Columns of labels, in lower case, in files that may be taken for unlabelled.
_LABEL_COLUMNS = ("label", "quality")


def read(
    spec: specs.TaskSpec, name: str, path: str, split: str
) -> Iterator[TextExample]:
    columns = spec.splits.get(split)
    if columns is None:
        raise errors.UserError(
            f"The task {name} has no {split} split. It has "
            f"{', '.join(spec.splits)}."
        )
    if not files.exists(path):
        raise errors.UserError(
            f"`data_dir={path.removesuffix(columns.file).rstrip('/')}` has no "
            f"{columns.file}. Add this file, leave out what needs it, or give "
            "the folder that holds it."
        )
    short = []
    for number, (where, fields) in enumerate(rows.read_rows(path), 1):
        if number <= columns.header:
            _check_header(spec, fields, columns, where)
            if columns.columns:
                columns = _by_name(columns, fields, where)
            else:
                _compare_headers(spec, path, fields, columns)
            continue
        if columns.skip_short and len(fields) < columns.count:
            short.append(number)
            continue
        yield _parse(spec, fields, columns, where, f"{split}-{number}")
    if short:
        logging.warning(
            "%s: left out %d row(s) with fewer than %d columns, lines %s",
            path,
            len(short),
            columns.count,
            ", ".join(map(str, short[:20])) + " ..." * (len(short) > 20),
        )


def _check_header(
    spec: specs.TaskSpec, fields: list[str], columns: specs.Split, where: str
) -> None:
    """Refuse a first row that is no header, or that of other rows.

    A labelled file may have been given as the test file: in SST-2 and MRPC
    both have the same number of columns.
    """
    _check_count(fields, columns, where)
    column = 0 if columns.label is None else columns.label
    value = fields[column].strip()
    if columns.label is None:
        is_value = value.isdecimal()  # An index.
    elif spec.is_regression:
        is_value = not math.isnan(rows.to_number(value))
    else:
        is_value = value in spec.labels
    if is_value:
        raise errors.UserError(
            f"{where}: column {column + 1} holds {value!r}, so this is an "
            "example and the header is missing. Put a row with the names "
            f"of the {columns.count} columns before it."
        )
    if columns.label is not None:
        return
    counts = [s.count for s in spec.splits.values() if s.label is not None]
    for name in map(str.strip, fields):
        if columns.count in counts and name.lower() in _LABEL_COLUMNS:
            raise errors.UserError(
                f"{where}: the column {name!r} holds labels, and this file "
                "is to be predicted. Give the official test file."
            )


def _by_name(
    columns: specs.Split, fields: list[str], where: str
) -> specs.Split:
    """Find the columns in a header, whose order may not be the official one."""
    names = [name.strip().lower() for name in fields]
    indices: dict[str, Any] = {}
    for role, column in columns.roles.items():
        name = columns.columns[column]
        if names.count(name.lower()) != 1:
            raise errors.UserError(
                f"{where} must name the columns; {name!r} is there "
                f"{names.count(name.lower())} times: {', '.join(fields)}. If "
                "this is an example, put the official header before it: "
                f"{', '.join(columns.columns)}."
            )
        indices[role] = names.index(name.lower())
    id_name = columns.columns[columns.id_column].lower()
    others = [i for i in range(len(names)) if i not in indices.values()]
    at = names.index(id_name) if id_name in names else (others or [0])[0]
    return dataclasses.replace(columns, id_column=at, **indices)


def _compare_headers(
    spec: specs.TaskSpec, path: str, fields: list[str], columns: specs.Split
) -> None:
    """Refuse an own task's first row that names what no other file names."""
    folder = path.removesuffix(columns.file)
    for other in spec.splits.values():
        there = folder + other.file
        if folder == path or there == path or not other.header:
            continue
        if not files.exists(there):
            continue
        where, names = next(rows.read_rows(there), ("", []))
        _check_count(names, other, where or there)
        for role in columns.roles.keys() & other.roles.keys():
            pair = fields[columns.roles[role]], names[other.roles[role]]
            if pair[0].strip().lower() != pair[1].strip().lower():
                raise errors.UserError(
                    f"{path} and {there}: the first rows must give the same "
                    f"name to {role}, but have {pair[0]!r} and {pair[1]!r}. "
                    "Put the names of the columns into the first row of both, "
                    "in the order that their `Split` says."
                )
        return
    logging.info(
        "%s: the first row is taken for the names of columns: %s",
        path,
        ", ".join(fields),
    )


def _parse(
    spec: specs.TaskSpec,
    fields: list[str],
    columns: specs.Split,
    where: str,
    guid: str,
) -> TextExample:
    _check_count(fields, columns, where)
    label: float | None = None
    written = "" if columns.label is None else fields[columns.label].strip()
    if columns.label is None:
        guid = fields[columns.id_column]
    elif spec.is_regression:
        label = rows.to_number(written)
        lowest, highest = spec.bounds
        if not lowest <= label <= highest:
            raise errors.UserError(
                f"{where}: the label {written!r} is not a number from "
                f"{lowest:g} to {highest:g}, the bounds of the task. Correct "
                "the row."
            )
    elif written in spec.labels:
        label = spec.labels.index(written)
    else:
        raise errors.UserError(
            f"{where}: the label {written!r} is not one of "
            f"{', '.join(spec.labels)}. Correct the row."
        )
    second = [] if columns.text_b is None else [fields[columns.text_b]]
    return TextExample(guid, (fields[columns.text_a], *second), label)


def _check_count(fields: list[str], columns: specs.Split, where: str) -> None:
    if len(fields) != columns.count:
        raise errors.UserError(
            f"{where}: {len(fields)} columns instead of {columns.count}. "
            "Columns are separated by one tab each; texts may not hold tabs."
        )
