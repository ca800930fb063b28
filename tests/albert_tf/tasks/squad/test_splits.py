"""Which questions of a file are trained on, and which files are refused."""

import numpy as np
import pytest

from albert_tf.finetuning import base
from tests.albert_tf.tasks.squad.question_files import (
    CONTEXT,
    entry,
    write,
)
from tests.conftest import refused


def test_training_leaves_out_what_cannot_be_learnt(make, tmp_path, caplog):
    second = entry("second", "snow", 3)
    second["answers"] += entry("x", "the hill")["answers"]
    path = write(
        tmp_path / "f.json",
        entry("good", "the hill"),
        entry("moved", "the river", 3),
        entry("gone", "snow", 3),
        entry("none"),
        second,
    )
    kept = make().read(path, base.TRAIN)
    ids = ["good", "moved", "none", "second"]
    assert [question.id for question in kept] == ids
    assert "left out 1 questions" in caplog.text
    assert kept[1].answers[0].start == CONTEXT.index("the river")
    assert len(make().read(path, base.DEV)) == 5


@pytest.mark.parametrize(
    "texts", [("the hill", "hill"), ("snow", "the hill"), ("the hill ", "hill")]
)
def test_training_learns_the_first_answer_of_the_text(
    make, tmp_path, caplog, texts
):
    several = entry("a", texts[0], CONTEXT.find(texts[0]))
    several["answers"] += entry("b", texts[1])["answers"]
    with caplog.at_level("INFO", "absl"):
        (question,) = make().read(write(tmp_path / "f", several), base.TRAIN)
    assert "1 questions have several answers" in caplog.text
    (values,) = make().featurize([question], base.TRAIN)
    row = int(np.argmin(values["is_impossible"]))
    start, end = values["start_positions"][row], values["end_positions"][row]
    ids = values["input_ids"][row, start : end + 1]
    assert make().tokenizer.decode(ids) == "the hill"


@pytest.mark.parametrize(
    "version, split, change, message",
    [
        ("1.1", base.DEV, {}, r"`squad_version=1.1`, but 1 questions of .*b\)"),
        ("1.1", base.TEST, {}, "`squad_version=1.1`, but 1 questions of"),
        (
            *("2.0", base.TRAIN),
            {"is_impossible": False},
            r"1 questions have an empty list of answers \(the first id is b\)",
        ),
        ("2.0", base.DEV, {"is_impossible": False}, "Evaluation needs them"),
        (
            *("2.0", base.TRAIN),
            {"answers": None},
            r"1 questions have no 'answers' \(the first id is b\). Training",
        ),
        ("2.0", base.DEV, {"answers": None}, "Evaluation needs them"),
    ],
)
def test_files_that_do_not_fit(version, split, change, message, make, tmp_path):
    wrong = {**entry("b"), **change}
    wrong = {key: value for key, value in wrong.items() if value is not None}
    path = write(tmp_path / "f.json", entry("a", "the hill"), wrong)
    with refused(message):
        make(squad_version=version).read(path, split)


def test_a_set_says_how_it_is_scored(make, tmp_path, caplog):
    path = write(tmp_path / "f.json", entry("a", "the hill"))
    with caplog.at_level("INFO", "absl"):
        make().read(path, base.DEV)
        make(answer_units="characters").read(path, base.DEV)
    assert [m for m in caplog.messages if "scored" in m] == [
        f"{path}: scored by words (`answer_units`)"
    ]


def test_nothing_left_to_learn(make, tmp_path):
    path = write(tmp_path / "f.json", entry("a", "snow", 0))
    with refused("nothing is left to train on"):
        make().read(path, base.TRAIN)


def test_a_test_file_needs_no_answers(make, tmp_path):
    unlabelled = entry("a")
    del unlabelled["answers"], unlabelled["is_impossible"]
    (question,) = make().read(write(tmp_path / "f", unlabelled), base.TEST)
    assert question.answers is None
