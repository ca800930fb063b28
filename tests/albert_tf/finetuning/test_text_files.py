"""Rows and objects of text files, official ones and a user's own."""

import pytest

from albert_tf.common import errors
from albert_tf.finetuning import text_files


@pytest.fixture
def file(tmp_path):
    def write(content, name="own.json"):
        path = tmp_path / name
        path.write_bytes(content)
        return str(path)

    return write


def parse(where, number, values):
    """Take entries with a number `n`: so many examples of it."""
    if not isinstance(values.get("n"), int | str):
        raise errors.UserError(f"{where}: no n.")
    return [(number, values["n"])] * int(values["n"])


def own(path, **how):
    return list(text_files.read_own(path, parse, **how))


def test_an_entry_gives_any_number_of_examples(file):
    path = file(b'{"n": 2}\n\n{"n": 0}\r\n{"n": 1}\n')
    assert own(path) == [(0, 2), (0, 2), (2, 1)]


@pytest.mark.parametrize(
    "content, expected",
    [
        (b'[{"n": 1},\n {"n": 1}]', [(0, 1), (1, 1)]),
        (b'{"n":\n1}', [(0, 1)]),
        (b'\xef\xbb\xbf{"n": 1}\n{"n": 1}', [(0, 1), (1, 1)]),
        (b"", []),
        (b"\n \n", []),
        (b"[]", []),
    ],
)
def test_layouts_of_objects(file, content, expected):
    assert own(file(content)) == expected


@pytest.mark.parametrize(
    "line, key, message",
    [
        (b'{"id": 7, "n": null}', {"id": 7, "line": 2}, "line 2: no n."),
        (b'{"n": }', {"line": 2}, "line 2: this is not JSON"),
        (b"[1]", {"line": 2}, "line 2: list instead of a JSON object"),
        (
            b'{"n": "\xff"}',
            {"line": 2},
            "line 2 is not UTF-8: byte 8 of the line is 0xff",
        ),
        (b'{"n": NaN}', {"line": 2}, "line 2: this is not JSON"),
    ],
)
def test_a_bad_line_keeps_its_place(file, line, key, message):
    path = file(b'{"n": 1}\n' + line + b'\n{"n": 1}')
    first, bad, last = own(path)
    assert (first, last) == ((0, 1), (2, 1))
    assert bad.key == key
    assert bad.answer == {**key, "error": bad.message}
    with pytest.raises(errors.UserError, match=f"own.json, {message}"):
        list(text_files.strictly([first, bad, last]))


def test_bad_object_of_a_list_has_its_number(file):
    bad, good = own(file(b'["x", {"n": 1}]'))
    assert (bad.key, good) == ({"object": 1}, (1, 1))
    assert "own.json, object 1: str instead of a JSON object" in bad.message
    with pytest.raises(errors.UserError, match="own.json: this is not JSON"):
        own(file(b"It rains.\nWe stay.\n"))


def test_tables_are_told_by_their_names(file):
    content = b"id\tn\r\na\t1\r\nb\r\nc\t1"
    first, bad, last = own(file(content, "own.tsv"))
    assert (first, last) == ((0, "1"), (2, "1"))
    assert bad.key == {"line": 3}
    assert (
        "own.tsv, line 3: 1 columns, but the first row names 2" in bad.message
    )
    assert own(file(content, "own.x"), tables=(".x",))[0] == (0, "1")
    with pytest.raises(errors.UserError, match="is not JSON"):
        own(file(content, "own.tsv"), tables=())


@pytest.mark.parametrize(
    "content, message",
    [
        (b"n\tid\tn\n", "line 1: the column 'n' is there 2 times"),
        (b"n\xff\n1\n", "line 1 is not UTF-8: byte 2 of the line is 0xff"),
    ],
)
def test_first_row_must_be_good(file, content, message):
    with pytest.raises(errors.UserError, match=message):
        own(file(content, "own.tsv"))


def test_names_and_fields_make_a_row():
    assert text_files.column_names("a\t\tb c", "HERE") == ["a", "", "b c"]
    row = text_files.row(b"1\t\t x \r\n", ["a", "b", "c"], "HERE")
    assert row == {"a": "1", "b": "", "c": " x "}
    for count in (1, 3):
        with pytest.raises(errors.UserError, match=f"HERE: {count} columns"):
            text_files.row(b"\t".join([b"x"] * count), ["a", "b"], "HERE")


def test_only_line_feeds_end_lines_and_quotes_mean_nothing(file):
    path = file('\ufeff"a\u2028b\u0085c\vd\r\n\n\x1ce\tf"\t\n\n'.encode())
    assert list(text_files.read_rows(path)) == [
        (f"{path}, line 1", ['"a\u2028b\u0085c\vd']),
        (f"{path}, line 2", [""]),
        (f"{path}, line 3", ["\x1ce", 'f"', ""]),
        (f"{path}, line 4", [""]),
    ]
    assert list(text_files.read_rows(file(b"", "empty"))) == []


@pytest.mark.parametrize(
    "content, places",
    [
        (b'{"a": 1}\n\n{"a": 2}', [", line 1", ", line 3"]),
        (b'[{"a": 1}, {"a": 2}]', [", object 1", ", object 2"]),
        (b'{"a":\n 1}', [""]),
    ],
)
def test_official_objects_name_their_places(file, content, places):
    path = file(content)
    assert list(text_files.read_objects(path)) == [
        (path + place, {"a": number}) for number, place in enumerate(places, 1)
    ]


@pytest.mark.parametrize(
    "content, message",
    [
        (b'{"a": 1}\nx\n', "own.json, line 2: this is not JSON"),
        (b'{"a": 1}\n3\n', "own.json, line 2: int instead of a JSON object"),
        (b"[3]", "own.json, object 1: int instead of a JSON object"),
        (b"null", "own.json: NoneType instead of a JSON object"),
        (b'{"a": 1}\n"\xff"', "line 2 is not UTF-8: byte 2 of the line is"),
    ],
)
def test_official_objects_are_read_strictly(file, content, message):
    with pytest.raises(errors.UserError, match=message):
        list(text_files.read_objects(file(content)))


def test_missing_file_is_named(tmp_path):
    for path in (tmp_path / "gone.tsv", tmp_path):
        with pytest.raises(errors.UserError, match=f"{path} cannot be read: "):
            own(str(path))
        with pytest.raises(errors.UserError, match="the current folder is"):
            list(text_files.read_rows(str(path)))
