"""The loop over updates: continued, and stopped by SIGTERM."""

import subprocess

import numpy as np
import pytest

from albert_tf import export_train_step
from tests.exported_steps import (
    RUNNER,
    STEPS,
    environment,
    load,
    run_program,
    start_program,
)


def assert_equal(one, other):
    one, other = load(one), load(other)
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_array_equal(other[name], value, name)


@pytest.mark.jax
def test_what_is_handed_back_is_where_the_next_run_goes_on(
    jax_python, exported, tmp_path
):
    program = f"--program={exported}"
    for name, batches in (
        ("all", f"{exported}/batches"),
        ("first", f"{exported}/batches/0.npz"),
    ):
        output = f"--output_dir={tmp_path}/{name}"
        run_program(jax_python, program, f"--batches={batches}", output)
    run_program(
        jax_python,
        program,
        f"--variables={tmp_path}/first/variables.npz",
        f"--batches={exported}/batches/[!0].npz",
        f"--output_dir={tmp_path}/rest",
    )
    last = tmp_path / "rest/variables.npz"
    assert_equal(tmp_path / "all/variables.npz", last)
    prefix = export_train_step.write_checkpoint(exported, str(last))
    assert prefix == f"{exported}/model.ckpt-{STEPS}"


@pytest.mark.jax
@pytest.mark.parametrize(
    ("at", "after"),
    [
        # Updates, and evaluations after the fourth and the last one.
        (("train", 3), [4, 4, 5, 6, 7, 7]),
        (("eval", 4), [5, 6, 7, 7]),
    ],
)
def test_the_same_command_continues_after_sigterm(
    jax_python, with_evaluation, tmp_path, at, after
):
    """In an update, and in an evaluation after which nothing is saved."""
    command = [
        f"--program={with_evaluation}",
        f"--batches={with_evaluation}/batches",
        f"--eval_batches={with_evaluation}/batches/0.npz",
        "--eval_steps=4",
        "--log_steps=1",
        "--steps=7",
    ]
    run_program(jax_python, *command, f"--output_dir={tmp_path}/whole")
    command.append(f"--output_dir={tmp_path}/part")
    stopped = f"""
import json, os, runpy, signal, sys
sys.argv[1:] = {command!r}
real = json.dumps
def dumps(values, **options):
    if (values.get("split"), values.get("step")) == {at!r}:
        os.kill(os.getpid(), signal.SIGTERM)
    return real(values, **options)
json.dumps = dumps
runpy.run_path({str(RUNNER)!r}, run_name="__main__")
"""
    done = subprocess.run(
        [jax_python, "-c", stopped],
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 42, done.stderr
    *lines, _ = run_program(jax_python, *command)
    assert [line["step"] for line in lines] == after
    assert_equal(
        tmp_path / "whole/variables.npz", tmp_path / "part/variables.npz"
    )
    finished = start_program(jax_python, *command)
    assert finished.returncode == 0
    assert "has 7 updates already" in finished.stderr
