"""Scores of several runs: the best, the median, the spread, as a file."""

import dataclasses
import json
import math

import pytest

from albert_tf.common import scores
from tests.conftest import refused


def run(seed, **values):
    return scores.RunScores(f"run_{seed}", seed, 10 * seed, values)


SUMMARY = scores.Summary(
    "rte",
    "accuracy",
    (
        run(1, accuracy=0.6, loss=0.9),
        run(2, accuracy=0.8, loss=0.7),
        run(3, accuracy=0.8, loss=0.5),
        run(4, accuracy=0.5, loss=0.4),
    ),
)


def test_best_median_and_spread():
    assert SUMMARY.best.seed == 2  # The first of the best.
    medians = {"accuracy": pytest.approx(0.7), "loss": pytest.approx(0.6)}
    assert SUMMARY.medians == medians
    assert scores.sample_deviation([0.5]) == 0  # Of more: see the table below.


def test_table_has_a_row_for_each_run_and_statistic():
    lines = SUMMARY.to_markdown().splitlines()
    assert lines[0] == "| rte | accuracy | loss |"
    assert lines[2] == "| seed 1, step 10 | 0.6000 | 0.9000 |"
    assert lines[6:] == [
        "| median | 0.7000 | 0.6000 |",
        "| mean | 0.6750 | 0.6250 |",
        "| standard deviation | 0.1500 | 0.2217 |",
        "| smallest | 0.5000 | 0.4000 |",
        "| largest | 0.8000 | 0.9000 |",
    ]


def test_names_of_scores_may_hold_bars():
    """They hold names of labels."""
    values = {"a": 1.0, "z|b": 0.5, "b": 0.0}
    one = scores.Summary("t", "z|b", (scores.RunScores("r", 1, 2, values),))
    head, _, row, *_ = one.to_markdown().splitlines()
    assert head == "| t | z/b | a | b |"
    assert row == "| seed 1, step 2 | 0.5000 | 1.0000 | 0.0000 |"


def placed(folder):
    """The runs of SUMMARY below a folder."""
    runs = [
        dataclasses.replace(run, folder=str(folder / run.folder))
        for run in SUMMARY.runs
    ]
    return dataclasses.replace(SUMMARY, runs=tuple(runs))


def test_file_is_read_as_it_was_written_wherever_it_is_moved(tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    scores.write(str(here), placed(here))
    assert scores.read(str(here)) == placed(here)
    here.rename(there)
    assert scores.read(str(there)) == placed(there)
    content = json.loads((there / "scores.json").read_text())
    assert content["statistics"]["mean"]["accuracy"] == pytest.approx(0.675)
    assert (there / "scores.md").read_text() == SUMMARY.to_markdown()


def test_best_folder_is_that_of_a_run(tmp_path):
    assert scores.best_folder(str(tmp_path)) == str(tmp_path)
    assert scores.best_scores(str(tmp_path)) == {}
    summary = placed(tmp_path)
    scores.write(str(tmp_path), summary)
    assert scores.best_scores(str(tmp_path)) == SUMMARY.runs[1].scores
    assert scores.best_folder(str(tmp_path)) == summary.best.folder
    alone = dataclasses.replace(summary.best, folder=str(tmp_path))
    scores.write(str(tmp_path), dataclasses.replace(summary, runs=(alone,)))
    assert scores.best_folder(str(tmp_path)) == str(tmp_path)


def test_score_that_is_not_finite_is_null_in_the_file(tmp_path):
    run = dataclasses.replace(SUMMARY.best, scores={"accuracy": math.nan})
    run = dataclasses.replace(run, folder=str(tmp_path))
    summary = dataclasses.replace(SUMMARY, runs=(run,))
    scores.write(str(tmp_path), summary)
    assert "NaN" not in (tmp_path / "scores.json").read_text()
    assert math.isnan(scores.read(str(tmp_path)).best.scores["accuracy"])


@pytest.mark.parametrize(
    "content",
    [
        *(None, "", "{}", '{"runs": [{}]}', "[" * 100_000, "9" * 6000),
        '{"runs": [{"folder": ".", "seed": 1, "step": 1, "scores": []}]}',
        '{"task_name": "a", "key_metric": "b", "runs": []}',
        '{"task_name": "a", "key_metric": "b", "runs": ['
        '{"folder": ".", "seed": 1, "step": 1, "scores": {"b": 1}}, '
        '{"folder": "x", "seed": 1, "step": 1, "scores": {"c": 1}}]}',
    ],
)
def test_missing_or_damaged_file_is_named(tmp_path, content):
    if content is not None:
        (tmp_path / "scores.json").write_text(content)
    with refused("scores.json is missing"):
        scores.read(str(tmp_path))


def test_scores_of_further_splits_have_their_endings():
    splits = ("dev_matched", "dev_mismatched")
    numbers = {"accuracy": 0.5}
    assert scores.add_split(numbers, splits[0], splits) == numbers
    assert scores.add_split(numbers, splits[1], splits) == {
        "accuracy_mismatched": 0.5
    }


@pytest.mark.parametrize("outside", ["/elsewhere", "../other", "run_1/../.."])
def test_a_run_outside_of_the_folder_is_not_followed(tmp_path, outside):
    scores.write(str(tmp_path), placed(tmp_path))
    path = tmp_path / "scores.json"
    content = json.loads(path.read_text())
    content["runs"][1]["folder"] = outside
    path.write_text(json.dumps(content))
    with refused("scores.json is .* damaged"):
        scores.best_folder(str(tmp_path))


def test_a_folder_that_names_itself_in_another_way_is_itself(tmp_path):
    alone = dataclasses.replace(SUMMARY.runs[0], folder=str(tmp_path))
    scores.write(str(tmp_path), dataclasses.replace(SUMMARY, runs=(alone,)))
    path = tmp_path / "scores.json"
    path.write_text(path.read_text().replace('"folder": "."', '"folder": "./"'))
    assert scores.best_folder(str(tmp_path)) == str(tmp_path)
