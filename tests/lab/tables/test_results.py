"""Which numbers of a step a column finds, and the names of curves."""

import fnmatch
import json
import statistics

from matplotlib import axes

from lab.measure import report
from lab.tables import plan, results


def test_numbers_of_runs_and_measures_are_found_by_patterns(tmp_path):
    (tmp_path / "eval_results.txt").write_text(
        "global_step = 40\nsentence_order_accuracy = 0.625\n"
    )
    facts = {"split": "facts", "step": 0, "parameters": 1234}
    (tmp_path / "metrics.jsonl").write_text(json.dumps(facts) + "\n")
    task = {
        "metric": "accuracy",
        "majority": 50.0,
        "random": {"1": 40.0},
        "pretrained": {"1": 60.0, "2": 70.0},
    }
    parts = {
        "cost": {"minutes": 20.0, "runs": ["a"]},
        "finetuning": {"tasks": {"rte": task, "sst-2": task}},
    }
    content = {
        name: {"settings": {"minutes": 7}, "results": found}
        for name, found in parts.items()
    }
    (tmp_path / report.FILE_NAME).write_text(json.dumps({"parts": content}))
    found = results.numbers(str(tmp_path))
    for key, expected in (
        ("parameters", 1234),
        ("*sentence*_accuracy", 0.625),
        ("cost.minutes", 20),
        ("finetuning.tasks.*.pretrained.*", 65),
    ):
        names = fnmatch.filter(found, key)
        assert statistics.fmean(found[name] for name in names) == expected


def test_a_finished_run_is_drawn_once_with_the_names_of_its_rows(
    tmp_path, monkeypatch
):
    labels = []
    monkeypatch.setattr(
        axes.Axes, "plot", lambda *_, label, **__: labels.append(label)
    )

    def cell(width, size, seed, name):
        task = plan.Task(f"train/{name}", (), (), 1.0, None)
        (tmp_path / task.name).mkdir(parents=True, exist_ok=True)
        line = {"split": "eval", "step": 3, "time": 0.0, "loss": 2.0}
        log = tmp_path / task.name / "metrics.jsonl"
        log.write_text(json.dumps(line) + "\n")
        place = {"width": width, "E": size}
        return plan.Cell(place, seed, {"train": task})

    cells = [
        cell("256", "128", 1, "a"),
        cell("256", "128", 2, "b"),
        cell("128", "256", 1, "c"),
        cell("128", "64", 1, "shared"),
        cell("128", "32", 1, "shared"),
        cell("64", "32", 1, "killed"),
    ]
    for name in ("a", "b", "c", "shared"):
        (tmp_path / f"train/{name}.json").write_text("{}")
    column = plan.Column(step="train", key="loss")
    with monkeypatch.context() as patch:
        patch.setattr(axes.Axes, "legend", lambda _: None)
        results._draw(column, cells, str(tmp_path))
    assert labels[::3] == ["256, 128", "_", "128, 256", "128"]
