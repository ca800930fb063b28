"""RACE's folders to questions: both layouts, and what is wrong in them."""

import pathlib
import re

import pytest

from albert_tf.common import rows
from albert_tf.tasks.race import data as race_data
from tests.albert_tf.tasks.race.articles import (
    ARTICLE,
    FIVE,
    THREE,
    article,
    ids,
    make,
    write,
)
from tests.conftest import refused


def test_middle_comes_first_and_files_are_in_the_order_of_numbers(raw_folder):
    examples = make().read(raw_folder, "dev")
    middle, high = ["middle3", "middle20", "middle100"], ["high1", "high2"]
    assert ids(examples) == middle + high
    assert ids(make(middle_only=True).read(raw_folder, "dev")) == middle
    assert ids(make(high_only=True).read(raw_folder, "dev")) == high
    assert [e.level for e in examples] == ["middle"] * 6 + ["high"] * 4
    assert examples[1] == race_data.RaceQuestion(
        "middle3.txt-1",
        "middle",
        "It rains.",
        "The _ is _ .",
        ("sea", "sky", "ship", "a b"),
        3,
    )


def test_all_txt_is_read_in_its_own_order(tmp_path):
    write(tmp_path, "middle/all.txt", article(9), article(4))
    write(tmp_path, "high/all.txt", article(1, "high"))
    examples = make().read(str(tmp_path), "dev")
    assert ids(examples) == ["middle9", "middle4", "high1"]


def test_a_single_file_is_read_too(tmp_path):
    folder = write(tmp_path, "all.txt", article(9), article(1, "high"))
    examples = make().read(f"{folder}/all.txt", "dev")
    assert [e.level for e in examples] == ["middle"] * 2 + ["high"] * 2


def test_own_data_need_no_levels(tmp_path):
    folder = write(tmp_path, "train/all.txt", article(7, "x"), article(3, "x"))
    examples = make().read(f"{folder}/train", "train")
    assert ids(examples) == ["x7", "x3"]
    assert {example.level for example in examples} == {""}


def test_one_level_of_all_txt(tmp_path, caplog):
    articles = article(7, "x"), article(3), article(5, "high")
    folder = write(tmp_path, "all.txt", *articles)
    caplog.set_level("WARNING", "absl")
    assert ids(make(middle_only=True).read(folder, "dev")) == ["middle3"]
    assert ids(make(high_only=True).read(folder, "dev")) == ["high5"]
    assert "2 questions are left out: the id of their article" in caplog.text
    write(tmp_path, "all.txt", *articles[:2])
    with refused("no article whose id .* high,"):
        make(high_only=True).read(folder, "dev")


def test_a_file_in_which_nothing_has_a_level_is_read_whole(tmp_path, caplog):
    """It may be for a model of one level."""
    folder = write(tmp_path, "all.txt", article(7, "x"), article(3, "x"))
    caplog.set_level("WARNING", "absl")
    examples = make(middle_only=True).read(f"{folder}/all.txt", "dev")
    assert ids(examples) == ["x7", "x3"]
    assert "4 questions are read although no article's id" in caplog.text
    with refused("no article whose id .* middle"):
        make(middle_only=True).read(folder, "dev")


def test_own_articles_need_no_answers(tmp_path):
    own = {k: v for k, v in ARTICLE.items() if k != "answers"}
    path = write(tmp_path, "own.jsonl", own) + "/own.jsonl"
    examples = make().read_own(path)
    assert [e.label for e in examples] == [None, None]
    with refused("the key 'answers' is missing"):
        make().read(path, "dev")


def test_hidden_files_and_unwanted_levels_are_no_remark(raw_folder, caplog):
    for name in (".DS_Store", "middle/.DS_Store", "high/._1.txt"):
        write(pathlib.Path(raw_folder), name)
    caplog.set_level("WARNING", "absl")
    make().read(raw_folder, "dev")
    make(middle_only=True).read(raw_folder, "dev")
    assert not caplog.records


@pytest.mark.parametrize(
    "more, remark",
    [
        (
            ["middle/7.json", "middle/notes.txt"],
            r"2 files or folders are left out: .* \(.*/dev/middle/7\.json, ",
        ),
        (["high/old/1.txt"], r"1 files or folders .* \(.*/dev/high/old\)"),
        (["college/1.txt"], r"1 files or folders .* \(.*/dev/college\)"),
        (["all.txt"], r"1 files or folders .* \(.*/dev/all\.txt\)"),
        (["middle/5.txt"], r"1 files have no article.* \(.*/middle/5\.txt\)"),
    ],
)
def test_files_that_give_nothing_are_reported(raw_folder, caplog, more, remark):
    expected = make().read(raw_folder, "dev")
    for name in more:
        write(pathlib.Path(raw_folder), name)
    caplog.set_level("WARNING", "absl")
    assert make().read(raw_folder, "dev") == expected
    (record,) = caplog.records
    assert re.fullmatch(remark + ".*", record.getMessage())


@pytest.mark.parametrize("folder", ["", "middle/"])
def test_files_beside_all_txt_are_reported(tmp_path, caplog, folder):
    for number in (3, 20):
        write(tmp_path, f"{folder}{number}.txt", article(number))
    write(tmp_path, f"{folder}all.txt", article(9))
    caplog.set_level("WARNING", "absl")
    examples = make(middle_only=True).read(str(tmp_path), "dev")
    assert ids(examples) == ["middle9"]
    (record,) = caplog.records
    assert record.getMessage().startswith("2 files or folders are left out")
    assert f"({tmp_path}/{folder}20.txt, " in record.getMessage()


def test_bad_articles_of_ones_own_stay_in_their_places(tmp_path):
    numbers = article(5, options=[[1, 2, 3, 4]] * 2)
    folder = write(tmp_path, "all.txt", article(9), numbers, article(4))
    found = make().read_own(f"{folder}/all.txt")
    assert ids([*found[:2], *found[3:]]) == ["middle9", "middle4"]
    assert found[2].key == {"id": "middle5.txt", "line": 2}
    assert "an option is 1; it must be a text" in found[2].message


def test_answers_have_the_ids_of_their_articles_as_given(tmp_path):
    """Also articles without one, such as the last."""
    articles = [article(1) | {"id": id_} for id_ in ("a", 7, None, [1], "")]
    del articles[-1]["id"]
    folder = write(tmp_path, "all.txt", *articles)
    found = make().read_own(f"{folder}/all.txt")
    keys = [rows.key_of(question.guid) for question in found]
    assert keys[::2] == [
        {"id": "a-0"},
        {"id": 7, "question": 0},
        {"id": None, "question": 0},
        {"id": [1], "question": 0},
        {"line": 5, "question": 0},
    ]
    assert keys[3] == {"id": 7, "question": 1}


@pytest.mark.parametrize("is_own", [False, True])
def test_articles_without_questions_are_reported(tmp_path, caplog, is_own):
    empty = article(4, questions=[], options=[], answers=[])
    folder = write(tmp_path, "all.txt", article(9), empty, empty)
    caplog.set_level("WARNING", "absl")
    task, path = make(), f"{folder}/all.txt"
    examples = task.read_own(path) if is_own else task.read(path, "dev")
    assert ids(examples) == ["middle9"]
    (record,) = caplog.records
    assert record.getMessage() == (
        f"2 articles have no questions. ({folder}/all.txt, line 2, "
        f"{folder}/all.txt, line 3)"
    )


EMPTY = [["rain", "snow", "hail", ""], ["", "sky", "ship", "a b"]]
PADDED = {"pad_options": True}


@pytest.mark.parametrize(
    "options, changes, message",
    [
        ({}, {"questions": ["One?"]}, "1 questions, 2 lists of options"),
        ({}, {"answers": ["A"]}, "2 lists of options and 1 answers"),
        ({}, {"answers": ["A", "E"]}, "question 1: the answer 'E' .* B, C, D"),
        ({}, {"answers": ["A", ""]}, "question 1: the answer ''"),
        ({}, {"answers": [None, "A"]}, "question 0: the answer None"),
        ({}, {"article": " \n"}, "the article is empty"),
        ({}, {"options": [[*"abcd"], "abcd"]}, "question 1: 0 options"),
        ({}, {"questions": ["Why?", 5]}, "question 1 is 5; it must be a text"),
        ({}, {"options": THREE}, "question 1: 3 options .*`pad_options`"),
        ({}, {"options": FIVE}, "question 1: 5 options .*`pad_options`"),
        (PADDED, {"options": FIVE}, "question 1: 5 options instead of 4"),
        (PADDED, {"options": THREE}, r"the answer 'D' .* A, B, C\."),
        # An empty option stands for none, as in an exported model.
        ({}, {"options": EMPTY}, "3 options instead of 4, since an empty one"),
        (
            PADDED,
            {"options": EMPTY, "answers": ["D", "D"]},
            "not one of A, B, C",
        ),
        (
            PADDED,
            {"options": EMPTY, "answers": ["A", "A"]},
            "not one of B, C, D",
        ),
        (PADDED, {"options": [["a", "", "", ""]] * 2}, "question 0: 1 options"),
    ],
)
def test_unusable_articles_name_file_and_id(
    tmp_path, options, changes, message
):
    folder = write(tmp_path, "middle/5.txt", article(5, **changes))
    message = rf"middle/5.txt \(id middle5.txt\).*{message}"
    with refused(message):
        make(middle_only=True, **options).read(folder, "dev")


def test_missing_level_is_named(tmp_path):
    folder = write(tmp_path, "middle/5.txt", article(5))
    for path, message in (
        (folder, "high has neither all.txt"),
        ("nowhere", "nowhere does not exist"),
    ):
        with refused(message):
            make().read(path, "dev")


def test_missing_options_are_filled_up(tmp_path):
    folder = write(tmp_path, "middle/5.txt", article(5, options=EMPTY))
    examples = make(middle_only=True, **PADDED).read(folder, "dev")
    assert [example.label for example in examples] == [0, 3]
