"""Options to tasks, and the modules of a user's tasks."""

import sys

import pytest

from albert_tf.finetuning import registry
from albert_tf.tasks.glue import specs
from albert_tf.tasks.glue import task as glue
from albert_tf.tasks.race import task as race
from albert_tf.tasks.squad import task as squad
from tests.conftest import refused

VALUES = {"max_seq_length": 64, "max_query_length": 16, "max_qa_length": 20}


@pytest.mark.parametrize(
    "name, kind",
    [
        ("RTE", glue.GlueTask),
        ("race", race.RaceTask),
        ("SQuAD", squad.SquadTask),
    ],
)
def test_a_task_is_made_by_its_name_in_any_case(name, kind):
    task = registry.make({**VALUES, "task_name": name}, None)
    assert type(task) is kind
    assert task.name == name.lower()
    assert task.max_seq_length == 64


@pytest.mark.parametrize("name", ["Reviews", "REVIEWS"])
def test_names_of_own_tasks_may_have_capitals(name, monkeypatch):
    spec = specs.TaskSpec(("bad", "good"), {})
    monkeypatch.setitem(specs.TASKS, "Reviews", spec)
    values = {**VALUES, "task_name": name}
    assert registry.make(values, None).labels == ("bad", "good")

    class Reviews(glue.GlueTask):
        """With a class of its own."""

    monkeypatch.setitem(registry.TASKS, "Reviews", Reviews)
    assert type(registry.make(values, None)) is Reviews
    for wrong in ("a task", specs.TaskSpec):
        monkeypatch.setitem(registry.TASKS, "Reviews", wrong)
        with refused("not a subclass of base.T"):
            registry.make(values, None)


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"labels": "a,b"}, "LabelTask"),
        ({"labels": "a,b", "multi_label": True}, "MultiLabelTask"),
        ({"labels": None, "regression": True}, "NumberTask"),
        ({"query_column": "q"}, "RankingTask"),
    ],
)
def test_tables_are_of_four_kinds(given, kind):
    values = {**VALUES, "task_name": "table", "text_columns": "t", **given}
    assert type(registry.make(values, None)).__name__ == kind


@pytest.mark.parametrize(
    ("task_name", "facts", "message"),
    [
        ("tagging", {"labels": ["O", 3]}, "the run are .*, 3., not a list"),
        ("tagging", {"labels": "O"}, "the run are .O., not a list of texts"),
        ("embedding", {"text_pooling": "sum"}, "`text_pooling=sum` is not al"),
        ("embedding", {"projection_size": 1.5}, "`projection_size=1.5` is n"),
        ("table", {"dev_share": 7}, "`dev_share=7` is above 0.9"),
        ("table", {"best_score": "mrr"}, "`best_score=mrr` is no score of"),
    ],
)
def test_facts_that_no_run_has_are_refused(task_name, facts, message):
    values = {**VALUES, "task_name": task_name, "text_columns": "t"}
    with refused(message):
        registry.make(values, None, {"labels": ["a", "b"], **facts})


def test_a_task_gets_its_own_options():
    made = registry.make({**VALUES, "task_name": "race"}, None)
    assert made.options.max_qa_length == 20
    made = registry.make({**VALUES, "task_name": "squad"}, None)
    assert made.options.windows.max_query_length == 16


def test_an_unknown_task_is_named():
    with refused("`task_name=rtf` .*mrpc, .*rte"):
        registry.make({**VALUES, "task_name": "rtf"}, None)


def test_a_module_is_imported_only_if_the_user_names_it(tmp_path, monkeypatch):
    (tmp_path / "module_of_a_run.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    values = {"task_module": "module_of_a_run"}
    with refused("add `task_module=module_of"):
        registry.load_module_for(values, "folder", None)
    assert "module_of_a_run" not in sys.modules
    registry.load_module_for(values, "folder", "module_of_a_run")
    assert sys.modules.pop("module_of_a_run")


def test_a_module_that_is_missing_or_wrong_is_named(tmp_path, monkeypatch):
    with refused("`task_module=no_such_module"):
        registry.load_module("no_such_module")
    (tmp_path / "wrong_labels.py").write_text(
        "from albert_tf.tasks.glue import specs\n"
        "specs.TaskSpec(labels='goodbad', splits={})\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    message = "`task_module=wrong_labels`: labels='goodbad' must be a tuple"
    with refused(message):
        registry.load_module("wrong_labels")
