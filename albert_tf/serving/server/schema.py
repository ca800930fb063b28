"""What a request must hold, as its signature says."""

import base64
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
import pydantic
import tensorflow as tf
import typing_extensions

from albert_tf.common import errors, strict_json

Specs = Mapping[str, tf.TensorSpec]
Row = Mapping[str, Any]  # A value for each input.


def _decode(value: Any) -> Any:
    """Return a text that is written as TensorFlow Serving writes bytes."""
    written = isinstance(value, dict) and len(value) == 1 and value.get("b64")
    if isinstance(written, str):
        return base64.b64decode(written, validate=True).decode()
    return value


# Of one text or number.
_TYPES: Mapping[tf.DType, Any] = {
    tf.string: Annotated[str, pydantic.BeforeValidator(_decode)],
    tf.int32: Annotated[int, pydantic.Field(ge=-(2**31), lt=2**31)],
    tf.int64: Annotated[int, pydantic.Field(ge=-(2**63), lt=2**63)],
    tf.float32: pydantic.FiniteFloat,
    tf.bool: bool,
}
# Inputs of 0 and 1; the first has a 1 in each row.
_MASKS = ("input_mask", "p_mask")


def can_be_asked(specs: Specs) -> bool:
    return bool(specs) and all(
        spec.dtype in _TYPES and spec.shape.rank and spec.shape[0] is None
        for spec in specs.values()
    )


def rows_type(specs: Specs, most: int) -> Any:
    """Return the type of a list of at most so many `Row`s."""
    fields: dict[str, Any] = {}
    for name, spec in specs.items():
        value = _TYPES[spec.dtype]
        if name in _MASKS:
            value = Annotated[int, pydantic.Field(ge=0, le=1)]
        for size in reversed(spec.shape[1:]):
            value = _list(value, size, size)
        fields[name] = value
    row = typing_extensions.TypedDict("Row", fields)  # type: ignore
    config = pydantic.ConfigDict(extra="forbid", strict=True)
    setattr(row, "__pydantic_config__", config)  # noqa: B010 - for mypy.
    return _list(row, 1, most)


def _list(element: Any, least: int | None, most: int | None) -> Any:
    """Return the type of a list; only its first error is looked for.

    A request could have so many that the server stands still meanwhile.
    """
    length = pydantic.Field(min_length=least, max_length=most)
    return Annotated[list[element], length, pydantic.FailFast()]


def rows_of_instances(instances: Any, specs: Specs) -> Any:
    """Write out the rows of TensorFlow Serving's row format.

    Example:
        rows_of_instances(["a"], {"text": ...}) = [{"text": "a"}]
    """
    if len(specs) > 1 or not isinstance(instances, list):
        return instances
    return [
        row
        if isinstance(row, dict) and row.keys() != {"b64"}
        else dict.fromkeys(specs, row)
        for row in instances
    ]


def rows_of_columns(columns: Any, specs: Specs) -> list[Row]:
    """Return the rows of TensorFlow Serving's column format.

    Example:
        rows_of_columns({"text": ["a", "b"]}, ...) =
            [{"text": "a"}, {"text": "b"}]
    """
    if not isinstance(columns, dict) and len(specs) == 1:
        columns = dict.fromkeys(specs, columns)
    lists: list[Any] = [None]
    if isinstance(columns, dict):
        lists = list(columns.values())
    if not all(isinstance(column, list) for column in lists):
        raise errors.UserError(
            f"'inputs' is {strict_json.brief(columns)}; it must be an object "
            f"with a list for each of {', '.join(specs)}."
        )
    if len({len(column) for column in lists}) != 1:
        raise errors.UserError(
            "'inputs' has lists of different lengths. Give as many of each."
        )
    values = zip(*lists, strict=True)
    return [dict(zip(columns, row, strict=True)) for row in values]


def arrays(rows: Sequence[Row], specs: Specs) -> dict[str, np.ndarray]:
    """Return arrays [rows, ...]; texts are objects."""
    columns = {}
    for name, spec in specs.items():
        kind = "O" if spec.dtype == tf.string else spec.dtype.as_numpy_dtype
        try:
            columns[name] = np.array([row[name] for row in rows], kind)
        except ValueError:
            columns[name] = np.array(None)
        if columns[name].ndim != spec.shape.rank:
            raise errors.UserError(
                f"{name!r} has lists of different lengths. Pad those of one "
                "request to the same length."
            )
        flat = columns[name].reshape(len(rows), -1)
        if name == _MASKS[0] and not flat.any(1).all():
            raise errors.UserError(f"{name!r} has a row without a 1.")
    return columns


def explain(error: pydantic.ValidationError) -> str:
    """Return what is wrong first.

    Example:
        "row 1, text: Input should be a valid string"
    """
    first = error.errors(include_url=False)[0]
    number, *names = first["loc"] or ("",)
    place = [f"row {number + 1}" if isinstance(number, int) else "", *names]
    where = ", ".join(str(name) for name in place if name != "")
    return f"{where or 'the request'}: {first['msg']}"
