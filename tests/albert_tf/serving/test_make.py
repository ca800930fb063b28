"""Which service a task gets; the tests in services/ try them all."""

import pytest

from albert_tf.model.heads import classification
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.serving import make
from albert_tf.tasks.glue import task as glue
from albert_tf.tasks.table import data, labels, numbers
from albert_tf.tasks.text import task as text
from tests.albert_tf.tasks.glue import small_tasks
from tests.conftest import refused

TABLES = {
    ("ClassifierService", "mean"): (labels.LabelTask, {"labels": "a,b"}),
    ("MultiLabelService", "max"): (
        labels.MultiLabelTask,
        {"labels": "a,b", "multi_label": True},
    ),
    ("RegressionService", "first"): (
        numbers.NumberTask,
        {"regression": True},
    ),
}


@pytest.mark.parametrize(("name", "how"), TABLES)
def test_tables_are_served_as_they_were_learnt(
    tiny_tokenizer, small_config, name, how
):
    kind, given = TABLES[name, how]
    long = text.WindowOptions(how)
    columns, texts = "t", ("text",)
    if how == "first":
        columns, texts = "t,u", ("text", "text_pair")
    options = data.TableOptions(text_columns=columns, long=long, **given)
    task = kind(tiny_tokenizer, 16, options)
    expected = {}
    if how != "first":
        expected = {"windows": how, "window_stride": 7}
    if "multi_label" in given:
        limits = {"a": 0.25, "b": 0.75}
        task.remember({f"threshold_of_{k}": v for k, v in limits.items()})
        expected["thresholds"] = limits
    service = make.of_task(task, AlbertModel(small_config))
    assert type(service).__name__ == name
    assert service.labels == task.labels
    assert service.texts == texts
    assert service.text_options == expected


class OtherHead(classification.AlbertClassifier):
    """Its weights have the names of the known head."""


class OtherTask(glue.GlueTask):
    """A task with a head of its own."""

    def make_model(self, encoder):
        return OtherHead(encoder, len(self.labels))


@pytest.mark.parametrize("package", [OtherTask.package, ""])
def test_a_head_without_a_service_is_refused(
    tiny_tokenizer, small_config, monkeypatch, package
):
    monkeypatch.setattr(OtherTask, "package", package)
    task = small_tasks.make("rte", tiny_tokenizer, 16, OtherTask)
    encoder = AlbertModel(small_config)
    with refused("rte with the head OtherHead"):
        make.of_task(task, encoder)
