"""Every number among the options has a lowest and a highest value."""

import dataclasses
import importlib
import math
import re
import typing

import pytest

from albert_tf.common import errors
from tests.test_option_names import OPTIONS


def classes_inside(options_class):
    yield options_class
    for hint in typing.get_type_hints(options_class).values():
        if dataclasses.is_dataclass(hint):
            yield from classes_inside(hint)


def all_classes():
    for where in OPTIONS:
        module, name = where.split(":")
        yield from classes_inside(
            getattr(importlib.import_module(module), name)
        )


def numbers_of(options_class):
    hints = typing.get_type_hints(options_class)
    for field in dataclasses.fields(options_class):
        if hints[field.name] in (int, float, int | None, float | None):
            is_whole = hints[field.name] in (int, int | None)
            yield options_class, field, is_whole


NUMBERS = [
    pytest.param(*number, id=f"{number[0].__name__}.{number[1].name}")
    for options_class in dict.fromkeys(all_classes())
    for number in numbers_of(options_class)
]


def make(options_class, **values):
    """Give every other option its default, or a text where it has none."""
    required = {
        field.name: "x"
        for field in dataclasses.fields(options_class)
        if field.default is field.default_factory is dataclasses.MISSING
    }
    return options_class(**{**required, **values})


def test_the_table_has_numbers():
    assert len(NUMBERS) > 80


@pytest.mark.parametrize(("options_class", "field", "is_whole"), NUMBERS)
def test_numbers_beyond_their_range_are_refused(options_class, field, is_whole):
    within = field.metadata["within"]
    assert (within.low is None) != (within.above is None)
    assert (within.high is None) != (within.below is None)
    lowest = within.low - 1 if within.above is None else within.above
    highest = within.high + 1 if within.below is None else within.below
    odd = [math.nan, math.inf, -math.inf, True, "3", [3]]
    for value in [lowest, highest, *odd, *([1.5] if is_whole else [])]:
        named = f"`{field.name}={value!r}` is "
        with pytest.raises(errors.UserError, match=re.escape(named)) as error:
            make(options_class, **{field.name: value})
        assert str(error.value).endswith(f" number {within}.")


@pytest.mark.parametrize(("options_class", "field", "is_whole"), NUMBERS)
def test_defaults_are_in_their_range(options_class, field, is_whole):
    if field.default is not None:
        within = field.metadata["within"]
        assert not within.complaint(field.default, whole=is_whole)
