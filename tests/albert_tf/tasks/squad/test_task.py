import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data import lengths, parsing, tfrecord
from albert_tf.finetuning import base
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.tasks.squad import data as squad_data
from albert_tf.tasks.squad import features as squad_features
from albert_tf.tasks.squad import task as squad
from tests.albert_tf.tasks.squad.question_files import (
    LENGTH,
    content_of,
    entry,
)
from tests.conftest import refused


@pytest.fixture
def questions():
    entries = entry("a", "the hill"), entry("b"), entry("c", "the river")
    content = content_of(*entries, entry("d"))
    return squad_data.parse(content, "f.json")


def without_answers(questions):
    return [
        squad_data.Question(q.id, q.text, q.context, None) for q in questions
    ]


def windows_of(task, questions):
    settings = squad_features.PassageWindows(8, 10)
    return squad_features.make_windows(
        questions, task.tokenizer, settings, LENGTH
    )


def perfect_outputs(task, questions):
    """What a model that knows all answers says."""
    windows = windows_of(task, questions)
    found = squad_features.find_answers(windows, questions)
    start, end = found["start_positions"], found["end_positions"]
    total = len(windows)
    if "start_logits" in names_of(task):
        logits = np.zeros([2, total, LENGTH], np.float32)
        rows = np.arange(total)
        logits[0, rows, start] = logits[1, rows, end] = 9
        return {"start_logits": logits[0], "end_logits": logits[1]}
    return {
        "start_top_index": np.stack([start, start * 0], 1),
        "start_top_log_probs": np.tile([-0.1, -3.0], [total, 1]),
        "end_top_index": np.stack([end, end * 0] * 2, 1),
        "end_top_log_probs": np.tile([-0.1, -2.0, -0.1, -2.0], [total, 1]),
        "cls_logits": np.where(found["is_impossible"], 5.0, -7.0),
    }


def names_of(task):
    one = task.objective().losses
    return ("cls_logits",) if "answer_loss" in one else ("start_logits",)


def test_records_of_each_split(make, questions):
    task = make()
    (training,) = task.featurize(questions, base.TRAIN)
    (dev,) = task.featurize(questions, base.DEV)
    assert set(training) - set(dev) == {
        "start_positions",
        "end_positions",
        "is_impossible",
    }
    for split, values in ((base.TRAIN, training), (base.DEV, dev)):
        layout = task.layout(split)
        assert {f.name for f in layout} == values.keys()
        # predict.py takes whatever is not of a signed type for a float.
        assert {array.dtype.kind for array in values.values()} == {"i"}
        messages = tfrecord.encode_batch(layout, values)
        parsed = parsing.parse(layout, tf.constant(messages))
        for name, array in values.items():
            assert (parsed[name].numpy() == array).all()
    assert len(dev["input_ids"]) > len(questions)


def test_settings_name_what_features_follow_from(make):
    assert squad.SquadOptions() == squad.SquadOptions("2.0", 5, 5, 0.1)
    assert make().settings == {
        "task_name": "squad",
        "max_seq_length": LENGTH,
        "doc_stride": 8,
        "max_query_length": 10,
    }


@pytest.mark.parametrize("version", squad.VERSIONS)
def test_heads_and_outputs(version, make, questions, small_config):
    if version == "1.1":
        questions = [q for q in questions if q.answers]
    task = make(squad_version=version, start_n_top=3, end_n_top=2)
    model = task.make_model(AlbertModel(small_config))
    (values,) = task.featurize(questions, base.DEV)
    batch = {name: tf.constant(array) for name, array in values.items()}
    batch = {name: tf.cast(array, tf.int32) for name, array in batch.items()}
    outputs = {name: v.numpy() for name, v in model(batch).items()}
    assert "cls_logits" in outputs or version == "1.1"
    scores = task.score(outputs, questions)
    assert 0 <= scores[task.key_metric] <= 100
    answers = list(task.answers(outputs, questions))
    assert [answer["id"] for answer in answers] == [q.id for q in questions]
    # Every trained variable gets a gradient.
    (values,) = task.featurize(questions, base.TRAIN)
    batch = {k: tf.cast(v, tf.int32) for k, v in values.items()}
    batch["is_real_example"] = tf.ones(len(values["input_ids"]), tf.int32)
    with tf.GradientTape() as tape:
        ratios = task.objective().weighted_sums(
            model, batch, tf.constant([1, 2])
        )
        loss = task.objective().total(
            ratios, {k: r.denominator for k, r in ratios.items()}
        )
    gradients = tape.gradient(loss, model.trainable_variables)
    # The pooler has no part in it.
    assert {
        variable.name.split("/")[1]
        for variable, gradient in zip(
            model.trainable_variables, gradients, strict=True
        )
        if gradient is None
    } == {"pooler"}


@pytest.mark.parametrize("version", squad.VERSIONS)
def test_right_outputs_have_full_scores(version, make, questions):
    if version == "1.1":
        questions = [q for q in questions if q.answers]
    task = make(squad_version=version)
    scores = task.score(perfect_outputs(task, questions), questions)
    assert scores["f1"] == 100
    if version == "1.1":
        assert scores == {"exact_match": 100, "f1": 100}
    else:
        assert (scores["HasAns_exact"], scores["NoAns_exact"]) == (100, 100)
        assert scores["null_score_diff_threshold"] == -7


def test_prediction_files(make, questions, tmp_path):
    task = make()
    outputs = perfect_outputs(task, questions)
    task.write_predictions(outputs, questions, base.TEST, str(tmp_path))
    predictions, odds, n_best = (
        json.loads((tmp_path / f"{name}.json").read_text())
        for name in ("predictions", "null_odds", "nbest_predictions")
    )
    expected = {"a": "the hill", "b": "", "c": "the river", "d": ""}
    assert predictions == expected
    assert odds == {"a": -7, "b": 5, "c": -7, "d": 5}
    assert list(n_best) == list(expected)
    assert n_best["a"][0]["text"] == "the hill"
    results = (tmp_path / "predict_results.txt").read_text()
    assert "f1 = 100.0\n" in results


def predicted(task, outputs, questions):
    return {a["id"]: a["prediction"] for a in task.answers(outputs, questions)}


def test_threshold_for_new_questions(make, questions, caplog):
    """The option's, else that of the last scoring, else an even chance."""
    new = without_answers(questions)
    outputs = perfect_outputs(make(), questions)
    outputs["cls_logits"] = outputs["cls_logits"] + 8  # 1 and 13.
    nothing = dict.fromkeys("abcd", "")
    everything = {"a": "the hill", "b": "", "c": "the river", "d": ""}

    assert predicted(make(), outputs, new) == nothing
    assert "Without `null_score_diff_threshold`" in caplog.text
    task = make()
    task.remember(task.score(outputs, questions))
    assert predicted(task, outputs, new) == everything
    task = make()
    task.remember({"f1": 1.0})
    assert predicted(task, outputs, new) == nothing
    task.remember({"null_score_diff_threshold": 2.0})
    task.remember({"f1": 1.0})
    assert predicted(task, outputs, new) == everything
    # Of several runs, the last is not the best.
    task.remember({"null_score_diff_threshold": -9.0})
    assert predicted(task, outputs, new) == nothing
    task = make(null_score_diff_threshold=1.0)
    task.remember({"null_score_diff_threshold": -9.0})
    assert predicted(task, outputs, new) == everything
    task = make(null_score_diff_threshold=0.5)
    assert predicted(task, outputs, questions) == nothing
    assert task.score(outputs, questions)["f1"] == 50


def test_the_original_threshold_is_an_option(make, questions):
    outputs = perfect_outputs(make(), questions)
    assert make().score(outputs, questions)["f1"] == 100
    # Both answered questions stand at the threshold, and one is lost by "<".
    outputs["cls_logits"] = outputs["cls_logits"].astype(np.float64)
    original = make(original_threshold=True)
    scores = original.score(outputs, questions)
    assert scores["null_score_diff_threshold"] == -7
    assert scores["f1"] == 50


def test_an_ensemble_averages(make, questions):
    task = make()
    outputs = perfect_outputs(task, questions)
    unsure = {**outputs, "cls_logits": outputs["cls_logits"] * 0 + 1}
    combined = task.combine([outputs, unsure])
    assert task.score(combined, questions)["f1"] == 100
    found = [task.answers(values, questions) for values in (outputs, combined)]
    for one, both in zip(*found, strict=True):
        mean = (one["null_score"] + 1) / 2
        assert both["null_score"] == pytest.approx(mean)
    task = make(squad_version="1.1")
    runs = [
        {"start_logits": n * np.ones(2), "end_logits": n * np.ones(2) + 5}
        for n in (1, 4)
    ]
    found = {k: v.tolist() for k, v in task.combine(runs).items()}
    assert found == {"start_logits": [2.5] * 2, "end_logits": [7.5] * 2}


def test_outputs_for_each_token_and_the_shortest_batch(make):
    task = make(squad_version="1.1")
    assert set(task.output_widths) == {"start_logits", "end_logits"}
    task = make(start_n_top=70, end_n_top=90)
    assert task.output_widths == dict.fromkeys(
        ("start_log_probs", "end_log_probs"), LENGTH
    )
    assert task.shortest == 90
    assert make(start_n_top=1, end_n_top=1).shortest == lengths.SHORTEST


def test_texts_alone_have_scores(make, questions):
    found = make().score_texts(["the hill", "", "x", ""], questions)
    assert (found["f1"], found["HasAns_f1"]) == (75, 50)
    texts, answered = ["the hill", "x"], [questions[0], questions[2]]
    task = make(squad_version="1.1")
    found = task.score_texts(texts, answered)
    assert found == {"exact_match": 50, "f1": 50}
    task = make(squad_version="1.1", answer_units="characters")
    assert task.score_texts(["hill", "x"], answered)["f1"] < 50


# Reading.


def test_a_paragraph_of_nothing_is_reported(make, caplog):
    questions = [squad_data.Question("a", "What?", "\u0301", None)]
    assert list(make().featurize(questions, base.TEST)) == []
    assert "1 questions have no window" in caplog.text


def test_long_questions_are_reported(make, questions, caplog):
    with caplog.at_level("INFO", "absl"):
        list(make(max_query_length=1).featurize(questions, base.TEST))
    assert "4 questions are longer than `max_query_length=1" in caplog.text


def test_sequences_need_room_for_the_paragraph(make):
    with refused("`max_seq_length=24` leaves no"):
        make(max_query_length=21)
