"""Tokens, operations and minutes of pretraining, from logs."""

import json

import pytest

from lab.measure import cost
from tests.conftest import tiny_config

FACTS = {"split": "facts", "step": 0, "examples_per_step": 10}


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
            {**FACTS, "tokens_per_step": 1000},
            train(60, 20.0),
            {"split": "eval", "step": 60, "masked_lm_loss": 2.0},
            {**FACTS, "examples_per_step": 20, "tokens_per_step": 2000},
            train(90, 10.0, 6.0),
            {"split": "end", "step": 90},
        ]
    )
    # 30 seconds, then 30 steps * 20 / 10 = 60 seconds.
    assert found["minutes"] == pytest.approx(1.5)
    assert found["tokens"] == 60_000 + 60_000
    assert found["flops"] == pytest.approx(90e9 + 360e9)


def test_run_that_goes_on_at_a_later_step_counts_only_its_own():
    facts = {**FACTS, "step": 1000, "tokens_per_step": 1000}
    found = cost.of_lines([facts, train(1060, 20.0)])
    assert found["steps"] == 60
    assert found["tokens"] == 60_000
    assert found["minutes"] == pytest.approx(0.5)


def write_run(folder, **options):
    folder.mkdir()
    content = {"program": "run_pretraining", "options": options}
    (folder / "run_options.json").write_text(json.dumps(content))
    (folder / "albert_config.json").write_text(tiny_config().to_json())
    lines = [{**FACTS, "tokens_per_step": 1000}, train(60, 20.0)]
    log = "".join(json.dumps({"time": 0.0, **line}) + "\n" for line in lines)
    (folder / "metrics.jsonl").write_text(log)
    return str(folder)


def test_runs_that_weights_come_from_are_counted(tmp_path):
    short = write_run(tmp_path / "short")
    long = write_run(
        tmp_path / "long", init_checkpoint=f"{short}/model.ckpt-60"
    )
    found = cost.of_run(long)
    assert found["runs"] == [long, short]
    assert found["not_counted"] is None
    assert found["steps"] == 120
    assert found["minutes"] == pytest.approx(1.0)
    assert cost.of_run(f"{long}/model.ckpt-best")["runs"] == [long, short]
    # What has no log is named.
    release = tmp_path / "release"
    release.mkdir()
    run = write_run(tmp_path / "run", init_checkpoint=str(release))
    assert cost.of_run(run)["not_counted"] == str(release)
    found = cost.of_run(str(release))
    assert found == {"runs": [], "not_counted": str(release)}
