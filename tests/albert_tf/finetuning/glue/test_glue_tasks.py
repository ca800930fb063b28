"""The table of GLUE: labels, pairs, splits."""

import pytest

from albert_tf.common import errors
from albert_tf.finetuning.glue import glue_tasks
from tests.albert_tf.finetuning.glue import small_tasks

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
        name: small_tasks.make(name).labels for name in glue_tasks.TASKS
    } == LABELS


def test_all_tasks_but_two_have_pairs():
    tasks = glue_tasks.TASKS
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


def test_first_dev_and_test_set_must_be_there_and_others_may():
    needed = {"train", "dev_matched", "test_matched"}
    assert set(small_tasks.make("mnli").sources("nowhere")) == needed


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        (("spearman",), "there is no spearman. Allowed are .*spearmanr"),
        (("mse", "pearson"), "Put another one than mse first"),
        ((), "the first metric chooses"),
    ],
)
def test_metrics_must_exist_and_the_first_must_grow(metrics, message):
    with pytest.raises(errors.UserError, match=message):
        glue_tasks.TaskSpec(labels=(), splits={}, metrics=metrics)


@pytest.mark.parametrize("name", ["text_a", "text_b", "label"])
@pytest.mark.parametrize("column", [-1, 3])
def test_columns_that_are_none_are_refused(name, column):
    columns = {"text_a": 0, "text_b": 1, "label": 2, name: column}
    with pytest.raises(errors.UserError, match=f"{name}={column} is no col"):
        glue_tasks.Split("a.tsv", 3, **columns)
