"""Rows and objects of text files, official ones and a user's own."""

import datetime
import decimal
import gzip
import io
import lzma
import math
import re
import zipfile

import pyarrow
import pyarrow.parquet
import pytest

from albert_tf.common import errors, rows, strict_json
from tests.conftest import refused


@pytest.fixture
def file(tmp_path):
    def write(content, name="own.json"):
        path = tmp_path / name
        path.write_bytes(content)
        return str(path)

    return write


def parse(entry):
    """Take entries with a number `n`: so many examples of it."""
    number = entry.values.get("n")
    if not isinstance(number, int | str):
        raise errors.UserError(f"{entry.where}: no n.")
    (place,) = entry.key.values()
    return [(place, number)] * int(number)


def itself(row):
    return [row]


def own(path):
    return list(rows.read_user_file(path, ["n"], parse))


CSV = """\ufeffid,text,n\r
"a, b","It ""rains"".\r
Still.",1\r
\r
c,"",1\r
d,5" pipes,1
""".encode()


@pytest.mark.parametrize("name", ["own.csv", "reviews.CSV"])
def test_commas_quotes_and_line_breaks(file, name):
    found = list(rows.read(io.BytesIO(CSV), name, ["text", "n"], itself))
    assert [entry.key["line"] for entry in found] == [2, 5, 6]
    assert found[1].where == f"{name}, line 5"
    values = [tuple(entry.values.values()) for entry in found]
    assert values == [
        ("a, b", 'It "rains".\r\nStill.', "1"),
        ("c", "", "1"),
        ("d", '5" pipes', "1"),
    ]
    assert own(file(CSV, name)) == [(2, "1"), (5, "1"), (6, "1")]


def zipped(content):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as stream:
        stream.writestr("own.csv", content)
    return packed.getvalue()


def parquet(**columns):
    stream = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns), stream)
    return stream.getvalue()


PARQUET = parquet(n=["word " * 100] * 100)
# Of the year 300,000, which Python's dates do not reach.
TOO_LATE = pyarrow.array([10**16], pyarrow.int64()).cast(pyarrow.date64())
DOUBLED = io.BytesIO()
pyarrow.parquet.write_table(
    pyarrow.table([[1], [2]], names=["n", "n"]), DOUBLED
)
DOUBLED = DOUBLED.getvalue()
TABLE = "line 1: this looks like a table"
PACKED = "is packed, or a work"
DAMAGED = "is no whole Parquet file"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "own.csv",
            b"It rains.\n",
            "line 1 has no 'n'; there are 'It rains.'.*separated by commas",
        ),
        ("own.csv", b"id;m\na;1\n", "line 1 has no 'n'; there are 'id', 'm'"),
        ("own.csv", b"n,n\n", "line 1: the column 'n' is there 2 times"),
        ("own.csv", b"\xff,n\n1,1\n", "line 1 is not UTF-8: byte 1 of"),
        ("own.csv", "n\r\n1\r\n".encode("utf-16"), "is not UTF-8: byte 1 of"),
        ("own.csv", b'"n\n1', "line 1: this row is not CSV"),
        ("own.csv", b"n\r1\r2\r", "line 1: this row is not CSV"),
        ("own.TSV", b"n\tid\tn\n", "line 1: the column 'n' is there 2 times"),
        ("own.TSV", b"n\xff\n1\n", "line 1 is not UTF-8: byte 2 of the line"),
        ("own.TSV", b"m\n1\n", "has no 'n'; there are 'm'. The first row must"),
        ("own.txt", b"id,n\na,1\n", TABLE),
        ("own.txt", b'"id"; "n"\r\n"a"; "1"\r\n', TABLE),
        ("own.jsonl", b"n|label\n1|a\n", TABLE),
        ("own.txt", b"sentence\tlabel\nIt rains.\t1\n", TABLE),
        ("own.csv", gzip.compress(b"n\n1\n"), PACKED),
        ("own.tsv", lzma.compress(b"n\n1\n"), PACKED),
        ("own.csv.gz", gzip.compress(b"n\n1\n"), PACKED),
        ("a.xlsx", zipped(b"n\n1\n"), PACKED),
        ("t.parquet", b"", DAMAGED),
        ("t.parquet", b"PAR1", DAMAGED),
        ("t.parquet", PARQUET[:-9], DAMAGED),
        ("t.parquet", PARQUET[:200] + PARQUET[300:], DAMAGED),
        ("t.parquet", parquet(m=[1], l=["a"]), "no 'n'; there are 'm', 'l'"),
        ("t.parquet", DOUBLED, ": the column 'n' is there 2 times"),
        ("t.parquet", parquet(n=TOO_LATE), "column .n. .date32.*as texts or"),
        ("own.csv", b"sep=^\nm^l\n1^a\n", "line 2 has no 'n'"),
        ("own.csv", b'sep="\nm,n\n', "line 1 has no 'n'"),
        ("own.csv", b"sep=\0\nm,n\n", "line 1 has no 'n'"),
    ],
)
def test_files_that_are_refused(file, name, content, message):
    with refused(f"/{name}.* ?{message}"):
        own(file(content, name))


@pytest.mark.parametrize(
    ("name", "line", "key", "message"),
    [
        ("own.csv", b'"a"b,1', {}, ": this row is not CSV .*twice"),
        ("own.csv", b"a\rb,1", {}, ": this row is not CSV"),
        (
            "own.csv",
            b"a;1",
            {},
            ": 1 columns, but .* names 2. .* one comma each",
        ),
        ("own.csv", b'"\n\xff",1', {}, " is not UTF-8: byte 2 of"),
        ("own.jsonl", b'{"id": 7, "n": null}', {"id": 7}, ": no n."),
        ("own.jsonl", b'{"n": }', {}, ": this is not JSON"),
        ("own.jsonl", b'{"n": NaN}', {}, ": this is not JSON"),
        ("own.jsonl", b"[1]", {}, ": list instead of a JSON object"),
        (
            "own.jsonl",
            b'{"n": "\xff"}',
            {},
            " is not UTF-8: byte 8 of the line is 0xff",
        ),
    ],
)
def test_a_bad_line_keeps_its_place(file, name, line, key, message):
    is_csv = name == "own.csv"
    first, last = (b"id,n", b"b,1") if is_csv else (b'{"n": 1}', b'{"n": 1}')
    items = own(file(b"\n".join([first, line, last, b""]), name))
    bad = items[-2]
    lines = 3 + line.count(b"\n")
    assert items == [
        *[(1, 1)] * (not is_csv),
        bad,
        (lines, "1" if is_csv else 1),
    ]
    key = {**key, "line": 2}
    assert bad.key == key
    assert bad.answer == {**key, "error": bad.message}
    with refused(f"{name}, line 2{message}"):
        list(rows.raise_bad_lines(items))


@pytest.mark.parametrize(
    ("name", "content", "key", "message"),
    [
        (
            "own.csv",
            b'id,n\n"a,1\nb,1\n',
            {"line": 2},
            "line 2: .* end of data",
        ),
        ("own", b'["x"]', {"object": 1}, "object 1: str instead of a JSON obj"),
        ("own", b"It rains.\n", {"line": 1}, "line 1: this is not JSON"),
    ],
)
def test_a_file_may_have_nothing_but_a_bad_line(
    file, name, content, key, message
):
    (bad,) = own(file(content, name))
    assert bad.key == key
    assert re.search(f"{name}, {message}", bad.message)


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("header", [True, False])
def test_what_divides_columns_is_found(file, separator, header):
    cells = [["id", "n"]] * header + [["a,;;|b", "1"], ["c\nd", "2"]]
    lines = (separator.join(f'"{cell}"' for cell in row) for row in cells)
    path = file("\n".join(lines).encode(), "own.csv")
    number = "n" if header else "2"

    def take(entry):
        values = entry.values
        return [(entry.key["line"], *values.values(), values[number])]

    found = list(rows.read_user_file(path, [number], take, header=header))
    assert found == [
        (1 + header, "a,;;|b", "1", "1"),
        (2 + header, "c\nd", "2", "2"),
    ]


@pytest.mark.parametrize("first", ["sep=;", "SEP=;\r", '"sep=;"'])
def test_excel_says_what_divides_columns(file, first):
    content = f"{first}\nid;a,b,c;n\n1;x;1\n1;x\n"
    found, bad = own(file(content.encode(), "own.csv"))
    assert found == (3, "1")
    assert bad.key == {"line": 4}


def test_a_long_field_is_read(file):
    path = file(b'text,n\n"' + b"a, " * 10**5 + b'",1\n', "own.csv")
    assert own(path) == [(2, "1")]


def test_an_entry_gives_any_number_of_examples(file):
    path = file(b'{"n": 2}\n\n{"n": 0}\r\n{"n": 1}\n')
    assert own(path) == [(1, 2), (1, 2), (4, 1)]


@pytest.mark.parametrize(
    "content, expected",
    [
        (b'[{"n": 1},\n {"n": 1}]', [(1, 1), (2, 1)]),
        (b'{"n":\n1}', [(1, 1)]),
        (b'\xef\xbb\xbf{"n": 1}\n{"n": 1}', [(1, 1), (2, 1)]),
        (b"", []),
        (b"\n \n", []),
        (b"[]", []),
    ],
)
def test_layouts_of_objects(file, content, expected):
    assert own(file(content)) == expected


TSV = b"id\tn\r\na\t1\r\n\r\nb\r\nc\t1"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("own.tsv", TSV),
        ("own.TSV", TSV),
        ("own.txt", TSV),
        ("standard input", TSV),
        ("own.json", b"\xef\xbb\xbf" + TSV),
        ("own", b"n\n1\n\nb\tc\n1"),
    ],
)
def test_a_table_has_the_names_of_inputs_in_its_first_line(file, name, content):
    first, bad, last = own(file(content, name))
    assert (first, last) == ((2, "1"), (5, "1"))
    assert bad.key == {"line": 4}
    assert f"{name}, line 4: " in bad.message
    assert "columns, but the first row names " in bad.message


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"It rains, text, id\n text\n", ["It rains, text, id", " text"]),
        (b'[MASK] rains.\n{"text": "a"}\n', ["[MASK] rains.", "a"]),
        (b'[{"text": "a"},\n\n{"text": "b"}]\n', ["a", "b"]),
        (b'{\n"text":\t"a"\n}\n', ["a"]),
        (b"a\tb\n", None),
        (b"text\na\tb\n", None),
        (b"a\nb\tc\n", ["a", "b\tc"]),
    ],
)
def test_lines_are_texts_where_nothing_else_is_needed(content, expected):
    lines = io.BytesIO(content)
    try:
        found = list(rows.read(lines, "own", ["text"], itself))
        texts = [e.values["text"] for e in rows.raise_bad_lines(found)]
    except errors.UserError:
        texts = None
    assert texts == expected


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"It rains.", "line 1: this is not JSON"),
        (b"text", "line 1: this is not JSON"),
        (b"text\tlabel", "line 1: this looks like a table"),
        (b"text,text_pair", "line 1: this looks like a table"),
    ],
)
def test_all_inputs_must_be_named(line, message):
    found = rows.read([line], "own", ["text", "text_pair"], itself)
    with refused(message):
        list(rows.raise_bad_lines(found))


def test_empty_lines_are_counted(file, caplog):
    caplog.set_level("WARNING", "absl")
    assert len(own(file(b'{"n": 1}\n\n \n{"n": 1}\n'))) == 2
    assert "own.json: left out 2 empty lines; the first is line 2" in (
        caplog.text
    )


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("own.tsv", b"n\ttext\n1\ta\n1\tIvo sl"),
        ("own.CSV", b"n,text\n1,Ivo sl"),
        ("own.csv", b"n,text"),
    ],
)
def test_a_table_that_may_be_cut_short_is_told(file, caplog, name, content):
    caplog.set_level("WARNING", "absl")
    told = f"{name}: the last line has no end"
    own(file(content + b"\n", name))
    assert told not in caplog.text
    own(file(content, name))
    assert told in caplog.text
    caplog.clear()
    list(rows.read(io.BytesIO(content), name, ["n"], itself))
    assert told in caplog.text


def test_lines_are_read_as_they_are_needed():
    def lines():
        yield b'{"id": NaN}\n'
        yield b"a\n"
        pytest.fail("two lines were needed")

    found = rows.read(lines(), "own", ["text"], itself)
    assert next(found).key == {"line": 1}
    assert next(found).values == {"text": "a"}


@pytest.mark.parametrize("id_", [7, "7", None, [1], {"line": 2}, True])
def test_ids_stay_what_they_are_and_none_is_made(id_):
    place = rows.LineKey({"line": 2})
    assert rows.key_of(id_) == {"id": id_}
    assert rows.key_of(place) == {"line": 2}
    assert str(place) == "line 2"


def test_five_other_places_are_shown():
    shown = " The same holds for {} more: a, b, c, d, e{}."
    assert rows.and_others([]) == ""
    assert rows.and_others([*"abcde"]) == shown.format(5, "")
    assert rows.and_others([*"abcdef"]) == shown.format(6, ", ...")


@pytest.mark.parametrize("odd", ["1_0", "\u0663", "x", None, [1], 10**400])
def test_what_is_no_number(odd):
    assert math.isnan(rows.to_number(odd))
    assert rows.to_number(" 1e3") == 1000


def test_an_entry_knows_its_id_and_its_texts():
    entry = rows.Row("HERE", {"line": 2}, {"text": "a", "n": 1})
    assert entry.texts(["text"]) == ("a",)
    assert rows.key_of(entry.guid) == {"line": 2}
    assert rows.Row("HERE", {"line": 2}, {"id": 7}).guid == 7
    for ask, message in (
        (lambda: entry.texts(["text", "n"]), "HERE: 'n' is 1, which is no te"),
        (lambda: entry.texts(["m"]), "HERE has no 'm'; .*'n'. It needs m"),
        (lambda: entry.require(["n", "m"], "Give"), "no 'm'; .*. Give n, m"),
    ):
        with refused(message):
            ask()


@pytest.mark.parametrize(
    ("entry", "kind", "message"),
    [
        ([], str, r"HERE: \[\] stands where an object with the key 'a'"),
        ({"b": 1}, str, "HERE: the key 'a' is missing; there are 'b'"),
        ({}, str, "there are none"),
        ({"a": {}}, list, "HERE: 'a' is {}; it must be a list"),
        ({"a": 0}, bool, "'a' is 0; it must be true or false"),
        ({"a": True}, int, "'a' is true; it must be a whole number"),
        ({"a": 1.5}, (str, int), "it must be a text or a whole number"),
    ],
)
def test_wrong_values_of_json_are_named(entry, kind, message):
    with refused(message):
        rows.get(entry, "a", kind, "HERE")
    assert rows.get({"a": True}, "a", bool, "HERE") is True
    assert rows.get({"a": 3}, "a", (str, int), "HERE") == 3


def test_names_and_fields_make_a_row(file):
    lines = [b"a\tb\tc\n", b"1\t\t x \r\n", b"x\n", b"x\tx\tx\tx\n"]
    row, *bad = rows.read(lines, "own", ["a", "b", "c"], itself)
    assert row.values == {"a": "1", "b": "", "c": " x "}
    for count, line, item in ((1, 3, bad[0]), (4, 4, bad[1])):
        assert item.message.startswith(f"own, line {line}: {count} columns, b")


def test_only_line_feeds_end_lines_and_quotes_mean_nothing(file):
    path = file('\ufeff"a\u2028b\u0085c\vd\r\n\n\x1ce\tf"\t\n\n'.encode())
    assert list(rows.read_rows(path)) == [
        (f"{path}, line 1", ['"a\u2028b\u0085c\vd']),
        (f"{path}, line 2", [""]),
        (f"{path}, line 3", ["\x1ce", 'f"', ""]),
        (f"{path}, line 4", [""]),
    ]
    assert list(rows.read_rows(file(b"", "empty"))) == []


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
    found = [(e.where, e.values) for e in rows.read_objects(path)]
    assert found == [
        (path + place, {"a": number}) for number, place in enumerate(places, 1)
    ]


@pytest.mark.parametrize(
    "content, message",
    [
        (b'{"a": 1}\nx\n', "own.json, line 2: this is not JSON"),
        (b"null", "own.json: NoneType instead of a JSON object"),
        (b'{"a": 1}\n"\xff"', "line 2 is not UTF-8: byte 2 of the line is"),
    ],
)
def test_official_objects_are_read_strictly(file, content, message):
    with refused(message):
        list(rows.read_objects(file(content)))


@pytest.mark.parametrize(
    ("name", "content", "is_json"),
    [
        ("a.JSON", b"It rains.", True),
        ("a.jsonl", b"", True),
        ("a.txt", b'\xef\xbb\xbf\n\xc2\xa0\n{"a": 1}\nx', True),
        ("a.txt", b'{"a":\n1}', False),
        ("a.txt", b'[{"a": 1}]', False),
        ("a.txt", b'x\n{"a": 1}', False),
        ("a.txt", b"\xff", False),
        ("a.txt", b"\n", False),
    ],
)
def test_name_or_first_line_say_that_a_file_is_json(
    file, name, content, is_json
):
    assert rows.holds_objects(file(content, name)) is is_json


def test_missing_file_is_named(tmp_path):
    for path, message, advice in (
        (tmp_path / "gone.tsv", "cannot be read: ", "the current folder is"),
        (tmp_path, "is a folder. ", "Put a file in its place"),
    ):
        with refused(f"{path} {message}"):
            own(str(path))
        with refused(advice):
            list(rows.read_rows(str(path)))


def test_rows_and_columns_of_parquet(file):
    content = parquet(text=["a", None] * 50, n=range(100))
    path = file(content, "t.Parquet")
    found = list(rows.read_user_file(path, ["n"], itself))
    assert [row.values["n"] for row in found] == [*range(100)]
    assert [row.values["text"] for row in found[:2]] == ["a", None]
    assert found[70].where == f"{path}, row 71"
    assert found[70].key == {"row": 71}


def test_columns_of_parquet_that_python_cannot_hold_are_left_out(file):
    """Unless they are asked for; a batch has 64 rows."""
    texts = ["a"] * 70
    late = pyarrow.concat_arrays([TOO_LATE] * 70)
    long = pyarrow.array([2**62 + 1] * 70, pyarrow.duration("s"))
    path = file(parquet(text=texts, late=late, long=long), "t.parquet")
    found = list(rows.read_user_file(path, ["text"], itself))
    assert [row.values for row in found] == [{"text": "a"}] * 70


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("a", "a"),
        (7, 7),
        (None, None),
        (1.5, 1.5),
        (True, True),
        (["a", "b"], ["a", "b"]),
        (decimal.Decimal("1.50"), "1.50"),
        (datetime.date(2026, 11, 30), "2026-11-30"),
        (datetime.time(12, 5), "12:05:00"),
        (datetime.datetime(2026, 11, 30, 1), "2026-11-30 01:00:00"),
        (datetime.timedelta(seconds=90), "0:01:30"),
        (b"ab", "ab"),
        (b"\xff\0", "\\xff\0"),
    ],
)
def test_ids_of_parquet_are_as_json_can_hold_them(file, value, written):
    path = file(parquet(id=[value], text=["a"]), "t.parquet")
    (row,) = rows.read_user_file(path, ["text"], itself)
    assert row.guid == row.id_of("id") == row.id_of("other") == written
    assert strict_json.loads(strict_json.dumps(rows.key_of(row.guid))) == {
        "id": written
    }


@pytest.mark.parametrize("separator", "^~:&")
def test_excel_may_name_any_separator(file, separator):
    lines = "sep=S\nidSn\naS1\nb\n".replace("S", separator)
    path = file(lines.encode(), "t.csv")
    good, bad = rows.read_user_file(path, ["n"], itself)
    assert good.values == {"id": "a", "n": "1"}
    assert "line 4: 1 columns, but the first row names 2" in bad.message
    assert f"separated by one '{separator}' each" in bad.message


@pytest.mark.parametrize(
    ("name", "content", "is_said"),
    [
        ("a.txt", "text\nIt rains.\n", True),
        ("a.tsv", "text\nIt rains.\n", False),
        ("a.csv", "text\nIt rains.\n", False),
        ("a.txt", "text\tid\nIt rains.\t1\n", False),
    ],
)
def test_a_first_line_text_that_may_be_one_is_said(
    file, caplog, name, content, is_said
):
    path = file(content.encode(), name)
    (row,) = rows.read_user_file(path, ["text"], itself)
    assert row.values["text"] == "It rains."
    assert ("the name of the only column" in caplog.text) == is_said


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("a", "a"),
        (" a b\xa0", "a b"),
        ("\u200b\ufeffa\u200b", "a"),
        ("a\u200bb", "a\u200bb"),
        ("\u200b ", ""),
        ("\ue000 ", "\ue000"),
        ("", ""),
        ("\te\u0301\n", "e\u0301"),
    ],
)
def test_ends_that_nobody_sees_are_left_out(text, seen):
    assert rows.strip_invisible(text) == seen
