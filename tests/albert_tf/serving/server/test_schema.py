"""What rows must be; their number and both forms: test_endpoints.py."""

import re

import numpy as np
import pydantic
import pytest
import tensorflow as tf

from albert_tf.serving.server import schema

TEXT = {"text": tf.TensorSpec([None], tf.string)}
ALL = {
    "options": tf.TensorSpec([None, 2], tf.string),
    "ids": tf.TensorSpec([None, None, 3], tf.int32),
    "large": tf.TensorSpec([None], tf.int64),
    "share": tf.TensorSpec([None], tf.float32),
    "flag": tf.TensorSpec([None], tf.bool),
}
ROW = {
    "options": ["a", ""],
    "ids": [[1, 2, 3], [4, 5, 6]],
    "large": 2**40,
    "share": 1,
    "flag": True,
}


def check(row, specs=ALL):
    adapter = pydantic.TypeAdapter(schema.rows_type(specs, 8))
    return adapter.validate_python([ROW, row])


def test_rows_become_arrays():
    found = schema.arrays(check(ROW), ALL)
    shapes = {name: array.shape for name, array in found.items()}
    assert shapes == {
        **{"options": (2, 2), "ids": (2, 2, 3)},
        **{"large": (2,), "share": (2,), "flag": (2,)},
    }
    for name, array in found.items():
        kind = object if name == "options" else ALL[name].dtype.as_numpy_dtype
        assert array.dtype == kind
        assert array[1].tolist() == ROW[name]


@pytest.mark.parametrize(
    "row",
    [{**ROW, "options": [1, 2]}, {**ROW, "ids": [[None] * 3] * 9}, 5],
)
def test_only_the_first_error_of_many_is_looked_for(row):
    adapter = pydantic.TypeAdapter(schema.rows_type(ALL, 8))
    with pytest.raises(pydantic.ValidationError) as caught:
        adapter.validate_python([row] * 8)
    assert caught.value.error_count() == 1


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("options", ["a"], "row 2, options: List should have at least 2"),
        (
            "options",
            ["a", "b", "c"],
            "row 2, options: List should have at most",
        ),
        ("options", "ab", "row 2, options: Input should be a valid list"),
        (
            "options",
            ["a", None],
            "row 2, options, 1: Input should be a valid s",
        ),
        ("ids", [[1, 2, "3"]], "row 2, ids, 0, 2: Input should be a valid int"),
        ("ids", [[1, 2, 2**31]], "row 2, ids, 0, 2: .* than 2147483648"),
        ("large", -(2**63) - 1, "row 2, large: .* than or equal to -922337203"),
        ("ids", [1], "row 2, ids, 0: Input should be a valid list"),
        ("large", 2**63, "row 2, large: .* less than 9223372036854775808"),
        ("large", True, "row 2, large: Input should be a valid integer"),
        ("large", 1.0, "row 2, large: Input should be a valid integer"),
        ("share", "1", "row 2, share: Input should be a valid number"),
        ("share", float("inf"), "row 2, share: Input should be a finite"),
        ("flag", 1, "row 2, flag: Input should be a valid boolean"),
    ],
)
def test_wrong_values_are_named(name, value, message):
    with pytest.raises(pydantic.ValidationError) as caught:
        check({**ROW, name: value})
    assert re.match(message, schema.explain(caught.value))


def test_a_list_may_be_empty():
    specs = {"ids": tf.TensorSpec([None, None], tf.int32)}
    assert schema.arrays([{"ids": []}], specs)["ids"].shape == (1, 0)


@pytest.mark.parametrize(
    ("specs", "can"),
    [
        (TEXT, True),
        (ALL, True),
        ({}, False),
        ({"x": tf.TensorSpec([], tf.int32)}, False),
        ({"x": tf.TensorSpec(None, tf.int32)}, False),
        ({"x": tf.TensorSpec([1], tf.int32)}, False),
        ({**TEXT, "x": tf.TensorSpec([None], tf.complex64)}, False),
    ],
)
def test_signatures_of_rows_can_be_asked(specs, can):
    assert schema.can_be_asked(specs) is can


def test_texts_are_whole():
    found = schema.arrays([{"text": "a\0é\U0001f600"}], TEXT)["text"]
    assert tf.constant(found).numpy()[0] == "a\0é\U0001f600".encode()
    assert isinstance(found, np.ndarray)
