"""JSON, strictly: what is refused, and that what is written can be read."""

import ast
import json
import math
import sys

import pytest

from albert_tf.common import strict_json
from tests.conftest import ROOT, refused

BAD = {
    b"": "Input is a zero-length, empty document: line 1 column 1",
    b'{"a": 1} x': "unexpected content .* line 1 column 10",
    b'{"a": 1,\n "b"': "line 2 column 5",
    b'"caf\xe9"': "byte 5 of the text is 0xe9, which is not UTF-8",
    "{}".encode("utf-16"): "byte 1 of the text is 0xff, which is not UTF-8",
    b"[1, NaN]": "unexpected character.*line 1 column 5",
    b"-Infinity": "no digit after sign: line 1 column 2",
    b"9" * 400: "number is infinity",
    b"-1e999": "number is infinity",
    b"[" * 100_000: "depth limit",
    b'{"a":' * 101 + b"1" + b"}" * 101: "nested too deeply, in more than 100",
    b"[" * 50 + b'{"a":[[],' * 25 + b"[]" + b"]}" * 25 + b"]" * 50: "deeply",
    rb'"\ud83d"': "low surrogate in string: line 1 column 2",
    rb'{"a":' + b"\n" + rb'{"\uDE00": 1}}': "surrogate .*line 2 column 3",
    rb'"\\\ud83d"': "surrogate",
    '"\ud83d"': "surrogate",
    b'{"a": 1, "a": 2}': 'an object has the key "a" twice',
    b'[{"b": {"a": ":", "c":1, "\\u0061" : []}}]': '"a" twice',
}
NESTED = {"a": {"b": ":", "a": 'b":'}, "b": [{}]}


@pytest.mark.parametrize("text", BAD, ids=lambda text: repr(text[:12]))
def test_what_is_refused(text):
    with pytest.raises(strict_json.JsonError, match=BAD[text]):
        strict_json.loads(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'\xef\xbb\xbf{"a": [1, true]}', {"a": [1, True]}),
        (rb'"\ud83d\ude00 \uD83D\uDE00"', "\U0001f600 \U0001f600"),
        (rb'"\\ud83d"', "\\ud83d"),
        ('"\U0001f600"'.encode(), "\U0001f600"),
        (b'{"a": {"b": ":", "a": "b\\":"}, "b": [{}]}', NESTED),
        (b"[" * 100 + b"]" * 100, json.loads("[" * 100 + "]" * 100)),
        (b"[" + b"[]," * 999 + b"[]]", [[]] * 1000),
        (b'{"id": 123456789012345678901}', {"id": 123456789012345678901}),
        (b"[-9223372036854775809]", [-(2**63) - 1]),
        (b"12345678901234567890.5", 12345678901234567890.5),
        (b"1e308", 1e308),
        (b"0.1", 0.1),
    ],
)
def test_what_is_taken(text, value):
    assert strict_json.loads(text) == value


def test_depth_does_not_depend_on_the_caller():
    text = "[" * 100 + "]" * 100

    def deeper(levels):
        return deeper(levels - 1) if levels else strict_json.loads(text)

    assert deeper(sys.getrecursionlimit() // 2) == strict_json.loads(text)


def test_halves_are_replaced_where_that_is_wanted():
    text = r'{"a\ude00": "x\ud83d \ud83d\ude00 \\ud83d \\\ud83d"}' + "\udc00"
    assert strict_json.replace_lone_surrogates(text) == (
        '{"a\ufffd": "x\ufffd \\ud83d\\ude00 \\\\ud83d \\\\\ufffd"}\ufffd'
    )


def test_file_is_named(tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(b"\xff")
    with refused(r"a.json is not JSON: .*Mend\."):
        strict_json.read(str(path), "Mend.")
    with refused(r"^--x=y is not JSON: "):
        strict_json.read(str(path), "Mend.", "--x=y")
    path.write_text("[1, 2]")
    assert strict_json.read(str(path), "Mend.") == [1, 2]
    for what, named in ((None, "a.json"), ("--x=y", "^--x=y")):
        words = rf"{named} holds \[1, 2\], which is not a JSON object. Mend\.$"
        with refused(words):
            strict_json.read_object(str(path), "Mend.", what)


def test_what_is_written_can_be_read():
    value = {
        "numbers": [math.nan, (1.5, math.inf), -math.inf, 1],
        "text \ud83d \U0001f600 \\ud83d": None,
    }
    for ensure_ascii in (True, False):
        text = strict_json.dumps(value, ensure_ascii=ensure_ascii)
        assert strict_json.loads(text.encode()) == {
            "numbers": [None, [1.5, None], None, 1],
            "text \ufffd \U0001f600 \\ud83d": None,
        }


def test_layouts_are_those_of_json():
    value = {"b": [1, 2.5], "a": "\u00e9"}
    for layout in (
        {},
        {"indent": 2, "sort_keys": True},
        {"ensure_ascii": False},
    ):
        assert strict_json.dumps(value, **layout) == json.dumps(value, **layout)


def test_messages_show_the_beginning():
    assert strict_json.brief([math.nan]) == "[null]"
    assert len(strict_json.brief("a" * 100)) == 60


def test_no_other_module_uses_json():
    users = set()
    for package in ("albert_tf", "data_prep"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if not isinstance(node, (ast.Import, ast.ImportFrom)):
                    continue
                names = [alias.name for alias in node.names]
                if {"json", "orjson"} & {*names, getattr(node, "module", "")}:
                    users.add(path.name)
    # answer.py is copied into exports, where this package is not;
    # tables.py hands on bytes that are not UTF-8, to be reported; app.py
    # writes null for numbers that are not finite.
    assert users == {
        "strict_json.py",
        "answer.py",
        "tables.py",
        "app.py",
    }
