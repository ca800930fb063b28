"""RACE: both layouts, other numbers of options, scores by level."""

import json
import pathlib
import re

import numpy as np
import pytest

from albert_tf.common import errors
from albert_tf.finetuning import base, race, race_data, task_models
from albert_tf.model import modeling
from tests.albert_tf.finetuning.glue.small_tasks import Markers

ARTICLE = {
    "article": "It rains.",
    "questions": ["What falls?", "The _ is _ ."],
    "options": [["rain", "snow", "hail", "fog"], ["sea", "sky", "ship", "a b"]],
    "answers": ["A", "D"],
    "id": "high7.txt",
}


def make(tokenizer=None, max_seq_length=32, **options):
    options = {"max_qa_length": 12, **options}
    return race.RaceTask(
        tokenizer or Markers(), max_seq_length, race.RaceOptions(**options)
    )


def write(folder, name, *articles):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(a) + "\n" for a in articles))
    return str(folder)


def article(number, level="middle", **changes):
    return {**ARTICLE, "id": f"{level}{number}.txt", **changes}


@pytest.fixture
def raw_folder(tmp_path):
    """The layout of the download: one file for each article."""
    folder = tmp_path / "dev"
    for level, numbers in (("middle", (100, 20, 3)), ("high", (2, 1))):
        for number in numbers:
            name = f"{level}/{number}.txt"
            write(folder, name, article(number, level))
    return str(folder)


def ids(examples):
    return list(dict.fromkeys(e.guid.split(".")[0] for e in examples))


# Reading.


def test_middle_comes_first_and_files_are_in_the_order_of_numbers(raw_folder):
    examples = make().read(raw_folder, "dev")
    assert ids(examples) == [
        "middle3",
        "middle20",
        "middle100",
        "high1",
        "high2",
    ]
    assert [e.guid for e in examples[:3]] == [
        "middle3.txt-0",
        "middle3.txt-1",
        "middle20.txt-0",
    ]
    assert [e.level for e in examples] == ["middle"] * 6 + ["high"] * 4
    assert examples[1] == race_data.RaceQuestion(
        "middle3.txt-1",
        "middle",
        "It rains.",
        "The _ is _ .",
        ("sea", "sky", "ship", "a b"),
        3,
    )


def test_levels_can_be_left_out(raw_folder):
    assert ids(make(middle_only=True).read(raw_folder, "dev")) == [
        *("middle3", "middle20", "middle100"),
    ]
    assert ids(make(high_only=True).read(raw_folder, "dev")) == [
        *("high1", "high2"),
    ]


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


def test_missing_split_is_named(tmp_path):
    with pytest.raises(errors.UserError, match="RACE/test does not exist"):
        make().read(str(tmp_path / "RACE/test"), "test")


def test_sources_lie_in_the_folder_or_in_race_below_it(tmp_path):
    task = make()
    assert task.sources(str(tmp_path))["dev"] == str(tmp_path / "dev")
    (tmp_path / "RACE").mkdir()
    assert task.sources(str(tmp_path))["dev"] == str(tmp_path / "RACE/dev")


def test_own_articles_need_no_answers(tmp_path):
    own = {k: v for k, v in ARTICLE.items() if k != "answers"}
    path = write(tmp_path, "own.jsonl", own) + "/own.jsonl"
    examples = make().read(path, base.PREDICT)
    assert [e.label for e in examples] == [None, None]
    with pytest.raises(errors.UserError, match="no list 'answers'"):
        make().read(path, "dev")


# What gives no questions.


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


@pytest.mark.parametrize("split", ["dev", base.PREDICT])
def test_articles_without_questions_are_reported(tmp_path, caplog, split):
    empty = article(4, questions=[], options=[], answers=[])
    folder = write(tmp_path, "all.txt", article(9), empty, empty)
    caplog.set_level("WARNING", "absl")
    examples = make().read(f"{folder}/all.txt", split)
    assert ids(examples) == ["middle9"]
    (record,) = caplog.records
    assert record.getMessage() == (
        f"2 articles have no questions. ({folder}/all.txt, line 2, "
        f"{folder}/all.txt, line 3)"
    )


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"questions": ["One?"]}, "1 questions, 2 lists of options"),
        ({"answers": ["A"]}, "2 lists of options and 1 answers"),
        ({"answers": ["A", "E"]}, "question 1: the answer 'E' .* A, B, C, D"),
        ({"answers": ["A", ""]}, "question 1: the answer ''"),
        ({"answers": ["A", 3]}, "question 1: the answer 3"),
        ({"answers": [None, "A"]}, "question 0: the answer None"),
        ({"article": None}, "no text 'article'"),
        ({"article": " \n"}, "the article is empty"),
        ({"options": [["a", "b", "c", "d"], "abcd"]}, "question 1: 0 options"),
        (
            {"options": [["1", "2", "3", "4"], [1, 2, 3, 4]]},
            "question 1: an option is 1; it must be a text",
        ),
        ({"questions": ["Why?", 5]}, "question 1 is 5; it must be a text"),
    ],
)
def test_unusable_articles_name_file_and_id(tmp_path, changes, message):
    folder = write(tmp_path, "middle/5.txt", article(5, **changes))
    with pytest.raises(
        errors.UserError, match=rf"middle/5.txt \(id middle5.txt\).*{message}"
    ):
        make(middle_only=True).read(folder, "dev")


def test_missing_level_is_named(tmp_path):
    folder = write(tmp_path, "middle/5.txt", article(5))
    with pytest.raises(errors.UserError, match="high has neither all.txt"):
        make().read(folder, "dev")
    with pytest.raises(errors.UserError, match="nowhere does not exist"):
        make().read("nowhere", "dev")


# Other than four options.

THREE = [["rain", "snow", "hail", "fog"], ["sea", "sky", "ship"]]
FIVE = [["rain", "snow", "hail", "fog"], ["sea", "sky", "ship", "ice", "a"]]


@pytest.mark.parametrize("options, count", [(THREE, 3), (FIVE, 5)])
def test_other_numbers_of_options_are_refused(tmp_path, options, count):
    changed = article(5, options=options, answers=["A", "B"])
    folder = write(tmp_path, "middle/5.txt", changed)
    with pytest.raises(
        errors.UserError,
        match=rf"id middle5.txt\), question 1: {count} options .*`pad_options`",
    ):
        make(middle_only=True).read(folder, "dev")


def test_answer_must_be_among_the_options_there_are(tmp_path):
    changed = article(5, options=THREE, answers=["A", "D"])
    folder = write(tmp_path, "middle/5.txt", changed)
    with pytest.raises(errors.UserError, match="answer 'D' .* A, B, C\\."):
        make(middle_only=True, pad_options=True).read(folder, "dev")


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
        race_data.RaceQuestion(
            "a-0", "high", "It rains.", "What?", ("x", "y"), 1
        ),
        race_data.RaceQuestion(
            "a-1", "high", "It rains.", "What?", tuple("abcd"), 2
        ),
    ]
    (batch,) = task.featurize(examples, "dev")
    model = task_models.make_model(task, modeling.AlbertModel(small_config))
    # Even if nothing else has a chance.
    model.scorer.output_bias.assign([-1000.0])
    outputs = {"logits": model(batch)["logits"].numpy()}
    first, second = task.answers(outputs, examples)
    assert list(first["probabilities"]) == ["A", "B"]
    assert sum(first["probabilities"].values()) == pytest.approx(1)
    assert first["prediction"] in "AB"
    assert list(second["probabilities"]) == ["A", "B", "C", "D"]


# Options of the program.


@pytest.mark.parametrize(
    "options, message",
    [
        ({"middle_only": True, "high_only": True}, "leave nothing"),
        ({"options_at_once": 3}, "`options_at_once=3` does not divide"),
        ({"options_at_once": -1}, "options_at_once=-1"),
        ({"num_options": 1}, "`num_options=1` is below 2"),
        ({"dropout_prob": 1.0}, "dropout_prob=1.0"),
        ({"max_qa_length": 29}, "`max_qa_length=29` leaves no tokens"),
        ({"max_qa_length": 0}, "`max_qa_length=0` is below 1"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, message):
    with pytest.raises(errors.UserError, match=message):
        make(**options)


# Features.


def test_option_fills_all_gaps_or_stands_behind_the_question():
    gap = race_data.RaceQuestion(
        "a", "", "", "The _ is _ .", ("x", "y z"), None
    )
    assert make().choices(gap) == ["The x is x .", "The y z is y z ."]
    question = race_data.RaceQuestion("a", "", "", "What?", ("x", "y z"), None)
    assert make().choices(question) == ["What? x", "What? y z"]


def test_gap_is_looked_for_in_cleaned_texts(tiny_tokenizer):
    task = make(tiny_tokenizer)
    wide = race_data.RaceQuestion(
        "a", "", "", "It is\uff3f.", (" X ", "y"), None
    )
    assert task.choices(wide) == ["it isx.", "it isy."]
    vertical = race_data.RaceQuestion(
        "a", "", "", "It is \ufe4f.", ("\uff38",), None
    )
    assert task.choices(vertical) == ["it is x."]


class Numbers(Markers):
    """Texts are numbers, a piece each."""

    def encode_batch(self, texts):
        return [[int(t) for t in text.split() if t != "?"] for text in texts]


def test_choice_keeps_its_end_and_article_its_beginning():
    task = make(Numbers(), max_seq_length=9, max_qa_length=3)
    example = race_data.RaceQuestion(
        "a", "", "11 12 13 14", "21 22 ?", ("31", "32 33"), 0
    )
    ((article_ids, choices),) = task._encode([example])
    packed = [task._pack(article_ids, choice) for choice in choices]
    assert [p["input_ids"].tolist() for p in packed] == [
        [2, 11, 12, 13, 3, 21, 22, 31, 3],
        [2, 11, 12, 13, 3, 22, 32, 33, 3],
    ]
    assert packed[0]["segment_ids"].tolist() == [0, 0, 0, 0, 0, 1, 1, 1, 1]


def test_cut_texts_are_reported(caplog):
    """A choice of 4 pieces does not fit 3; beside 3, articles may have 3."""
    task = make(Numbers(), max_seq_length=9, max_qa_length=3)
    examples = [
        race_data.RaceQuestion(name, "", text, question, options, 0)
        for name, text, question, options in (
            ("fits", "11 12 13", "21", ("31", "32 33", "34", "35")),
            ("choice", "11 12", "21 22", ("31", "32 33", "34", "35")),
            ("article", "11 12 13 14", "21", ("31", "32 33", "34", "35")),
            ("short", "11 12 13 14", "21", ("31", "32", "34", "35")),
            ("both", "11 12 13 14", "21 22", ("31 32", "33", "34", "35")),
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


def test_features_fill_the_layout(raw_folder, tiny_tokenizer):
    task = make(tiny_tokenizer)
    examples = task.read(raw_folder, "dev")
    (batch,) = task.featurize(examples, "dev")
    assert {name: value.shape[1:] for name, value in batch.items()} == {
        feature.name: feature.shape for feature in task.layout("dev")
    }
    assert batch["label_ids"].tolist() == [0, 3] * 5
    assert batch["is_real_example"].all()


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


def test_level_without_questions_has_no_score():
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
