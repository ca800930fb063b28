"""The table of GLUE: labels, pairs, splits."""

import pytest

from albert_tf.tasks.glue import specs
from tests.albert_tf.tasks.glue import small_tasks
from tests.conftest import refused

LABELS = {
    "ax": ("contradiction", "entailment", "neutral"),
    "cola": ("0", "1"),
    "mnli": ("contradiction", "entailment", "neutral"),
    "mrpc": ("0", "1"),
    "qnli": ("entailment", "not_entailment"),
    "qqp": ("0", "1"),
    "rte": ("entailment", "not_entailment"),
    "sst-2": ("0", "1"),
    "sts-b": (),
    "wnli": ("0", "1"),
}


def test_labels_are_in_the_order_of_the_original():
    assert {
        name: small_tasks.make(name).labels for name in specs.TASKS
    } == LABELS


def test_all_tasks_but_two_have_pairs():
    tasks = specs.TASKS
    single = {name for name in tasks if not small_tasks.make(name).has_pairs}
    assert single == {"cola", "sst-2"}


def test_mnli_has_two_dev_sets_and_three_test_sets():
    task = small_tasks.make("mnli")
    assert task.eval_splits == ("dev_matched", "dev_mismatched")
    assert task.test_splits == ("test_matched", "test_mismatched", "ax")
    assert (
        small_tasks.make("ax").eval_splits,
        small_tasks.make("ax").test_splits,
    ) == ((), ("ax",))


ONE = specs.Split("a.tsv", 3, 0, None, 2)
TWO = specs.Split("a.tsv", 3, 0, 1, 2)
UNLABELLED = specs.Split("a.tsv", 3, 0, 1, None)


@pytest.mark.parametrize(
    "values, message",
    [
        ({"labels": (0, 1, 2)}, r"labels=\(0, 1, 2\) must be a tuple of texts"),
        ({"labels": ("0", 1)}, "must be a tuple of texts"),
        ({"labels": ("goodbad")}, "labels='goodbad' must be a tuple"),
        ({"labels": None}, "labels=None must be"),
        ({"labels": {"a", "b"}}, "must be a tuple"),
        ({"labels": ("a", "b", "a")}, "two or more, each once"),
        ({"labels": ("a",)}, "two or more, each once"),
        ({"labels": ("a", "")}, "each must fit into a column"),
        ({"labels": ("a", "b ")}, "each must fit into a column"),
        ({"labels": ("a", "b\tc")}, "each must fit into a column"),
        ({"labels": ()}, r"metrics=\('accuracy',\) do not go with labels=\(\)"),
        ({"metrics": ("pearson",)}, "Allowed is a tuple of accuracy, matth"),
        ({"metrics": ("acc",)}, "do not go with"),
        ({"metrics": "accuracy"}, "metrics='accuracy' do not go"),
        ({"metrics": ()}, "the first metric chooses"),
        ({"metrics": None}, "metrics=None do not go"),
        ({"bounds": 5}, "bounds=5 must be two numbers"),
        ({"labels": (*"abc",), "metrics": ("f1",)}, "do not go with"),
        ({"labels": (), "metrics": ("mse", "pearson")}, "another one than mse"),
        ({"bounds": (5, 0)}, "must be two numbers, the smaller one first"),
        ({"bounds": (0, float("nan"))}, "must be two numbers"),
        ({"bounds": ("0", "5")}, "must be two numbers"),
        ({"splits": {"train": ONE, "dev": TWO}}, "text_b and some have none"),
        ({"splits": [TWO]}, "must be a dict of Splits"),
        ({"splits": {"train": "a.tsv"}}, "must be a dict of Splits"),
        ({"splits": {"train": UNLABELLED}}, "'train' has label=None"),
        ({"splits": {"train": TWO, "dev_b": UNLABELLED}}, "'dev_b' has label"),
    ],
)
def test_a_task_is_checked_when_it_is_written(values, message):
    values = {"labels": ("a", "b"), "splits": {"train": TWO}, **values}
    with refused(message):
        specs.TaskSpec(**values)


def test_texts_and_label_have_columns_of_their_own():
    for columns in ((0, 0, 2), (0, 1, 0), (2, None, 2)):
        with refused("names a column twice"):
            specs.Split("a.tsv", 3, *columns)
    with refused("count='3' must be a number"):
        specs.Split("a.tsv", "3", 0, 1, 2)
    with refused("are not 3, as count=3 says"):
        specs.Split("a.tsv", 3, 0, 1, 2, columns=("a", "b"))


@pytest.mark.parametrize("name", ["text_a", "text_b", "label", "id_column"])
@pytest.mark.parametrize("column", [-1, 3])
def test_columns_that_are_none_are_refused(name, column):
    columns = {"text_a": 0, "text_b": 1, "label": 2, name: column}
    with refused(f"{name}={column} is no col"):
        specs.Split("a.tsv", 3, **columns)
