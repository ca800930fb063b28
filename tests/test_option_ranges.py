"""Every number among the options has a lowest and a highest value."""

import dataclasses
import math
import re
import typing

import pytest

from albert_tf.common import errors
from tests.test_option_names import OPTIONS, options_class


def classes_inside(outer):
    yield outer
    for hint in typing.get_type_hints(outer).values():
        if dataclasses.is_dataclass(hint):
            yield from classes_inside(hint)


CLASSES = dict.fromkeys(
    inner for where in OPTIONS for inner in classes_inside(options_class(where))
)


def fields_with_types():
    """Each option of each class, its type, and whether it is restricted."""
    for found in CLASSES:
        hints = typing.get_type_hints(found)
        for field in dataclasses.fields(found):
            if "help" in field.metadata:
                yield found, field, hints[field.name]


def refused(found, field, value):
    """Make an object with this value; the others have defaults, or a text."""
    values = {
        other.name: "x"
        for other in dataclasses.fields(found)
        if other.default is other.default_factory is dataclasses.MISSING
    }
    for other in dataclasses.fields(found):
        if other.name in values and other.metadata.get("choices"):
            values[other.name] = other.metadata["choices"][0]
    with pytest.raises(errors.UserError) as error:
        found(**{**values, field.name: value})
    return str(error.value)


def test_numbers_beyond_their_range_are_refused():
    tried = 0
    for found, field, hint in fields_with_types():
        if hint not in (int, float, int | None, float | None):
            continue
        within, is_whole = field.metadata["within"], hint in (int, int | None)
        assert (within.low is None) != (within.above is None)
        assert (within.high is None) != (within.below is None)
        lowest = within.low - 1 if within.above is None else within.above
        highest = within.high + 1 if within.below is None else within.below
        values = [lowest, highest, math.nan, math.inf, -math.inf]
        for value in [*values, True, "3", [3], *([1.5] if is_whole else [])]:
            said = refused(found, field, value)
            assert said.startswith(f"`{field.name}={value!r}` is "), said
            assert re.search(rf" number {re.escape(str(within))}\.$", said)
        if hint in (int, float):
            assert refused(found, field, None)
        tried += 1
    assert tried > 80


def test_other_values_than_the_choices_are_refused():
    tried = 0
    for found, field, hint in fields_with_types():
        if choices := field.metadata["choices"]:
            name = field.name.removesuffix("_")
            for value in ("", f"{choices[0]} ", 3):
                said = refused(found, field, value)
                assert said.startswith(f"`{name}={value}` is not allowed."), (
                    said
                )
            assert hint == str | None or refused(found, field, None)
            tried += 1
    assert tried > 15
