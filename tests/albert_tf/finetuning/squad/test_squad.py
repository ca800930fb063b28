import dataclasses
import json
import pickle

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import run_squad
from albert_tf.common import errors, options
from albert_tf.data import parsing, tfrecord
from albert_tf.finetuning import base, task_models
from albert_tf.finetuning.squad import squad, squad_data, squad_features
from albert_tf.model.network.encoder import AlbertModel
from tests.albert_tf.finetuning.squad.question_files import (
    CONTEXT,
    LENGTH,
    entry,
    write,
)


@pytest.fixture
def questions():
    content = {
        "data": [
            {
                "paragraphs": [
                    {
                        "context": CONTEXT,
                        "qas": [
                            entry("a", "the hill"),
                            entry("b"),
                            entry("c", "the river"),
                            entry("d"),
                        ],
                    }
                ]
            }
        ]
    }
    return squad_data.parse(content, "f.json")[0]


def without_answers(questions):
    return [
        squad_data.Question(q.id, q.text, q.context, None) for q in questions
    ]


def windows_of(task, questions):
    settings = squad_features.WindowOptions(8, 10)
    return squad_features.make_windows(
        questions, task.tokenizer, settings, LENGTH
    )


def perfect_outputs(task, questions):
    """What a model that knows all answers says."""
    windows = windows_of(task, questions)
    found = squad_features.find_answers(windows, questions)
    total = len(windows)
    if "start_logits" in names_of(task):
        logits = np.zeros([2, total, LENGTH], np.float32)
        rows = np.arange(total)
        logits[0, rows, found.start] = logits[1, rows, found.end] = 9
        return {"start_logits": logits[0], "end_logits": logits[1]}
    return {
        "start_top_index": np.stack([found.start, found.start * 0], 1),
        "start_top_log_probs": np.tile([-0.1, -3.0], [total, 1]),
        "end_top_index": np.stack([found.end, found.end * 0] * 2, 1),
        "end_top_log_probs": np.tile([-0.1, -2.0, -0.1, -2.0], [total, 1]),
        "cls_logits": np.where(found.is_impossible, 5.0, -7.0),
    }


def names_of(task):
    one = task_models.objective(task).losses
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
    assert make().settings == {
        "task_name": "squad",
        "max_seq_length": LENGTH,
        "doc_stride": 8,
        "max_query_length": 10,
    }


def test_a_task_can_be_sent_to_another_process(make, questions):
    task = make()
    other = pickle.loads(pickle.dumps(task))
    (ours,) = task.featurize(questions, base.DEV)
    (theirs,) = other.featurize(questions, base.DEV)
    assert all((ours[name] == theirs[name]).all() for name in ours)


@pytest.mark.parametrize("version", squad.VERSIONS)
def test_heads_and_outputs(version, make, questions, small_config):
    if version == "1.1":
        questions = [q for q in questions if q.answers]
    task = make(squad_version=version, start_n_top=3, end_n_top=2)
    model = task_models.make_model(task, AlbertModel(small_config))
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
        ratios = task_models.objective(task).weighted_sums(
            model, batch, tf.constant([1, 2])
        )
        loss = task_models.objective(task).total(
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
    found = {path.stem: path for path in tmp_path.iterdir()}
    assert found.keys() == {
        "predictions",
        "nbest_predictions",
        "null_odds",
        "predict_results",
    }
    predictions = json.loads(found["predictions"].read_text())
    expected = {"a": "the hill", "b": "", "c": "the river", "d": ""}
    assert predictions == expected
    odds = json.loads(found["null_odds"].read_text())
    assert odds == {"a": -7, "b": 5, "c": -7, "d": 5}
    n_best = json.loads(found["nbest_predictions"].read_text())
    assert list(n_best) == list(expected)
    first = n_best["a"][0]
    assert first.pop("probability") > 0
    assert first == {
        "text": "the hill",
        "start_log_prob": -0.1,
        "end_log_prob": -0.1,
    }
    assert "f1 = 100.0\n" in found["predict_results"].read_text()


def test_ids_that_are_numbers_come_back_as_such(make, questions, tmp_path):
    task = make(squad_version="1.1")
    numbered = [
        dataclasses.replace(q, id=str(n), has_number=True)
        for n, q in enumerate(questions)
        if q.answers
    ]
    outputs = perfect_outputs(task, numbered)
    answers = list(task.answers(outputs, numbered))
    assert [a["id"] for a in answers] == [0, 2]
    task.write_predictions(outputs, numbered, base.TEST, str(tmp_path))
    # The keys of a JSON object are texts.
    texts = json.loads((tmp_path / "predictions.json").read_text())
    assert texts == {str(a["id"]): a["prediction"] for a in answers}


def test_prediction_files_of_version_1_1(make, questions, tmp_path):
    questions = [q for q in questions if q.answers]
    task = make(squad_version="1.1")
    outputs = perfect_outputs(task, questions)
    questions = without_answers(questions)
    task.write_predictions(outputs, questions, base.TEST, str(tmp_path))
    found = {path.name for path in tmp_path.iterdir()}
    assert found == {"predictions.json", "nbest_predictions.json"}
    predictions = json.loads((tmp_path / "predictions.json").read_text())
    assert predictions == {"a": "the hill", "c": "the river"}


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
    task.score(outputs, questions)
    assert predicted(task, outputs, new) == everything
    task = make()
    task.remember({"f1": 1.0})
    assert predicted(task, outputs, new) == nothing
    task.remember({"null_score_diff_threshold": 2.0})
    assert predicted(task, outputs, new) == everything
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


@pytest.mark.parametrize("version", squad.VERSIONS)
def test_an_ensemble_of_equals_is_one_of_them(version, make, questions):
    if version == "1.1":
        questions = [q for q in questions if q.answers]
    task = make(squad_version=version)
    outputs = perfect_outputs(task, questions)
    combined = task.combine([outputs] * 3)
    alone = list(task.answers(outputs, questions))
    together = list(task.answers(combined, questions))
    for one, mean in zip(alone, together, strict=True):
        assert one["prediction"] == mean["prediction"]
        texts = [entry["text"] for entry in one["n_best"]]
        assert texts == [entry["text"] for entry in mean["n_best"]]
        assert one.get("null_score") == mean.get("null_score")


def test_an_ensemble_averages(make, questions, tmp_path):
    task = make()
    outputs = perfect_outputs(task, questions)
    unsure = {**outputs, "cls_logits": outputs["cls_logits"] * 0 + 1}
    combined = task.combine([outputs, unsure])
    assert task.score(combined, questions)["f1"] == 100
    found = {
        name: null_odds(task, values, questions, tmp_path / name)
        for name, values in (("one", outputs), ("both", combined))
    }
    expected = {id_: (odds + 1) / 2 for id_, odds in found["one"].items()}
    assert found["both"] == pytest.approx(expected)


def null_odds(task, outputs, questions, folder):
    folder.mkdir()
    task.write_predictions(outputs, questions, base.DEV, str(folder))
    return json.loads((folder / "null_odds.json").read_text())


# Reading.


def test_a_paragraph_of_nothing_is_reported(make, caplog):
    questions = [squad_data.Question("a", "What?", "\u0301", None)]
    assert list(make().featurize(questions, base.TEST)) == []
    assert "1 questions have no window" in caplog.text


def test_long_questions_are_reported(make, questions, caplog):
    with caplog.at_level("INFO", "absl"):
        list(make(max_query_length=1).featurize(questions, base.TEST))
    assert "4 questions are longer than `max_query_length=1" in caplog.text


@pytest.mark.parametrize(
    "values, message",
    [
        ({"start_n_top": 0}, "`start_n_top=0` is below 1"),
        ({"end_n_top": -1}, "`end_n_top=-1` is below 1"),
        ({"dropout_prob": 1.0}, "`dropout_prob=1.0` is not below 1"),
        ({"max_query_length": 21}, "`max_seq_length=24` leaves no tokens"),
        (
            {"null_score_diff_threshold": float("nan")},
            "`null_score_diff_threshold=nan` is not a number",
        ),
    ],
)
def test_wrong_options(values, message, make):
    with pytest.raises(errors.UserError, match=message):
        make(**values)


# The script.


def script_options(folder, vocab, config, **values):
    values = {
        "albert_config_file": str(config),
        "output_dir": str(folder),
        "spm_model_file": vocab,
        "max_seq_length": LENGTH,
        "doc_stride": 8,
        "max_query_length": 10,
        "train_batch_size": 4,
        "train_step": 2,
        "warmup_step": 1,
        "save_checkpoints_steps": 2,
        "iterations_per_loop": 1,
        **values,
    }
    return options.from_dict(run_squad.RunSquadOptions, values)


@pytest.mark.parametrize(
    "values, message",
    [
        ({"do_train": True}, "--do_train is set, but --train_file is missing"),
        ({"do_eval": True}, "--do_eval is set, but --predict_file is missing"),
        ({"do_predict": True}, "--do_predict is set, but --predict_file"),
    ],
)
def test_script_needs_its_files(values, message, tiny_vocab, tmp_path):
    with pytest.raises(errors.UserError, match=message):
        script_options(tmp_path, tiny_vocab, "c.json", **values)


def test_script_trains_evaluates_and_answers_new_questions(
    tiny_vocab, small_config, tmp_path
):
    config = tmp_path / "config.json"
    one_layer = dataclasses.replace(
        small_config,
        num_hidden_layers=1,
        num_hidden_groups=1,
        inner_group_num=1,
    )
    config.write_text(one_layer.to_json())
    labelled = write(
        tmp_path / "dev.json",
        entry("a", "the hill"),
        entry("b"),
        entry("c", "the river"),
    )
    folder = tmp_path / "run"
    run_squad.run(
        script_options(
            *(folder, tiny_vocab, config),
            train_file=labelled,
            predict_file=labelled,
            do_train=True,
            do_eval=True,
            do_predict=True,
        )
    )
    odds = json.loads((folder / "null_odds.json").read_text())
    predictions = json.loads((folder / "predictions.json").read_text())
    assert list(odds) == list(predictions) == ["a", "b", "c"]
    results = (folder / "eval_results.txt").read_text().splitlines()
    scores = dict(line.split(" = ") for line in results)
    threshold = float(scores["null_score_diff_threshold"])
    n_best = json.loads((folder / "nbest_predictions.json").read_text())
    for id_, score in odds.items():
        best = n_best[id_][0]["text"]
        assert predictions[id_] == (best if score <= threshold else "")

    # The folder alone answers a file without answers, by its own threshold.
    unlabelled = [entry("a"), entry("z")]
    for one in unlabelled:
        del one["answers"], one["is_impossible"]
    run_squad.run(
        script_options(
            *(folder, tiny_vocab, config),
            predict_file=write(tmp_path / "new.json", *unlabelled),
            do_predict=True,
        )
    )
    new_odds = json.loads((folder / "null_odds.json").read_text())
    new_predictions = json.loads((folder / "predictions.json").read_text())
    assert list(new_predictions) == ["a", "z"]
    assert new_odds["a"] == pytest.approx(odds["a"], abs=1e-5)
    assert new_predictions["a"] == predictions["a"]
