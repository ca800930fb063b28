"""Candidates to texts, scores and files, without a model."""

import json
import math

import pytest

from albert_tf.tasks.squad import data as squad_data
from albert_tf.tasks.squad import portable
from albert_tf.tasks.squad import results as squad_results

CONTEXT = "The rain falls."
ANSWER = (squad_data.Answer("rain", 4),)
QUESTIONS = (
    squad_data.Question("a", "What?", CONTEXT, ANSWER),
    squad_data.Question("b", "Who?", CONTEXT, (), is_impossible=True),
    squad_data.Question(7, "When?", CONTEXT, ANSWER),
)
# Right for a, and for 7 the second.
N_BEST = {
    "a": [portable.Candidate("rain", 1.0, 2.0, 3.0)],
    "b": [portable.Candidate("falls", 1.0, 0.5, 0.25)],
    "7": [
        portable.Candidate("The", 0.75, 1.0, 1.0),
        portable.Candidate("rain", 0.25, 0.0, 0.5),
    ],
}
NULL_SCORES = {"a": -5.0, "b": 3.0, "7": 1.0}


def results(null_scores=NULL_SCORES, questions=QUESTIONS):
    return squad_results.Results(questions, N_BEST, null_scores)


@pytest.mark.parametrize(
    "threshold, texts",
    [
        (0.0, {"a": "rain", "b": "", "7": ""}),
        (2.0, {"a": "rain", "b": "", "7": "The"}),
        (9.0, {"a": "rain", "b": "falls", "7": "The"}),
        (-9.0, {"a": "", "b": "", "7": ""}),
    ],
)
def test_texts_above_the_threshold_are_empty(threshold, texts):
    assert results().texts(threshold) == texts


@pytest.mark.parametrize("original", [False, True])
def test_at_the_threshold_only_the_original_has_no_answer(original):
    assert portable.is_answered(2.0, 2.5, original=original)
    assert portable.is_answered(2.5, 2.5, original=original) is not original
    assert not portable.is_answered(3.0, 2.5, original=original)


def test_version_1_1_has_no_threshold():
    best = {"a": "rain", "b": "falls", "7": "The"}
    assert results(None).texts(-9.0) == best
    answered = (QUESTIONS[0], QUESTIONS[2])
    assert results(None, answered).score(-9.0) == {
        "exact_match": 50.0,
        "f1": 50.0,
    }
    assert all("null_score" not in a for a in results(None).answers(0.0))


def test_units_are_those_of_the_paragraphs_or_given():
    gold = (squad_data.Answer("北京大学", 0),)
    asked = (squad_data.Question("a", "?", "北京大学在北京。", gold),)
    for null_scores, units, score in (
        (None, None, 200 / 3),
        (None, "words", 0.0),
        ({"a": 0.0}, None, 200 / 3),
        ({"a": 0.0}, "words", 0.0),
        ({"a": 0.0}, "characters", 200 / 3),
    ):
        found = squad_results.Results(
            asked,
            {"a": [portable.Candidate("北京", 1.0, 0.0, 0.0)]},
            null_scores,
            units,
        )
        assert found.score(1.0)["f1"] == pytest.approx(score)
        if null_scores:
            # Where no text is right, the lowest threshold is as good.
            assert (found.best_threshold() == 0.0) == (score > 0)


# The questions q0 and q2 have no answer.
TEXTS = {"q0": "rain", "q1": "hill", "q2": "hill", "q3": "old hill"}
NULL = {"q0": 4.0, "q1": -2.0, "q2": 3.0, "q3": 2.0}


def decide(null, texts=TEXTS, *, original=False):
    hill = (squad_data.Answer("hill", 2),)
    asked = [
        squad_data.Question(id_, "?", "A hill.", gold, is_impossible=not gold)
        for id_, gold in zip(texts, ((), hill, (), hill), strict=True)
    ]
    n_best = {
        id_: [portable.Candidate(text, 1.0, 0.0, 0.0)]
        for id_, text in texts.items()
    }
    found = squad_results.Results(
        asked, n_best, null, original_threshold=original
    )
    threshold = found.best_threshold()
    scores = found.score(threshold)
    assert scores["null_score_diff_threshold"] == threshold
    return threshold, found.texts(threshold), scores


def test_our_threshold_answers_the_question_at_it():
    threshold, final, scores = decide(NULL)
    assert threshold == 2.0
    assert final == {"q0": "", "q1": "hill", "q2": "", "q3": "old hill"}
    assert scores["f1"] == scores["best_f1"]
    assert scores["f1"] == pytest.approx(100 * (1 + 1 + 1 + 2 / 3) / 4)
    assert scores["NoAns_f1"] == 100
    # The original loses the question at the threshold.
    threshold, final, scores = decide(NULL, original=True)
    assert threshold == 2.0
    assert final == {"q0": "", "q1": "hill", "q2": "", "q3": ""}
    assert scores["f1"] == pytest.approx(75)


def test_the_original_scores_with_a_threshold_of_one():
    """Answers with a score above 1 count as none, though they are written."""
    null = {"q0": 4.0, "q1": 1.5, "q2": 3.0, "q3": 2.0}
    threshold, final, scores = decide(null, original=True)
    assert (threshold, final["q1"]) == (2.0, "hill")
    assert scores["f1"] == 50
    _, _, ours = decide(null)
    assert ours["f1"] == pytest.approx(100 * (3 + 2 / 3) / 4)


def test_the_original_does_not_search_below_zero():
    """All scores negative, nothing right: it answers, we do not."""
    texts = dict.fromkeys(TEXTS, "wrong")
    null = {id_: score - 10 for id_, score in NULL.items()}
    below_all = math.nextafter(-12.0, -math.inf)
    threshold, _, scores = decide(null, texts)
    assert (threshold, scores["f1"]) == (below_all, 50.0)
    assert json.loads(json.dumps(below_all)) == below_all
    threshold, _, scores = decide(null, texts, original=True)
    assert (threshold, scores["f1"]) == (0.0, 0.0)


def test_answers_have_the_ids_of_the_file():
    first, second, third = results().answers(2.0)
    assert (first["id"], second["id"], third["id"]) == ("a", "b", 7)
    assert (second["prediction"], second["null_score"]) == ("", 3.0)
    assert third["n_best"][1] == {
        "text": "rain",
        "probability": 0.25,
        "start_log_prob": 0.0,
        "end_log_prob": 0.5,
    }


@pytest.mark.parametrize(
    "change, expected",
    [
        ({}, True),
        ({"answers": None}, False),
        ({"answers": (), "is_impossible": False}, False),
    ],
)
def test_all_questions_must_say_their_answers(change, expected):
    fields = {"answers": (), "is_impossible": True, **change}
    other = squad_data.Question("b", "Who?", CONTEXT, **fields)
    questions = (QUESTIONS[0], other)
    assert results(questions=questions).are_labelled is expected


def read_folder(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_files_of_labelled_questions(tmp_path):
    results().write(2.0, str(tmp_path))
    found = read_folder(tmp_path)
    assert sorted(found) == [
        "nbest_predictions.json",
        "null_odds.json",
        "predict_results.txt",
        "predictions.json",
    ]
    assert json.loads(found["predictions.json"]) == results().texts(2.0)
    assert json.loads(found["null_odds.json"]) == NULL_SCORES
    assert json.loads(found["nbest_predictions.json"])["a"][0]["text"] == "rain"
    lines = found["predict_results.txt"].splitlines()
    assert lines == sorted(lines)
    assert f"exact = {results().score(2.0)['exact']}" in lines


def test_files_of_questions_without_labels(tmp_path):
    unknown = squad_data.Question("a", "What?", CONTEXT, None)
    (tmp_path / "predict_results.txt").touch()  # Of an earlier file.
    results(None, (unknown,)).write(0.0, str(tmp_path))
    assert sorted(read_folder(tmp_path)) == [
        "nbest_predictions.json",
        "predictions.json",
    ]
