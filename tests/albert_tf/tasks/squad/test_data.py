import copy
import json

import pytest

from albert_tf.common import rows
from albert_tf.tasks.squad import data as squad_data
from tests import row_files
from tests.albert_tf.tasks.squad import question_files
from tests.conftest import refused

PARAGRAPH = ("data", 0, "paragraphs", 0)
QUESTION = (*PARAGRAPH, "qas", 0)
CONTEXT = "Rain falls on the hills. Rain feeds the river."
NO_ID = "'id' is .*; it must be a text or a whole number"


def answer(text="the river", start=36):
    return {"text": text, "answer_start": start}


def file_of(*entries):
    return question_files.content_of(*entries, context=CONTEXT)


def entry(id_="a", **changes):
    fields = {"id": id_, "question": "What?", "answers": [answer()]}
    return {**fields, **changes}


def parse_one(**changes):
    (question,) = squad_data.parse(file_of(entry(**changes)), "f.json")
    return question


def test_version_1_1():
    question = parse_one()
    expected = squad_data.Question(
        "a", "What?", CONTEXT, (squad_data.Answer("the river", 36),)
    )
    assert question == expected
    assert CONTEXT[36 : question.answers[0].end] == "the river"
    line = "f.json: 1 questions about 1 paragraphs"
    assert squad_data.report([question], "f.json") == [line]


def test_version_2_0_without_an_answer():
    plausible = {"plausible_answers": [answer()]}
    question = parse_one(is_impossible=True, answers=[], **plausible)
    assert question.is_impossible
    assert question.answers == ()


def test_file_without_answers():
    unlabelled = entry()
    del unlabelled["answers"]
    (question,) = squad_data.parse(file_of(unlabelled), "f.json")
    assert question.answers is None
    assert not question.is_impossible


@pytest.mark.parametrize(
    "text, start, found",
    [
        ("Rain", 0, 0),
        ("Rain", 25, 25),
        ("Rain", 3, 0),
        ("Rain", 20, 25),
        ("Rain", -1, 0),
        ("Rain", 9999, 25),
        ("snow", -1, -1),
        ("", 3, -1),
    ],
)
def test_answer_is_put_at_the_nearest_place(text, start, found):
    placed = squad_data.place_answer(CONTEXT, text, start)
    assert (placed.text, placed.start) == (text, found)
    assert placed.is_moved == (text == "Rain" and found != start)


def test_overlapping_places_count():
    assert squad_data.place_answer("xaaa", "aa", 3).start == 2


@pytest.mark.parametrize("middle", ["", "b"])
def test_the_search_takes_linear_time(middle):
    """Half of a long text of equal letters, once with another in the middle."""
    half, length = "a" * 40_000, 320_000
    context = "a" * length + middle + "a" * length
    for start in (-1, 0, 7, length, 2 * length):
        placed = squad_data.place_answer(context, half + middle + half, start)
        most = len(context) - len(placed.text)
        nearest = min(max(0, start), most)
        assert placed.start == (length - len(half) if middle else nearest)


def test_wrong_answer_starts_are_counted_and_named():
    """Each question is in one line."""
    content = file_of(
        entry("good"),
        entry("moved", answers=[answer(), answer("Rain", 2)]),
        entry("gone", answers=[answer("snow", 0), answer(" ", 4)]),
        entry("first", answers=[answer("snow", 0), answer("Rain", 1)]),
        entry("second", answers=[answer(), answer("snow", 0)]),
        *(entry(f"m{n}", answers=[answer("Rain", 2)]) for n in (1, 2)),
        *(entry(f"s{n}", answers=[answer(), answer("snow")]) for n in (1, 2)),
    )
    questions = squad_data.parse(content, "f.json")
    told = "\n".join(squad_data.report(questions, "f.json"))
    assert "9 questions about 1 paragraphs" in told
    assert "3 questions have (id moved, m1, m2) an answer that is not" in told
    assert "4 questions have (id first, second, s1, ...) an answer th" in told
    assert "1 question has (id gone) no answer that stands in" in told
    learnt = [question.learnt for question in questions[:5]]
    assert [one and one.text for one in learnt] == [
        "the river",
        "the river",
        None,
        "Rain",
        "the river",
    ]


@pytest.mark.parametrize(
    "text, start, learnt",
    [
        ("falls ", 5, "falls"),
        (" falls", 4, "falls"),
        ("\t\n falls on\u3000", 2, "falls on"),
        # Not as the paragraph has it, but found; or moved by a character.
        ("falls\xa0", 5, "falls"),
        ("falls ", 9, "falls"),
        (" ", 4, None),
        ("\u3000", 4, None),
        ("", 4, None),
        # Nobody sees them, and SentencePiece takes some for a space.
        ("river\u200b", 40, "river"),
        ("\u200b", 45, None),
    ],
)
def test_white_space_at_the_ends_is_no_part_of_an_answer(text, start, learnt):
    context = "Rain falls on the hills. Rain feeds the river\u200band grows."
    content = question_files.content_of(
        entry(answers=[answer(text, start)]), context=context
    )
    (question,) = squad_data.parse(content, "f.json")
    found = question.learnt
    assert (found and found.text) == learnt
    _, *faults = squad_data.report([question], "f.json")
    told = "".join(faults)
    assert ("no answer that stands" in told) == (learnt is None)
    is_moved = text == "falls " and start == 9
    assert ("it was moved to" in told) == is_moved
    if found:
        assert context[found.start : found.end] == learnt


@pytest.mark.parametrize(
    "path, change, message",
    [
        ((), [], r"f.json: \[\] stands where an object with the key 'data'"),
        ((), {"version": "2"}, "f.json: the key 'data' is missing; there are"),
        (("data",), {}, "f.json: 'data' is {}; it must be a list"),
        (("data",), [], "f.json has no questions"),
        (("data", 0), {}, "f.json, article 1: the key 'paragraphs' is missing"),
        (
            PARAGRAPH,
            {"qas": []},
            "article 1, paragraph 1: the key 'context' is missing",
        ),
        (
            (*PARAGRAPH, "context"),
            " \n",
            r"paragraph 1: the context is empty, so its questions \(ids a\)",
        ),
        (
            QUESTION,
            {"question": "?"},
            "paragraph 1, question 1: the key 'id' is missing",
        ),
        (
            (*QUESTION, "answers", 0),
            {"text": "Rain"},
            r"\(id a\): the key 'answer_start' is missing",
        ),
        (
            (*QUESTION, "is_impossible"),
            "no",
            r"\(id a\): 'is_impossible' is \"no\"; it must be true or false",
        ),
        (
            (*QUESTION, "is_impossible"),
            True,
            r"\(id a\): is_impossible is true, but there are answers",
        ),
        *(((*QUESTION, "id"), id_, NO_ID) for id_ in (True, 2.5, None)),
        ((*PARAGRAPH, "qas"), [entry("a"), entry("a")], "the first is a"),
        ((*PARAGRAPH, "qas"), [entry(5), entry("5")], "the first is 5"),
    ],
)
def test_wrong_layout(path, change, message):
    content = copy.deepcopy(file_of(entry()))
    if not path:
        content = change
    else:
        *outer, last = path
        place = content
        for step in outer:
            place = place[step]
        place[last] = change
    with refused(message):
        squad_data.parse(content, "f.json")


def test_whole_numbers_are_ids():
    questions = squad_data.parse(
        file_of(entry(262), entry(-3), entry("7")), "f.json"
    )
    assert [q.id for q in questions] == ["262", "-3", "7"]
    assert [q.guid for q in questions] == [262, -3, "7"]


def test_file_is_json_with_or_without_a_byte_order_mark(tmp_path):
    path = tmp_path / "f.json"
    path.write_text(json.dumps(file_of(entry())), encoding="utf-8-sig")
    assert len(squad_data.read(str(path), "train_file")) == 1
    path.write_text("{")
    with refused("`predict_file=.* not JSON"):
        squad_data.read(str(path), "predict_file")


def test_own_questions_as_json_lines(tmp_path):
    objects = [
        {"question": "What?", "context": CONTEXT},
        {"id": 7, "question": "Who?", "context": CONTEXT, "other": 1},
        {"id": "1", "question": "How?", "context": CONTEXT},
    ]
    path = row_files.write(tmp_path / "f.jsonl", objects)
    found = squad_data.read_own(path)
    assert [question.text for question in found] == ["What?", "Who?", "How?"]
    assert {question.context for question in found} == {CONTEXT}
    keys = [rows.key_of(question.guid) for question in found]
    assert keys == [{"line": 1}, {"id": 7}, {"id": "1"}]
    assert len({question.id for question in found}) == 3


def test_own_questions_have_no_answers(tmp_path):
    """So they decide no threshold for "no answer"."""
    questions = [
        {"id": "a", "question": "?", "answers": [answer()]},
        {"id": "b", "question": "?", "answers": [], "is_impossible": True},
    ]
    paragraphs = [{"context": CONTEXT, "qas": questions}]
    path = tmp_path / "dev.json"
    path.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
    expected = [squad_data.Question(id_, "?", CONTEXT, None) for id_ in "ab"]
    assert squad_data.read_own(str(path)) == expected


def test_own_questions_as_a_table(tmp_path):
    path = tmp_path / "f.tsv"
    path.write_text(f"id\tcontext\tquestion\nx\t{CONTEXT}\tWhat?\n")
    expected = [squad_data.Question("x", "What?", CONTEXT, None)]
    assert squad_data.read_own(str(path)) == expected


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("f.jsonl", '{"question": "?"}', "the key 'context' is missing"),
        ("f.jsonl", '{"question": "?", "context": ""}', "context is empty"),
        ("f.jsonl", "[]", "has no questions"),
        ("f.tsv", "", "has no questions"),
        ("f.tsv", "context\tquestion\nx\n", "line 2: 1 columns, but"),
        ("f.tsv", "question\nx\n", "line 1 has no 'context'"),
    ],
)
def test_own_questions_of_another_layout(name, content, message, tmp_path):
    path = tmp_path / name
    path.write_text(content)
    with refused(message):
        list(rows.raise_bad_lines(squad_data.read_own(str(path))))


def test_second_question_of_an_id_is_a_bad_line(tmp_path):
    row = {"question": "What?", "context": CONTEXT}
    rows = [{**row, "id": id_} for id_ in (5, "5", "6", [1])]
    path = row_files.write(tmp_path / "f.jsonl", rows)
    first, same, other, odd = squad_data.read_own(path)
    assert (first.guid, other.guid) == (5, "6")
    assert same.key == {"id": "5", "line": 2} and "has the id 5" in same.message
    assert "must be a text or a whole number" in odd.message
