import itertools
import json
import lzma
import math

import pytest

from albert_tf.tasks.squad import data as squad_data
from albert_tf.tasks.squad import metrics as squad_metrics

PUBLISHED = [
    "v1.1_bert_ensemble",
    "v1.1_logistic_regression",
    "v1.1_match_lstm",
    "v1.1_slqa_plus",
    "v1.1_rnet_plus",
    "v2.0_bert_single",
    "v2.0_bidaf_elmo",
    "v2.0_nlnet",
]


def load(path):
    return json.loads(lzma.decompress(path.read_bytes()))


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_predictions_have_the_official_scores(name, shared_dir):
    folder = shared_dir / "data" / "squad"
    scores = json.loads(
        (folder / "predictions" / "expected_scores.json").read_text()
    )
    assert scores.keys() == set(PUBLISHED)
    predictions = load(folder / "predictions" / f"{name}.json.xz")
    version = name[1:4]
    content = load(folder / f"dev-v{version}.json.xz")
    questions = squad_data.parse(content, version)
    expected = scores[name]
    if version == "1.1":
        answered = sum(q.id in predictions for q in questions)
        assert answered == expected.pop("answered")
        assert len(questions) == expected.pop("total")
        found = squad_metrics.score_version_1(questions, predictions)
    else:
        found = squad_metrics.score_version_2(questions, predictions)
    assert found == expected


@pytest.mark.parametrize(
    "text, normalized",
    [
        ("The  U.S. dollar!", "us dollar"),
        ("A an the", ""),
        ("theatre an-other", "theatre another"),
        (" Über\t“x” ", "über “x”"),
    ],
)
def test_normalization(text, normalized):
    assert " ".join(squad_metrics.words(text)) == normalized


@pytest.mark.parametrize(
    "gold, predicted, expected",
    [
        ("late 1990s", "the late nineties", 0.5),
        ("a b b", "b b c", 0.8),
        ("rain", "snow", 0.0),
        ("", "", 1.0),
        ("the", "a", 1.0),
        ("", "rain", 0.0),
        ("rain", "", 0.0),
    ],
)
def test_f1(gold, predicted, expected):
    assert squad_metrics.f1(gold, predicted) == pytest.approx(expected)


@pytest.mark.parametrize(
    "gold, predicted, exact, overlap",
    [
        ("北京大学", "北京大学。", 1, 1.0),
        ("《红楼梦》", "红楼梦", 1, 1.0),
        ("北京大学", "北京", 0, 2 / 3),
        ("1791年", "1791", 0, 2 / 3),
        ("1791年", "179", 0, 0.0),
        ("ＡＬＢＥＲＴ", "ａｌｂｅｒｔ", 1, 1.0),
        ("カフェ・ド", "カフェ", 0, 6 / 7),
        ("กรุงเทพ", "กรุง", 0, 8 / 11),
        ("New York 市", "new york", 0, 0.8),
        ("。", "、", 1, 1.0),
        ("1＋1＝2", "1+1=2", 1, 1.0),
    ],
)
def test_characters_count_where_there_are_no_spaces(
    gold, predicted, exact, overlap
):
    units = "characters"
    assert squad_metrics.exact_match(gold, predicted, units) == exact
    found = squad_metrics.f1(gold, predicted, units)
    assert found == pytest.approx(overlap)
    asked = [question("a", gold)]
    for scores in (
        squad_metrics.score_version_1(asked, {"a": predicted}, units),
        squad_metrics.score_version_2(asked, {"a": predicted}, units=units),
    ):
        name = "exact" if "exact" in scores else "exact_match"
        assert scores[name] == 100 * exact
        if squad_metrics.characters(gold):
            assert scores["f1"] == pytest.approx(100 * overlap)


@pytest.mark.parametrize(
    "contexts, units",
    [
        (["北京大学在北京。"], "characters"),
        (["カフェ ALBERT と猫がいる"], "characters"),
        (["กรุงเทพ เป็น เมือง"], "characters"),
        (["Huineng (惠能) was a monk."], "words"),
        (["한국어 문장", "हिन्दी वाक्य", "1791"], "words"),
        (["A title", "北京大学在北京。" * 3], "characters"),
        # A paragraph counts once for all of its questions.
        (["A long title in words", *["北京"] * 20], "words"),
        (["ab 北京"], "words"),
        (["a 北京"], "characters"),
        ([""], "words"),
        ([], "words"),
    ],
)
def test_units_are_chosen_by_the_paragraphs(contexts, units):
    asked = [question(str(n), "x", context=c) for n, c in enumerate(contexts)]
    assert squad_metrics.units_of(asked) == units


def test_units_of_real_sets(shared_dir):
    """Each with its own script: SQuAD, JSQuAD, and XQuAD's Chinese."""
    for name, units in (
        ("squad/dev-v1.1", "words"),
        ("ja/jsquad_dev", "characters"),
        ("multi/xquad.zh", "characters"),
        ("multi/xquad.ar", "words"),
    ):
        content = load(shared_dir / f"data/{name}.json.xz")
        questions = squad_data.parse(content, name)
        assert squad_metrics.units_of(questions) == units


def question(id_, *answers, context="text"):
    return squad_data.Question(
        id_,
        "?",
        context,
        tuple(squad_data.Answer(text, 0) for text in answers),
        is_impossible=not answers,
    )


def test_version_1_counts_missing_predictions_as_wrong():
    questions = [question("a", "rain", "wet rain"), question("b", "snow")]
    scores = squad_metrics.score_version_1(questions, {"a": "Wet rain."})
    assert scores == {"exact_match": 50.0, "f1": 50.0}


def test_version_1_has_nothing_for_answers_that_normalize_to_nothing():
    """Unlike version 2.0; the official scripts differ so."""
    questions = [question("a", "the")]
    scores = squad_metrics.score_version_1(questions, {"a": "an"})
    assert scores == {"exact_match": 100.0, "f1": 0.0}
    scores = squad_metrics.score_version_2(questions, {"a": "an"})
    assert (scores["exact"], scores["f1"]) == (100.0, 100.0)


QUESTIONS = [question("a", "rain"), question("b"), question("c", "snow")]
TEXTS = {"a": "rain", "b": "hail", "c": "deep snow"}
NULL = {"a": -3.0, "b": 2.0, "c": -1.0, "of another file": -2.0}


def test_version_2_leaves_missing_predictions_out():
    scores = squad_metrics.score_version_2(QUESTIONS, {"a": "rain", "b": ""})
    assert scores == {
        "exact": 100.0,
        "f1": 100.0,
        "total": 2,
        "HasAns_exact": 100.0,
        "HasAns_f1": 100.0,
        "HasAns_total": 1,
        "NoAns_exact": 100.0,
        "NoAns_f1": 100.0,
        "NoAns_total": 1,
    }


def test_version_2_has_no_part_without_questions():
    scores = squad_metrics.score_version_2(
        [QUESTIONS[0], QUESTIONS[2]], {"a": "rain", "c": "no"}
    )
    assert scores == {
        "exact": 50.0,
        "f1": 50.0,
        "total": 2,
        "HasAns_exact": 50.0,
        "HasAns_f1": 50.0,
        "HasAns_total": 2,
    }


@pytest.mark.parametrize(
    "threshold, exact", [(-4.0, 1), (-3.0, 2), (1.0, 2), (2.0, 1)]
)
def test_version_2_applies_the_threshold(threshold, exact):
    scores = squad_metrics.score_version_2(
        QUESTIONS, TEXTS, NULL, threshold=threshold, floor=-math.inf
    )
    assert scores["exact"] == pytest.approx(100 * exact / 3)
    assert scores["best_exact"] == pytest.approx(200 / 3)
    assert scores["best_exact_thresh"] == -3.0
    assert scores["best_f1"] == pytest.approx(100 * (1 + 1 + 2 / 3) / 3)
    assert scores["best_f1_thresh"] == -1.0


def test_best_threshold_is_the_best_of_all():
    """Against trying every threshold; one answer is none already."""
    asked, texts = [*QUESTIONS, question("d")], {**TEXTS, "d": ""}
    scores = squad_metrics.raw_scores(asked, texts, squad_metrics.f1)
    has_answer = {q.id: bool(q.answers) for q in asked}
    for values in itertools.permutations((-6.0, -2.5, 0.5, 4.0)):
        null = dict(zip(texts, values, strict=True))
        best, at = squad_metrics.best_threshold(scores, texts, null, has_answer)
        tried = {
            threshold: squad_metrics.score_version_2(
                asked, texts, null, threshold=threshold
            )["f1"]
            for threshold in (-math.inf, *values)
        }
        assert best == pytest.approx(max(tried.values()))
        assert at == min(t for t in tried if tried[t] > best - 1e-6)


def test_search_from_zero_as_the_official_script_has_it():
    """Where no text is right, nothing should be answered; 0 says otherwise."""
    texts = dict.fromkeys(TEXTS, "wrong")
    asked = [*QUESTIONS, question("without a prediction", "rain")]
    for given, at in (({}, 0.0), ({"floor": -math.inf}, -math.inf)):
        found = squad_metrics.score_version_2(asked, texts, NULL, **given)
        assert (found["best_f1"], found["best_f1_thresh"]) == (100 / 3, at)
        assert found["best_exact_thresh"] == at
