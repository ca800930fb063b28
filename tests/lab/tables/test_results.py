"""Which numbers of a step a column finds."""

import fnmatch
import json
import statistics

from lab.measure import report
from lab.tables import results


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
