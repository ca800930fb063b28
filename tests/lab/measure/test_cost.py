"""Tokens, operations and minutes of pretraining, from logs."""

import json

import pytest

from lab.measure import cost
from tests.conftest import tiny_config

FACTS = {
    "split": "facts",
    "step": 0,
    "examples_per_step": 10,
    "tokens_per_step": 1000,
}


def train(step, speed, gigaflops=3.0):
    return {
        "split": "train",
        "step": step,
        "examples_per_second": speed,
        "gigaflops": gigaflops,
    }


def test_speeds_and_batches_may_change_and_evaluations_cost_nothing():
    found = cost.of_lines(
        [
            # The run goes on at the step of another one.
            {**FACTS, "step": 1000},
            train(1060, 20.0),
            {"split": "eval", "step": 1060, "masked_lm_loss": 2.0},
            {**FACTS, "examples_per_step": 20, "tokens_per_step": 2000},
            train(1090, 10.0, 6.0),
            {"split": "end", "step": 1090},
        ]
    )
    # 60 * 10 / 20 = 30 seconds, then 30 * 20 / 10 = 60 seconds.
    expected = {"steps": 90, "tokens": 120_000, "flops": 450e9, "minutes": 1.5}
    assert found == pytest.approx(expected)


def write_run(folder, **options):
    folder.mkdir()
    content = {"program": "run_pretraining", "options": options}
    (folder / "run_options.json").write_text(json.dumps(content))
    (folder / "albert_config.json").write_text(tiny_config().to_json())
    lines = [{"time": 0.0, **line} for line in (FACTS, train(60, 20.0))]
    log = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "metrics.jsonl").write_text(log)
    return str(folder)


def test_runs_that_weights_come_from_are_counted(tmp_path):
    release = tmp_path / "release"
    release.mkdir()
    short = write_run(tmp_path / "short", init_checkpoint=str(release))
    start = f"{short}/model.ckpt-60"
    long = write_run(tmp_path / "long", init_checkpoint=start)
    found = cost.of_run(f"{long}/model.ckpt-best")
    assert found["runs"] == [long, short]
    assert found["not_counted"] == str(release)
    assert (found["steps"], found["tokens"]) == (120, 120_000)
    assert found["minutes"] == pytest.approx(1.0)
    found = cost.of_run(str(release))
    assert found == {"runs": [], "not_counted": str(release)}
