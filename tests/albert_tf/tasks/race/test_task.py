"""RACE: both layouts, other numbers of options, scores by level."""

import dataclasses
import json

import numpy as np
import pytest

from albert_tf.finetuning import base
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.tasks.race import data as race_data
from albert_tf.tasks.race import task as race
from tests.albert_tf.tasks.glue.small_tasks import Markers
from tests.albert_tf.tasks.race.articles import (
    FIVE,
    THREE,
    article,
    make,
    write,
)
from tests.conftest import refused


def test_sources_lie_in_the_folder_or_in_race_below_it(tmp_path):
    task = make()
    assert task.sources(str(tmp_path))["dev"] == str(tmp_path / "dev")
    (tmp_path / "RACE").mkdir()
    assert task.sources(str(tmp_path))["dev"] == str(tmp_path / "RACE/dev")


# Other than four options.


@pytest.mark.parametrize("options, count", [(THREE, 4), (FIVE, 5)])
def test_questions_are_filled_up_on_demand(
    tmp_path, tiny_tokenizer, options, count
):
    changed = article(5, options=options, answers=["A", "B"])
    folder = write(tmp_path, "middle/5.txt", changed)
    task = make(
        tiny_tokenizer, middle_only=True, pad_options=True, num_options=count
    )
    examples = task.read(folder, "dev")
    (batch,) = task.featurize(examples, "dev")
    assert batch["input_ids"].shape == (2, count, 32)
    real = batch["input_mask"].any(-1).sum(-1)
    assert real.tolist() == [len(o) for o in options]


def test_filling_is_never_chosen(small_config, tiny_tokenizer):
    task = make(tiny_tokenizer, pad_options=True)
    examples = [
        race_data.RaceQuestion("a", "high", "It rains.", "What?", options, 1)
        for options in (("x", "y"), tuple("abcd"), ("", "b", "", "d"))
    ]
    (batch,) = task.featurize(examples, "dev")
    model = task.make_model(AlbertModel(small_config))
    # Even if nothing else has a chance.
    model.scorer.output_bias.assign([-1000.0])
    outputs = {"logits": model(batch)["logits"].numpy()}
    first, second, gaps = task.answers(outputs, examples)
    assert list(first["probabilities"]) == ["A", "B"]
    assert sum(first["probabilities"].values()) == pytest.approx(1)
    assert first["prediction"] in "AB"
    assert list(second["probabilities"]) == ["A", "B", "C", "D"]
    assert list(gaps["probabilities"]) == ["B", "D"]
    assert sum(gaps["probabilities"].values()) == pytest.approx(1)
    assert gaps["prediction"] in "BD"


# Options of the program.


@pytest.mark.parametrize(
    "options, message",
    [
        ({"middle_only": True, "high_only": True}, "leave nothing"),
        ({"max_qa_length": 29}, "`max_qa_length=29` leaves no tokens"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, message):
    with refused(message):
        make(**options)


# Features.


def test_option_fills_all_gaps_or_stands_behind_the_question():
    for question, choices in (
        ("The _ is _ .", ["The x is x .", "The y z is y z ."]),
        ("___ is __.", ["x is x.", "y z is y z."]),
        ("It is _____", ["It is x", "It is y z"]),
        ("_ _  __ rains.", ["x rains.", "y z rains."]),
        ("_", ["x", "y z"]),
        ("What?", ["What? x", "What? y z"]),
    ):
        options = "x", "y z"
        asked = race_data.RaceQuestion("a", "", "", question, options, None)
        assert make().choices(asked) == choices


def test_gap_is_looked_for_in_cleaned_texts(tiny_tokenizer):
    task = make(tiny_tokenizer)
    for question, options, choices in (
        ("It is\uff3f.", (" X ", "y"), ["it isx.", "it isy."]),
        ("It is _\uff3f_.", ("x",), ["it is x."]),
        ("It is \ufe4f.", ("\uff38",), ["it is x."]),
    ):
        asked = race_data.RaceQuestion("a", "", "", question, options, None)
        assert task.choices(asked) == choices


class Numbers(Markers):
    """Texts are numbers, a piece each."""

    def encode_batch(self, texts):
        return [[int(t) for t in text.split() if t != "?"] for text in texts]


def test_choice_keeps_its_end_and_article_its_beginning():
    task = make(Numbers(), max_seq_length=9, max_qa_length=3)
    example = race_data.RaceQuestion(
        "a", "", "11 12 13 14", "21 22 ?", ("31", "32 33"), 1
    )
    (found,) = task.featurize([example], base.TRAIN)
    assert found["input_ids"][0, :2].tolist() == [
        [2, 11, 12, 13, 3, 21, 22, 31, 3],
        [2, 11, 12, 13, 3, 22, 32, 33, 3],
    ]
    assert found["segment_ids"][0, 0].tolist() == [0, 0, 0, 0, 0, 1, 1, 1, 1]
    assert not found["input_mask"][0, 2:].any()
    for name in ("label_ids", "is_real_example"):
        assert found[name].tolist() == [1]


def test_cut_texts_are_reported(caplog):
    """A choice of 4 pieces does not fit 3; beside 3, articles may have 3."""
    task = make(Numbers(), max_seq_length=9, max_qa_length=3)
    examples = [
        race_data.RaceQuestion(
            name, "", text, question, (one, "3", "4", "5"), 0
        )
        for name, text, question, one in (
            ("fits", "11 12 13", "21", "32 33"),
            ("choice", "11 12 13", "21 22", "32 33"),
            ("article", "11 12 13 14", "21", "32 33"),
            ("short", "11 12 13 14", "21", "32"),
            ("both", "11 12 13 14", "21 22", "31 32"),
        )
    ]
    caplog.set_level("WARNING", "absl")
    list(task.featurize(examples[:1], "train"))
    assert not caplog.records
    list(task.featurize(examples, "train"))
    assert [record.getMessage() for record in caplog.records] == [
        "2 questions have a choice longer than `max_qa_length=3`, which is cut "
        "at its beginning. (choice, both)",
        "2 questions have an article that does not fit beside the choice into "
        "`max_seq_length=9`; it is cut at its end. (article, both)",
    ]


# Scores and predictions.

EXAMPLES = [
    race_data.RaceQuestion("m-0", "middle", "", "", tuple("abcd"), 0),
    race_data.RaceQuestion("m-1", "middle", "", "", tuple("abcd"), 1),
    race_data.RaceQuestion("h-0", "high", "", "", tuple("abcd"), 2),
    race_data.RaceQuestion("h-1", "high", "", "", tuple("abcd"), 3),
    race_data.RaceQuestion("h-2", "high", "", "", tuple("abcd"), 0),
]
# Right are m-0 and all of high but the last.
LOGITS = np.eye(4)[[0, 0, 2, 3, 1]]


def test_accuracy_of_levels_and_of_all():
    scores = make().score({"logits": LOGITS}, EXAMPLES)
    assert scores.pop("loss") > 0
    assert scores == {
        "accuracy": 0.6,
        "accuracy_middle": 0.5,
        "accuracy_high": pytest.approx(2 / 3),
    }
    scores = make().score({"logits": LOGITS[:2]}, EXAMPLES[:2])
    assert scores.keys() == {"accuracy", "accuracy_middle", "loss"}


def test_prediction_files(tmp_path):
    make().write_predictions(
        {"logits": LOGITS}, EXAMPLES, "test", str(tmp_path)
    )
    lines = (tmp_path / "test_predictions.jsonl").read_text().splitlines()
    answers = [json.loads(line) for line in lines]
    assert [a["id"] for a in answers] == [e.guid for e in EXAMPLES]
    assert [a["prediction"] for a in answers] == list("AACDB")
    assert answers[0]["probabilities"]["A"] == pytest.approx(np.e / (np.e + 3))
    text = (tmp_path / "predict_results.txt").read_text()
    assert text.startswith("accuracy = 0.6\naccuracy_high = 0.66")


def test_settings_name_what_features_follow_from():
    """An option that changes the records must be in the key."""
    usual = race.RaceOptions(128, 4, False, False, False, 0.1)
    assert race.RaceOptions() == usual
    options = race.RaceOptions(max_qa_length=12)
    task = race.RaceTask(None, 32, options)
    assert task.settings == {
        "task_name": "race",
        "max_seq_length": 32,
        "max_qa_length": 12,
        "num_options": 4,
        "middle_only": False,
        "high_only": False,
    }
    fields = {field.name for field in dataclasses.fields(options)}
    # These decide about the model, or about what is refused.
    assert fields - task.settings.keys() == {"dropout_prob", "pad_options"}
