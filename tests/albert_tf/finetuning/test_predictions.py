"""Predictions for a user's file, by a run that is told what to say."""

import types

import numpy as np
import pytest

from albert_tf.common import rows, scores
from albert_tf.finetuning import batches, predictions, registry
from albert_tf.text import tokenization
from albert_tf.training import run_folder
from tests.conftest import refused

BAD = rows.BadLine({"line": 2}, "line 2: no text.")


class Task:
    """Says the length of each text, and 10 for each that is asked."""

    remarks = None
    scores = None
    read_whole = None  # No text that windows are laid over.

    def __init__(self, items=()):
        self.items = list(items)

    def check_config(self, hidden_size):
        assert hidden_size == 16

    def remember(self, scores):
        self.scores = scores

    def read_own(self, path):
        return self.items

    def pool_records(self, outputs, examples):
        return {"n": outputs["n"] + 10 * len(examples)}

    def answers(self, outputs, examples):
        for example, length in zip(examples, outputs["n"], strict=True):
            yield {"id": example, "prediction": int(length)}


@pytest.fixture
def make(monkeypatch):
    def predictor(*items, has_task=True):
        source = types.SimpleNamespace(
            options={"task_name": "plain"} if has_task else {},
            facts=None,
            folder="r",
            vocabulary=tokenization.VocabularyOptions(),
            program="run_pretraining",
            config=types.SimpleNamespace(hidden_size=16),
        )
        task = Task(items)
        monkeypatch.setattr(run_folder, "read", lambda *given: source)
        monkeypatch.setattr(registry, "load_module_for", lambda *given: None)
        monkeypatch.setattr(registry, "make", lambda *given: task)
        monkeypatch.setattr(tokenization, "load", lambda given: None)
        monkeypatch.setattr(
            scores, "best_scores", lambda folder: {"plain": 1.0}
        )
        found = predictions.RunPredictor("r", None, 4)
        assert task.scores == {"plain": 1.0}
        assert found.group_size == 32
        found._call = lambda batch: {}
        return found

    return predictor


@pytest.fixture
def asked(monkeypatch):
    seen = []

    def ask(call, task, examples, batch_size):
        seen.append((list(examples), batch_size))
        return {"n": np.array([len(example) for example in examples])}

    monkeypatch.setattr(batches, "run_model", ask)
    return seen


def test_run_without_a_task_is_refused(make):
    with refused(
        "`run_dir=r` was made by run_pretraining, which finetunes no",
    ):
        make(has_task=False)


def test_bad_lines_have_errors_in_their_places(make, asked):
    predictor = make("a", BAD, "bcd")
    assert predictor.answers(predictor.read("own.tsv")) == [
        {"id": "a", "prediction": 21},
        {"line": 2, "error": "line 2: no text."},
        {"id": "bcd", "prediction": 23},
    ]
    assert asked == [(["a", "bcd"], 4)]


def test_group_of_bad_lines_asks_nobody(make, asked):
    predictor = make("a", BAD)
    assert predictor.answers([BAD]) == [BAD.answer]
    assert predictor.answers([]) == []
    assert not asked


@pytest.mark.parametrize(
    "items, message",
    [((), "own.tsv has no examples"), ((BAD, BAD), "line 2: no text.")],
)
def test_file_without_an_example_is_refused(make, items, message):
    with refused(message):
        make(*items).read("own.tsv")
