"""Files with tags: what is read, what is refused."""

import json

import pytest

from albert_tf.common import rows
from albert_tf.tasks.tagging import data as tagging_data
from albert_tf.tasks.tagging import portable
from tests.conftest import refused

COLUMNS = tagging_data.ColumnOptions(1, -1)
# Two sentences of two words.
WORDS = [["New", "York"], ["Anna", "."]]
TAGS = [("B-LOC", "I-LOC"), ("B-PER", "O")]


def read(path, content, columns=COLUMNS, **how):
    path.write_text(content)
    return tagging_data.read(str(path), columns, **how)


def found_in(examples):
    return [e.texts for e in examples], [e.tags for e in examples]


FILES = {
    "words.tsv": "New\tB-LOC\nYork\tI-LOC\n\nAnna\tB-PER\n.\tO\n",
    "conll03.txt": "-DOCSTART- -X- O\n\nNew NNP B-LOC\nYork NNP E-LOC\n  \n\n"
    "Anna NNP S-PER\n. . O\n",
    "crlf.conll": "New\tB-LOC\r\nYork\tI-LOC\r\n\r\nAnna\tB-PER\r\n.\tO\r\n",
    "germeval.tsv": "#\thttp://a.b [2005]\n1\tNew\tB-LOC\tO\n2\tYork\tI-LOC\tO"
    "\n\n#\tx\n1\tAnna\tB-PER\tO\n2\t.\tO\tO\n",
    "conllu.conllu": "# text = New York\n1-2\tNewYork\t_\t_\n"
    "1\tNew\tB-LOC\t_\n2\tYork\tI-LOC\t_\n\n1\tAnna\tB-PER\t_\n2\t.\tO\t_\n",
    "words.jsonl": '{"words": ["New", "York"], "tags": ["B-LOC", "L-LOC"]}\n'
    '{"words": ["Anna", "."], "tags": ["U-PER", "O"]}\n',
    "spans.json": '[{"text": "New York", "spans": [{"start": 0, "end": 8, '
    '"label": "LOC"}]},\n{"text": "Anna.", "spans": [{"start": 0, "end": 4, '
    '"label": "PER"}]}]',
}
NUMBERED = tagging_data.ColumnOptions(2, 3)
NUMBERS = {"germeval.tsv": (2, 3), "conllu.conllu": (2, -2)}


@pytest.mark.parametrize("name", FILES)
def test_all_kinds_of_files_say_the_same(tmp_path, name, caplog):
    columns = tagging_data.ColumnOptions(*NUMBERS.get(name, (1, -1)))
    examples = read(tmp_path / name, FILES[name], columns)
    assert found_in(examples) == (WORDS, TAGS)
    labels = "O", "B-LOC", "I-LOC", "B-PER", "I-PER"
    assert tagging_data.labels_of(examples, name) == labels
    assert not caplog.records


SEEN = ["", " ", "\xa0", "\u200b", "\ufeff", "\u200b \u2003", "\x07"]


@pytest.mark.parametrize("end", SEEN)
def test_what_is_not_seen_makes_no_other_tag(tmp_path, end):
    columns = f"New\tB-LOC{end}\nYork\t{end}I-LOC\n\nAnna\tB-PER{end}\n.\tO\n"
    tags = [["B-LOC", "I-LOC" + end], ["B-PER" + end, end + "O"]]
    lines = [
        json.dumps({"words": w, "tags": t})
        for w, t in zip(WORDS, tags, strict=True)
    ]
    span = {"start": 0, "end": 8, "label": f"LOC{end}"}
    other = {"start": 0, "end": 4, "label": f"{end}PER"}
    spans = [
        {"text": "New York", "spans": [span]},
        {"text": "Anna.", "spans": [other]},
    ]
    for name, content in (
        ("a.tsv", columns),
        ("a.jsonl", "\n".join(lines)),
        ("a.json", json.dumps(spans)),
    ):
        examples = read(tmp_path / name, content)
        assert found_in(examples) == (WORDS, TAGS), name


@pytest.mark.parametrize("tag", ["\u200b", "B-\nLOC", "B\t", "\r", "a\rb"])
def test_tags_without_a_letter_or_with_a_line_end_are_refused(tmp_path, tag):
    if tag.strip() == "B":
        tag = "B\tx"
    content = json.dumps({"words": ["a", "b"], "tags": ["O", tag]})
    with refused("is empty, or has a tab or a"):
        read(tmp_path / "a.jsonl", content)


def test_a_word_that_is_a_number_sign_is_no_comment(tmp_path):
    examples = read(tmp_path / "x", "\n-DOCSTART- O\n#\tO\n#tag\tB-A\n")
    assert examples[0].guid.key == {"line": 3}
    assert found_in(examples) == ([["#", "#tag"]], [("O", "B-A")])


def test_only_in_conllu_numbers_are_no_words(tmp_path):
    """With ranges and decimals in their places; others are of some measure."""
    numbered = (
        "0.1 x _\n1-2 cannot _\n1 can A\n2 not B\n2.1 x _\n2.2 y _\n3 z C"
    )
    examples = read(tmp_path / "x", f"{numbered}\n", NUMBERED)
    assert found_in(examples) == ([["can", "not", "z"]], [("A", "B", "C")])
    examples = read(
        tmp_path / "x", "3-4 cannot _\n3 can A\n4 not B\n", NUMBERED
    )
    assert found_in(examples) == ([["can", "not"]], [("A", "B")])
    for numbers in (
        "0.10 1 1.55",
        "1-2 2 3",
        "1 1.2 2",
        "2 3.1 4",
        "3-4 5 6",
        "1.1 1.2 2",
    ):
        rows = [f"{number} a A\n" for number in numbers.split()]
        (example,) = read(tmp_path / "x", "".join(rows), NUMBERED)
        assert len(example.words) == 3


@pytest.mark.parametrize("word_column", [1, -2])
def test_words_may_be_numbers(tmp_path, word_column):
    columns = tagging_data.ColumnOptions(word_column)
    examples = read(tmp_path / "x", "1\tA\n1.1\tB\n2-1\tC\n", columns)
    assert found_in(examples) == ([["1", "1.1", "2-1"]], [("A", "B", "C")])


def test_a_comment_may_have_as_many_words_as_there_are_columns(tmp_path):
    examples = read(tmp_path / "x", "# newdoc\n# s 1\nIt\tA\n\n# s\nis\tB\n")
    assert found_in(examples) == ([["It"], ["is"]], [("A",), ("B",)])


def test_tags_beside_those_of_entities_have_no_type():
    tags = "O", "B-A", "X", "[CLS]"
    assert tagging_data.bio_of(tags) == ("O", "B-A", "I-A")


def test_tags_that_do_not_fit_are_counted(tmp_path, caplog):
    examples = read(tmp_path / "x", "a\tO\nb\tI-A\nc\tI-A\nd\tI-B\n")
    assert examples[0].tags == ("O", "B-A", "I-A", "B-B")
    assert "2 tags do not fit" in caplog.text
    assert "x, line 2" in caplog.text


def test_parts_of_speech_are_tags_of_their_own(tmp_path):
    usual = tagging_data.ColumnOptions()
    examples = read(tmp_path / "x", "It _ PRON\nrains _ VERB\n", usual)
    assert tagging_data.labels_of(examples, "x") == ("PRON", "VERB")
    assert portable.entities(examples[0].tags) == [
        ("PRON", 0, 1),
        ("VERB", 1, 2),
    ]


def test_spans_inside_words_are_widened_and_counted(tmp_path, caplog):
    spans = [
        {"start": 6, "end": 10, "label": "LOC"},
        {"start": 0, "end": 5, "label": "PER"},
    ]
    line = json.dumps({"text": "Anna, US-Präsidentin", "spans": spans})
    (example,) = read(tmp_path / "x.jsonl", line)
    assert example.texts == ["Anna", ",", "US-Präsidentin"]
    assert example.tags == ("B-PER", "I-PER", "B-LOC")
    assert "1 texts have a span that begins or ends inside" in caplog.text
    assert "left out" not in caplog.text


def test_a_second_span_in_a_word_is_left_out_and_counted(tmp_path, caplog):
    places = (4, 10, "LOC"), (11, 16, "ORG"), (17, 22, "ORG"), (24, 26, "PER")
    names = "start", "end", "label"
    spans = [dict(zip(names, place, strict=True)) for place in places]
    line = json.dumps({"text": "The Berlin-Paris-train, Jo", "spans": spans})
    _, example = read(tmp_path / "x.jsonl", f"{of_span()}\n{line}\n")
    assert example.tags == ("O", "B-LOC", "O", "B-PER")
    assert "2 spans are left out" in caplog.text
    assert caplog.text.rstrip().endswith("x.jsonl, line 2")


@pytest.mark.parametrize(
    ("spans", "tags"),
    [
        ([(4, 5, "M")], ("O", "B-M", "O")),
        ([(0, 4, "A"), (4, 5, "M")], ("B-A", "B-M", "O")),
    ],
)
def test_spans_and_words_may_touch(tmp_path, spans, tags):
    names = "start", "end", "label"
    found = [dict(zip(names, span, strict=True)) for span in spans]
    line = json.dumps({"text": "Anna, go", "spans": found})
    (example,) = read(tmp_path / "x.jsonl", line)
    assert example.tags == tags


SPACES = """\
1	Mara	NOUN	_
2	(	PUNCT	SpaceAfter=No
3	U.S.	NOUN	Gloss=x|SpaceAfter=No
4	)	PUNCT	_
5-6	didn't	_	SpaceAfter=No
5	did	AUX	_
6	n't	PART	_
7	sleep	VERB	_

1	L'	DET	SpaceAfter=No
2	ami	NOUN	_
3-4	du	_	_
3	de	ADP	_
4	le	DET	_
5	roi	NOUN	SpaceAfter=No
5.1	x	X	SpaceAfter=No
6	,	PUNCT	_
"""


def test_blanks_are_those_of_the_file(tmp_path):
    """As CoNLL-U says, of words that are written as one, too; else by rule."""
    first, second = read(tmp_path / "x", SPACES, NUMBERED)
    assert first.text == "Mara (U.S.) didn'tsleep"
    assert first.texts[4:6] == ["did", "n't"]
    assert second.text == "L'ami de le roi,"
    content = SPACES.replace("SpaceAfter=No", "_")
    first, second = read(tmp_path / "x", content, NUMBERED)
    assert first.text == "Mara (U.S.) didn't sleep"
    assert second.text == "L'ami de le roi,"


@pytest.mark.parametrize(
    ("word", "tag", "parts", "tags"),
    [
        ("J.", "B-PER", "J .", "B-PER I-PER"),
        ("AT&T's", "I-ORG", "AT&T ' s", "I-ORG I-ORG I-ORG"),
        ("n't", "O", "n ' t", "O O O"),
        ("1 000", "NUM", "1 000", "NUM NUM"),
        ("東京A", "B-LOC", "東 京 A", "B-LOC I-LOC I-LOC"),
    ],
)
def test_words_are_cut_as_texts_are(tmp_path, word, tag, parts, tags):
    line = json.dumps({"words": ["x", word], "tags": ["B-ORG", tag]})
    if tag == "NUM":
        line = line.replace("B-ORG", "X")
    (example,) = read(tmp_path / "x.jsonl", line)
    cut, begins = example.cut()
    assert cut.texts[1:] == parts.split()
    assert [*cut.tags[1:]] == tags.split()
    assert begins.tolist() == [True, True] + [False] * (len(cut.words) - 2)


def test_own_texts_may_have_words(tmp_path):
    path = tmp_path / "x"
    path.write_text('It rains.\n{"words": ["a.", "b"], "id": 7}\n{"x": 1}\n')
    first, second, bad = tagging_data.read_own(str(path))
    assert first.texts == ["It", "rains", "."]
    assert (second.guid, second.texts) == (7, ["a", ".", "b"])
    assert isinstance(bad, rows.BadLine)


def test_test_files_need_no_tags(tmp_path):
    for name, content in (
        ("x", "a\nb\n"),
        ("x.jsonl", '{"words": ["a", "b"]}\n'),
        ("x.jsonl", '{"words": ["a", "b"], "tags": null}\n'),
        ("x.jsonl", '{"text": "a b"}\n'),
        ("x.jsonl", '{"text": "a b", "spans": null}\n'),
    ):
        (example,) = read(tmp_path / name, content, needs_tags=False)
        assert (example.texts, example.tags) == (["a", "b"], None)
    (example,) = read(tmp_path / "x.jsonl", '{"text": ""}', needs_tags=False)
    assert not example.words


def test_words_may_have_spaces(tmp_path):
    """Those of some languages do, as in Universal Dependencies."""
    line = '{"words": ["1 000", "km"], "tags": ["NUM", "NOUN"]}'
    (example,) = read(tmp_path / "x.jsonl", line)
    assert example.texts == ["1 000", "km"]


@pytest.mark.parametrize(
    ("units", "moved"), [("utf-32-le", 0), ("utf-16-le", 2), ("utf-8", 3)]
)
def test_spans_stand_where_their_text_does(tmp_path, caplog, units, moved):
    """Offsets in characters, in UTF-16 units, in bytes; texts say which."""
    size = 1 if units == "utf-8" else len("a".encode(units))
    lines = []
    for name, before in (
        ("Mara", "Then "),
        ("Ivo", "\N{GRINNING FACE} Then "),
        ("Ada", "\N{GRINNING FACE}\N{PARTY POPPER} Not Adam, but "),
        ("Tom", "\u00fcber alle: "),
    ):
        start = len(before.encode(units)) // size
        end = start + len(name.encode(units)) // size
        span = {"start": start, "end": end, "label": "PER", "text": name}
        lines.append({"text": f"{before}{name} met us.", "spans": [span]})
    content = "".join(json.dumps(line) + "\n" for line in lines)
    examples = read(tmp_path / "x.jsonl", content)
    tagged = [
        word
        for example in examples
        for word, tag in zip(example.texts, example.tags, strict=True)
        if tag == "B-PER"
    ]
    assert tagged == ["Mara", "Ivo", "Ada", "Tom"]
    assert (f"{moved} spans do not stand" in caplog.text) == (moved > 0)


def of_span(**values):
    span = {"start": 0, "end": 1, "label": "A", **values}
    return json.dumps({"text": "a b", "spans": [span]})


BAD = {
    "columns differ": ("x", "a\tO\nb\n", "line 2 has 1 columns, but line 1"),
    "one column": ("x", "\na\nb\n", "tag_column=-1.*line 2 has 1 columns"),
    "a tab": ("x.jsonl", '{"words": ["a\\tb"], "tags": ["A"]}', "has a tab or"),
    "a line end": (
        "x.jsonl",
        '{"words": ["a\\n"], "tags": ["A"]}',
        "a line end",
    ),
    "empty word": ("x", "a\tO\n\tO\n", "line 2: the word is empty"),
    "mixed tags": ("x", "a\tB-A\nb\tB_A\n", "line 2: 'B_A' is no tag of BIO"),
    "nothing": ("x", "\n\n", "x has no examples"),
    "no words": ("x.jsonl", '{"words": [], "tags": []}', "has no examples"),
    "no json": ("x.jsonl", "a\tO\n", "line 1: this is not JSON"),
    "no tags": ("x.jsonl", '{"words": ["a"]}', "no 'tags'"),
    "no text": ("x.jsonl", '{"txt": "a"}', "no 'text'.*'words' and 'tags'"),
    "numbers": ("x.jsonl", '{"words": ["a"], "tags": [0]}', "'tags' is "),
    "null tags": ("x.jsonl", '{"words": ["a"], "tags": null}', "'tags' is n"),
    "null spans": ("x.jsonl", '{"text": "a", "spans": null}', "'spans' is n"),
    "fewer tags": (
        "x.jsonl",
        '{"words": ["a", "b"], "tags": ["O"]}',
        "2 words, but 1 tags",
    ),
    "outside": ("x.jsonl", of_span(end=4), "outside of the text.* 3 char"),
    "space": ("x.jsonl", of_span(start=1, end=2), "is empty, white space"),
    "another text": ("x.jsonl", of_span(text="c"), "does not stand in that"),
    "no letters": ("x.jsonl", of_span(text=" "), "does not stand in that"),
    "no end": ("x.jsonl", of_span(end="1"), "must have a start"),
    "no label": ("x.jsonl", of_span(label=" "), "must have a start"),
    "overlap": (
        "x.jsonl",
        json.dumps(
            {
                "text": "a b c",
                "spans": [
                    {"start": 2, "end": 5, "label": "A"},
                    {"start": 0, "end": 3, "label": "B"},
                ],
            }
        ),
        "two spans overlap at character 2",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files_are_refused(tmp_path, case):
    name, content, message = BAD[case]
    with refused(message):
        read(tmp_path / name, content)


def test_tags_that_the_model_does_not_know_are_refused(tmp_path):
    with refused("line 3: the tag 'B-B' is not"):
        read(tmp_path / "x", "a B-A\n\nb B-B\n", labels=["O", "B-A", "I-A"])


@pytest.mark.parametrize("number", [0, 3, -3])
def test_columns_that_are_not_there_are_refused(tmp_path, number):
    columns = tagging_data.ColumnOptions(word_column=number)
    with refused("word_column=.*columns 1 to 2"):
        read(tmp_path / "x", "a\tO\n", columns)


@pytest.mark.parametrize("tags", ["o b-PER", "O B_PER", "O PER-B", "O o"])
def test_tags_that_only_look_like_those_of_entities(tmp_path, caplog, tags):
    outside, other = tags.split()
    examples = read(tmp_path / "x", f"a\t{outside}\nb\t{other}\n")
    assert {*tagging_data.labels_of(examples, "x")} == {outside, other}
    assert f"x has the tag {outside}, but no B-TYPE" in caplog.text
    assert f"also {other!r}" in caplog.text


def test_files_with_one_tag_cannot_be_learnt(tmp_path):
    examples = read(tmp_path / "x", "a\tO\n")
    with refused("every word has the tag O"):
        tagging_data.labels_of(examples, "x")
