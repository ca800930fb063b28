"""The mistakes of users, for people who call functions and for commands."""

import sys
import unittest.mock

import pytest

from albert_tf.common import errors
from tests.conftest import refused


@pytest.mark.parametrize(
    ("message", "flags"),
    [
        ("`a=x y` is bad.", "--a=x y is bad."),
        ("`a` is missing.", "--a is missing."),
        ("Give `a=1` or `b`.", "Give --a=1 or --b."),
        ("It is `c`, not a_b.", "It is `c`, not a_b."),
    ],
)
def test_commands_show_their_own_arguments_as_flags(message, flags):
    assert errors.as_flags(message, ["a", "b"]) == flags


def test_tensorflow_is_only_caught_where_it_is_loaded(monkeypatch):
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    assert errors.or_tensorflow(OSError) == (OSError,)
    fake = unittest.mock.MagicMock()
    monkeypatch.setitem(sys.modules, "tensorflow", fake)
    assert errors.or_tensorflow(OSError) == (OSError, fake.errors.OpError)


def test_bad_bytes_are_counted_from_1():
    assert (
        errors.bad_byte(b"caf\xe9", "the line") == "byte 4 of the line is 0xe9"
    )
    with_mark = "\ufeffa".encode() + b"\xff"
    assert (
        errors.bad_byte(with_mark, "the file") == "byte 5 of the file is 0xff"
    )


def test_an_unknown_name_is_refused_with_those_that_are_known():
    errors.require_known("color", ["red"], {"red": 1, "blue": 2})
    with refused("'green' is no color. There are blue, red."):
        errors.require_known("color", ["red", "green"], ["red", "blue"])
    with refused("There are none."):
        errors.require_known("color", ["red"], [])
