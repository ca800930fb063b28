"""Texts with several labels: rows, parts, weights, thresholds, scores."""

import numpy as np
import pytest
from sklearn import metrics
from sklearn.utils import class_weight

from albert_tf.finetuning import (
    base,
    probabilities,
)
from albert_tf.finetuning.packing import TextExample
from albert_tf.tasks.table import data, labels
from tests import row_files
from tests.albert_tf.tasks.glue.small_tasks import Markers
from tests.conftest import refused

LABELS = "joy,fear,rain"
SEMICOLON = {"label_separator": ";"}


def options(**values):
    given = {
        "text_columns": "text",
        "label_column": "tags",
        "multi_label": True,
        **values,
    }
    return data.TableOptions(**given)


def task_of(**values):
    given = options(**{"labels": LABELS, **values})
    return labels.MultiLabelTask(Markers(), 16, given)


def write(folder, *cells, name="t.jsonl"):
    rows = [{"text": f"t{n}", "tags": cell} for n, cell in enumerate(cells)]
    return row_files.write(folder / name, rows)


def labels_of(task, path):
    return [example.label for example in task.read(path, base.DEV)]


@pytest.mark.parametrize(
    ("name", "cells", "changes"),
    [
        ("t.csv", ["rain, joy", "", "fear"], {}),
        ("t.csv", ["rain;joy", " ", "fear"], {"label_separator": ";"}),
        ("t.jsonl", ["rain,joy,rain", None, "fear"], {}),
        # As pandas and JSON write lists into text.
        ("t.csv", ["['rain', 'joy']", "[]", "['fear']"], {}),
        ("t.csv", ['["rain","joy",]', " [ ]", '["fear"]'], {}),
        ("t.csv", ["['rain', \"joy\"]", "", "['fear']"], SEMICOLON),
        ("t.jsonl", [["rain", "joy"], [], ["fear"]], {}),
        ("t.parquet", [["rain", "joy"], None, ["fear"]], {}),
        ("t.parquet", ["joy,rain", None, "fear"], {}),
    ],
)
def test_cells_hold_labels_or_lists(tmp_path, name, cells, changes):
    path = write(tmp_path, *cells, name=name)
    found = data.find_labels(path, options(**changes))
    assert found == ("fear", "joy", "rain")
    assert labels_of(task_of(**changes), path) == [(0, 2), (), (1,)]


COLUMNS = {"label_column": "rain, joy,fear", "labels": None}


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        ("t.csv", "1", "0"),
        ("t.csv", "True", "False"),
        ("t.csv", " 1.0", "0.0"),
        ("t.jsonl", True, False),
        ("t.jsonl", 1, 0.0),
        ("t.parquet", True, False),
    ],
)
def test_each_column_may_be_a_label(tmp_path, name, one, other):
    """As scikit-learn and pandas.get_dummies lay them out."""
    cells = [(one, one, other), (other, other, other), (other, one, one)]
    rows = [
        {
            "text": f"t{n}",
            **dict(zip(("joy", "rain", "fear"), row, strict=True)),
        }
        for n, row in enumerate(cells)
    ]
    path = row_files.write(tmp_path / name, rows)
    assert data.find_labels(path, options(**COLUMNS)) == ("rain", "joy", "fear")
    task = task_of(**{**COLUMNS, "labels": LABELS})
    assert labels_of(task, path) == [(0, 2), (), (1, 2)]


@pytest.mark.parametrize("cell", ["", "2", "yes", None, "1,0", 0.5])
def test_columns_that_are_labels_hold_one_or_zero(tmp_path, cell):
    rows = [{"text": "t", "joy": 1, "rain": cell, "fear": 1}]
    path = row_files.write(tmp_path / "t.jsonl", rows)
    with refused("line 1: .*'rain' holds .* 1 or"):
        data.find_labels(path, options(**COLUMNS))


def test_a_column_without_a_text_is_refused(tmp_path):
    rows = [{"text": "t", "joy": 1, "rain": 0, "fear": 1}]
    path = row_files.write(tmp_path / "t.jsonl", rows)
    with refused("no text has .* 'rain'"):
        data.find_labels(path, options(**COLUMNS))


def test_bad_cells_are_named_with_their_line(tmp_path):
    for cell, message in (
        ("joy,,rain", "line 2: the column 'tags' holds '', which is no label"),
        (["joy", {}], "line 2: the column 'tags' holds {}, which is no"),
        ("['joy' 'rain']", "begins as a list and is none. Write ..one"),
        ("[joy, rain]", "begins as a list and is none"),
        ("['joy', ['rain']]", "begins as a list and is none"),
        ("['joy'", "begins as a list and is none"),
        ("[joy", "begins as a list and is none"),
        ("['joy', '']", "holds '', which is no label"),
        ("['joy', 'joy']", "the list in the column 'tags' has 'joy' 2 times"),
        ([1, 0, 1], "has '1' 2 times.* numbers of yes and no for all labels"),
        (["joy", " joy"], "has 'joy' 2 times"),
        ("joy,hail", "line 2: the label 'hail' is not one of 'joy', 'fear'"),
    ):
        with refused(message):
            task_of().read(write(tmp_path, "joy", cell), base.DEV)


def test_a_wrong_separator_and_single_examples_are_told(tmp_path, caplog):
    data.find_labels(write(tmp_path, "joy;rain", "joy"), options())
    assert "no text has two labels. Is `label_separator=,` right" in caplog.text
    assert "2 labels have one example each" in caplog.text
    caplog.clear()
    data.find_labels(write(tmp_path, "joy,joy", "rain,rain"), options())
    assert "2 labels have one example each" in caplog.text
    assert "only in case" not in caplog.text
    data.find_labels(write(tmp_path, "joy", "Joy", "fear", "JOY"), options())
    assert "3 labels differ only in case, such as ['joy', 'Joy']" in caplog.text


@pytest.mark.parametrize("name", ["t.jsonl", "t.parquet"])
def test_null_is_no_text_but_an_empty_cell_of_parquet(tmp_path, name):
    rows = [{"text": None, "tags": "joy"}, {"text": "a", "tags": "fear"}]
    path = row_files.write(tmp_path / name, rows)
    if name == "t.parquet":
        assert task_of().read(path, base.DEV)[0].texts == ("",)
        return
    with refused("'text' is None, which is no"):
        task_of().read(path, base.DEV)


def test_records_have_a_number_for_each_label():
    task = task_of()
    examples = [
        TextExample(1, ("a",), (0, 2)),
        TextExample(2, ("b",), ()),
    ]
    assert task.label_ids(examples).tolist() == [[1, 0, 1], [0, 0, 0]]
    shapes = {f.name: f.shape for f in task.layout(base.TRAIN)}
    assert shapes["label_ids"] == (3,)


def test_balanced_weights_are_those_of_scikit_learn(tmp_path):
    path = write(tmp_path, "joy,rain", "joy", "", "fear", "joy")
    task = task_of(class_weights="balanced")
    examples = task.read(path, base.TRAIN)
    right = task.label_ids(examples)
    for number in range(3):
        expected = class_weight.compute_class_weight(
            "balanced", classes=np.arange(2), y=right[:, number]
        )
        found = task.class_weights(examples)[number]
        np.testing.assert_allclose(found, expected)
    with refused("all examples of .* have it"):
        task.read(write(tmp_path, "joy", "joy,rain", "joy,fear"), base.TRAIN)
    with refused("cannot weigh the label 'fear'"):
        task.read(write(tmp_path, "joy", "rain"), base.TRAIN)


def some_outputs(count=200):
    random = np.random.default_rng(7)
    right = random.random((count, 3)) < [0.5, 0.3, 0.1]
    logits = random.normal(size=right.shape).round(1) + 1.5 * right - [0, 1, 3]
    examples = [
        TextExample(n, ("",), tuple(map(int, np.flatnonzero(row))))
        for n, row in enumerate(right)
    ]
    return {"logits": logits.astype(np.float32)}, right, examples


@pytest.mark.parametrize("kind", ["one", "each"])
def test_scores_are_those_of_scikit_learn(kind):
    outputs, right, examples = some_outputs()
    task = task_of(label_thresholds=kind)
    found = task.score(outputs, examples)
    odds = probabilities.sigmoid(outputs["logits"])
    names = ["threshold"] * 3
    if kind == "each":
        names = [f"threshold_of_{name}" for name in LABELS.split(",")]
    given = odds > [found[name] for name in names]
    expected = {
        "micro_f1": metrics.f1_score(right, given, average="micro"),
        "micro_precision": metrics.precision_score(
            right, given, average="micro"
        ),
        "micro_recall": metrics.recall_score(right, given, average="micro"),
        "macro_f1": metrics.f1_score(right, given, average="macro"),
        "accuracy": metrics.accuracy_score(right, given),
        "auc": metrics.roc_auc_score(right, odds, average="macro"),
        "loss": np.mean(
            [metrics.log_loss(right[:, n], odds[:, n]) for n in range(3)]
        ),
        **{name: found[name] for name in names},
    }
    assert found == pytest.approx(expected)
    counts = task.confusion(outputs, examples)
    np.testing.assert_array_equal(
        counts.counts, metrics.multilabel_confusion_matrix(right, given)
    )
    table = metrics.precision_recall_fscore_support(right, given)
    for values, wanted in zip(counts.scores.values(), table, strict=False):
        np.testing.assert_allclose(values, wanted)
    answers = list(task.answers(outputs, examples))
    assert [a["prediction"] for a in answers] == [
        [n for n, yes in zip(task.labels, row, strict=True) if yes]
        for row in given
    ]
    assert answers[5]["id"] == 5
    assert [*answers[5]["probabilities"].values()] == odds[5].tolist()
    outputs["logits"][7, 1] = np.nan
    with pytest.raises(ValueError, match="NaN or infinite"):
        task.score(outputs, examples)


def f1_of(chances, right, threshold):
    return metrics.f1_score(right, chances > threshold, zero_division=0)


def test_no_threshold_is_better():
    outputs, right, _ = some_outputs()
    odds = probabilities.sigmoid(outputs["logits"])
    for number in range(3):
        column, wanted = odds[:, number], right[:, number]
        found = labels.best_threshold(column, wanted)
        others = [f1_of(column, wanted, t) for t in [0, *column]]
        assert f1_of(column, wanted, found) == pytest.approx(max(others))
    chances, yes = np.array([0.1, 0.4, 0.9]), np.array([0, 1, 1], bool)
    assert labels.best_threshold(chances, yes) == pytest.approx(0.25)
    # Of several the highest.
    chances, two = np.array([0.6, 0.7, 0.8, 0.9]), np.array([1, 0, 0, 1], bool)
    assert labels.best_threshold(chances, two) == pytest.approx(0.85)
    assert labels.best_threshold(chances, two & False) == 0.5
    close = labels.best_threshold(np.array([0.99999, 1]), two[2:])
    assert close == 1 - 1e-4
    equal = labels.best_threshold(np.full(3, 0.6), yes)
    assert f1_of(np.full(3, 0.6), yes, equal) == pytest.approx(0.8)


@pytest.mark.parametrize("kind", ["one", "each"])
def test_new_texts_get_the_thresholds_of_the_run(kind, caplog):
    outputs, _, examples = some_outputs()
    task = task_of(label_thresholds=kind)
    found = task.score(outputs, examples)
    known = [a["prediction"] for a in task.answers(outputs, examples)]
    new = [TextExample(e.guid, ("",)) for e in examples]
    other = task_of(label_thresholds=kind)
    other.remember(found)
    assert [a["prediction"] for a in other.answers(outputs, new)] == known
    # They stay where labels are known, too: those are for testing then.
    some = {"logits": outputs["logits"][:9] + 1}
    kept = other.score(some, examples[:9])
    assert {k: v for k, v in kept.items() if "threshold" in k} == {
        k: v for k, v in found.items() if "threshold" in k
    }
    assert "No `do_eval` has chosen thresholds" not in caplog.text
    assert set(task_of().thresholds.values()) == {0.5}
    assert "No `do_eval` has chosen thresholds" in caplog.text


def test_thresholds_of_other_labels_are_refused():
    message = "no threshold of 'fear', but threshold_of_joy, threshold_of_hail"
    with refused(message):
        task_of().remember({"threshold_of_joy": 0.1, "threshold_of_hail": 0.2})
    # The part that is held out beside --dev_file has its own.
    scores = dict(zip(LABELS.split(","), (0.1, 0.2, 0.3), strict=True))
    named = {f"threshold_of_{name}": value for name, value in scores.items()}
    task = task_of()
    task.remember({**named, "threshold_of_joy_held_out": 0.7})
    assert task.thresholds == scores
    task.remember({"accuracy": 0.9})
    assert set(task.thresholds.values()) == {0.5}


def test_an_ensemble_has_the_mean_probabilities():
    outputs, *_ = some_outputs()
    one, other = outputs["logits"], 3 * outputs["logits"]
    both = task_of().combine([outputs, {"logits": other}])["logits"]
    one, other, both = map(probabilities.sigmoid, (one, other, both))
    np.testing.assert_allclose(both, (one + other) / 2, rtol=1e-5)
