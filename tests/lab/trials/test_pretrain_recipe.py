"""The commands of lab/trials/pretrain_recipe.sh."""

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
PROGRAMS = [
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


@pytest.fixture
def start(tmp_path):
    python, calls = tmp_path / "python", tmp_path / "calls"
    python.write_text(PYTHON)
    python.chmod(0o755)
    (tmp_path / "my data").mkdir()

    def run(*arguments):
        calls.write_text("")
        done = subprocess.run(
            [str(ROOT / "lab/trials/pretrain_recipe.sh"), *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHON": str(python), "CALLS": str(calls)},
        )
        return done.returncode, calls.read_text().splitlines()

    return run


def test_options_are_checked_first_then_everything_runs_in_order(start):
    status, lines = start("hour", "my data", "my out", "--train_batch_size=16")
    assert status == 0
    for program, line in zip(PROGRAMS, lines, strict=True):
        assert program in line
    assert "--flagfile=configs/pretraining/hour.flags" in lines[0]
    assert lines[0].endswith("--seed=1 --train_batch_size=16 ")
    assert "--data_dir=my data" in lines[1]
    assert "--albert_config_file=albert_hour" in lines[-3]
    assert "--output_dir=my out/run " in lines[-2]
    assert "--word_embeddings_file=my out/words.npy" in lines[-2]
    assert "--parts=cost,held_out,minimal_pairs,finetuning" in lines[-1]


def test_options_that_are_given_change_what_belongs_to_them(start):
    _, lines = start("hour", "my data", "out", "--albert_config_file=c.json")
    assert "--albert_config_file=c.json" in lines[-3]
    _, lines = start("hour", "my data", "out", "--init_checkpoint=x")
    assert not any("word_embeddings" in line for line in lines)
    _, lines = start("night", "my data", "out", "--objective=rtd")
    assert lines[-1].endswith("--parts=cost,finetuning ")


def test_what_is_wrong_stops_before_anything_is_made(start, tmp_path):
    status, lines = start("hour", "my data", "out", "--bad")
    assert (status, len(lines)) == (3, 1)
    assert start("day", "my data", "out") == (2, [])
    assert start("night", "none", "out") == (2, [])
    assert not (tmp_path / "out").exists()
