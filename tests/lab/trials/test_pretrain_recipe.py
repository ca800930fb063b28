"""The commands of lab/trials/pretrain_recipe.sh, and its early checks."""

import os
import subprocess

import pytest

from tests.conftest import ROOT

# Writes down its arguments; checks of options are ordinary calls of it.
PYTHON = """#!/bin/sh
printf '%s\\n' "$*" | tr -s '\\n' ' ' >> "$CALLS"
echo >> "$CALLS"
case "$*" in *bad*) exit 3 ;; esac
"""


@pytest.fixture
def start(tmp_path):
    python = tmp_path / "python"
    python.write_text(PYTHON)
    python.chmod(0o755)
    (tmp_path / "my data").mkdir()

    def run(*arguments, **environment):
        calls = tmp_path / "calls"
        calls.unlink(missing_ok=True)
        done = subprocess.run(
            [str(ROOT / "lab/trials/pretrain_recipe.sh"), *arguments],
            cwd=tmp_path,
            env={
                **os.environ,
                "PYTHON": str(python),
                "CALLS": str(calls),
                **environment,
            },
            capture_output=True,
            text=True,
            timeout=60,
        )
        lines = calls.read_text().splitlines() if calls.exists() else []
        return done.returncode, done.stderr, lines

    return run


def test_options_are_checked_first_then_everything_runs_in_order(start):
    status, _, lines = start(
        "hour", "my data", "my out", "--train_batch_size=16"
    )
    assert status == 0
    programs = [
        "PretrainingOptions",
        "EvaluateOptions",
        "lab.measure.make_corpus",
        "data_prep.train_sentencepiece",
        "data_prep.create_pretraining_data",
        "data_prep.create_pretraining_data",
        "data_prep.make_word_embeddings",
        "albert_tf.run_pretraining",
        "lab.measure.evaluate",
    ]
    for program, line in zip(programs, lines, strict=True):
        assert program in line
    assert "--flagfile=configs/pretraining/hour.flags" in lines[0]
    assert "--output_dir=my out/run " in lines[0]
    assert lines[0].endswith("--seed=1 --train_batch_size=16 ")
    assert "--data_dir=my data" in lines[1]
    assert "--parts=cost,held_out,minimal_pairs,finetuning" in lines[-1]


def test_word_embeddings_are_those_of_the_model_that_is_trained(start):
    *_, lines = start("night", "my data", "out")
    assert "--albert_config_file=albert_night" in lines[-3]
    assert "--word_embeddings_file=out/words.npy" in lines[-2]
    *_, lines = start("hour", "my data", "out", "--albert_config_file=c.json")
    assert "--albert_config_file=c.json" in lines[-3]
    *_, lines = start("hour", "my data", "out", "--init_checkpoint=x")
    assert not any("word_embeddings" in line for line in lines)


def test_a_wrong_option_stops_before_anything_is_made(start, tmp_path):
    status, _, lines = start("hour", "my data", "out", "--bad")
    assert status == 3
    assert len(lines) == 1
    assert not (tmp_path / "out").exists()


def test_replaced_tokens_are_measured_without_the_head_that_is_missing(start):
    for environment, parts in (({}, "cost,finetuning"), ({"PARTS": "x"}, "x")):
        *_, lines = start(
            "hour", "my data", "out", "--objective=rtd", **environment
        )
        assert lines[-1].endswith(f"--parts={parts} ")


def test_what_is_missing_is_named(start):
    for arguments, message in (
        (["hour", "my data"], "Usage: "),
        (["day", "my data", "out"], "RECIPE=day is no recipe"),
        (["night", "none", "out"], "DATA=none is not a folder"),
    ):
        status, error, lines = start(*arguments)
        assert status == 2
        assert message in error
        assert not lines
