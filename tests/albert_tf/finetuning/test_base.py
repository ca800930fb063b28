"""What every task has without doing anything for it."""

import logging

import numpy as np
import pytest

from albert_tf.data import lengths
from albert_tf.finetuning import base


class Plain(base.Task):
    """A task with what a task must have, and nothing else."""

    name = key_metric = "plain"

    def read(self, path, split):
        return [path, split]

    def layout(self, split):
        return ()

    def featurize(self, examples, split):
        yield {}

    def score(self, outputs, examples):
        return {}

    def answers(self, outputs, examples):
        yield from ()

    def write_predictions(self, outputs, examples, split, output_dir):
        pass

    def combine(self, runs):
        return runs[0]


@pytest.fixture
def task():
    return Plain(tokenizer=None, max_seq_length=9)


def test_defaults(task):
    assert task.settings == {"task_name": "plain", "max_seq_length": 9}
    assert (task.eval_splits, task.test_splits) == (("dev",), ("test",))
    assert not task.outputs_are_positions
    assert task.sequences_at_once == 1
    assert task.shortest == lengths.SHORTEST
    assert task.output_widths == {}
    assert task.renumber([b"a", b"b"], 5) == [b"a", b"b"]
    assert task.remember({"plain": np.inf}) is None


def test_own_file_is_read_without_labels(task):
    assert task.read_own("x") == ["x", base.PREDICT]


def test_what_a_task_must_have():
    class Incomplete(Plain):
        combine = base.Task.combine

    with pytest.raises(TypeError, match="combine"):
        Incomplete(None, 9)


def test_remarks_are_logged_at_once(task, caplog):
    caplog.set_level(logging.WARNING)
    task.remark("texts are cut.", [])
    assert not caplog.records
    task.remark("texts are cut.", ["a", "b", "c"])
    task.remark("texts are cut.", list("abcd"))
    assert [record.getMessage() for record in caplog.records] == [
        "3 texts are cut. (a, b, c)",
        "4 texts are cut. (a, b, c, ...)",
    ]


def test_remarks_are_collected_on_demand(task, caplog):
    caplog.set_level(logging.WARNING)
    task.remarks = {}
    for names in (["a"], [], ["b"]):
        task.remark("texts are cut.", names)
    task.remark("texts are empty.", ["c"])
    assert not caplog.records
    assert task.remarks == {
        "texts are cut.": ["a", "b"],
        "texts are empty.": ["c"],
    }
