"""Counts of right and predicted labels: scores, table, picture, file."""

import numpy as np
import pytest
from sklearn import metrics

from albert_tf.training import confusion

LABELS = ("a", "b|c", "never")
RIGHT = np.array([0, 0, 0, 1, 1])
FOUND = np.array([0, 0, 1, 1, 2])


def test_scores_are_those_of_scikit_learn():
    one = confusion.Confusion.count(FOUND, RIGHT, LABELS)
    assert one.counts.tolist() == [[2, 1, 0], [0, 1, 1], [0, 0, 0]]
    expected = metrics.precision_recall_fscore_support(
        RIGHT, FOUND, labels=range(3), zero_division=0
    )
    for values, wanted in zip(one.scores.values(), expected, strict=False):
        np.testing.assert_allclose(values, wanted)
    wanted = metrics.f1_score(RIGHT, FOUND, average="macro")
    assert one.macro_f1 == pytest.approx(wanted)


def test_scores_of_several_labels_are_those_of_scikit_learn():
    right = np.array([[1, 0, 0], [1, 1, 0], [0, 1, 0], [1, 0, 0]])
    found = np.array([[1, 1, 0], [0, 1, 0], [0, 0, 0], [1, 1, 0]])
    one = confusion.Confusion.count_several(found, right, LABELS)
    assert one.counts.tolist()[:2] == [[[1, 0], [1, 2]], [[0, 2], [1, 1]]]
    score = metrics.precision_recall_fscore_support
    expected = score(right, found, zero_division=0)
    for values, wanted in zip(one.scores.values(), expected, strict=False):
        np.testing.assert_allclose(values, wanted)
    wanted = metrics.f1_score(right, found, average="macro", zero_division=0)
    assert one.macro_f1 == pytest.approx(wanted)
    *expected, _ = score(right, found, average="micro")
    names = ["micro_precision", "micro_recall", "micro_f1"]
    assert one.micro == pytest.approx(dict(zip(names, expected, strict=True)))
    assert one.to_markdown().splitlines()[::2] == [
        "| label | examples | precision | recall | F1 |",
        "| a | 3 | 1.000 | 0.667 | 0.800 |",
        "| never | 0 | 0.000 | 0.000 | 0.000 |",
    ]


def test_table():
    lines = confusion.Confusion.count(FOUND, RIGHT, LABELS).to_markdown()
    first, _, *rows, last = lines.split("\n")
    assert first == (
        "| label | examples | precision | recall | F1 | as a | as b/c | "
        "as never |"
    )
    assert rows[0] == "| a | 3 | 1.000 | 0.667 | 0.800 | 2 | 1 | 0 |"
    assert rows[2] == "| never | 0 | 0.000 | 0.000 | 0.000 | 0 | 0 | 0 |"
    assert not last
    for size in (12, 13):
        labels = [f"l{n}" for n in range(size)]
        many = confusion.Confusion.count(FOUND, RIGHT, labels)
        assert ("as l1" in many.to_markdown()) == (size == 12)


def test_a_folder_keeps_it(tmp_path):
    one = confusion.Confusion.count(FOUND, RIGHT, LABELS)
    confusion.write(str(tmp_path), {"old": one})
    for name in ("confusion_old.png", "confusion_dev.png", "notes.json"):
        (tmp_path / name).touch()
    confusion.write(str(tmp_path), {"dev": one})
    names = {"confusion_dev.json", "confusion_dev.png", "notes.json"}
    assert {path.name for path in tmp_path.iterdir()} == names
    (found,) = confusion.read(str(tmp_path)).items()
    assert found[0] == "dev"
    assert found[1].labels == LABELS
    np.testing.assert_array_equal(found[1].counts, one.counts)
    assert one.draw().startswith(b"\x89PNG")
    double = confusion.Confusion(LABELS, 2 * one.counts)
    assert one.draw() != double.draw()  # It shows numbers, too.
