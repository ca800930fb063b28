"""The loop over updates: continued, and stopped by SIGTERM."""

import shutil
import subprocess

import numpy as np
import pytest

from albert_tf import export_train_step
from tests.exported_steps import (
    RUNNER,
    STEPS,
    environment,
    load,
    run_code,
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
def test_updates_before_a_damaged_batch_are_kept(
    jax_python, exported, tmp_path
):
    program = f"--program={exported}", "--log_steps=1"
    whole, part = f"--output_dir={tmp_path}/whole", f"{tmp_path}/part"
    run_program(
        jax_python,
        *program,
        f"--batches={exported}/batches",
        "--steps=2",
        whole,
    )
    folder = shutil.copytree(f"{exported}/batches", tmp_path / "batches")
    (folder / "2.npz").write_bytes(b"")
    done = start_program(
        jax_python, *program, f"--batches={folder}", f"--output_dir={part}"
    )
    assert done.returncode == 1
    assert "2.npz cannot be read" in done.stderr
    assert_equal(tmp_path / "whole/variables.npz", f"{part}/variables.npz")


@pytest.mark.jax
def test_a_full_disk_is_named_and_keeps_what_was_saved(
    jax_python, exported, tmp_path
):
    """No file may be larger than the variables that were saved before."""
    options = (
        *(f"--program={exported}", f"--batches={exported}/batches"),
        *(f"--output_dir={tmp_path}", "--matrix_size=0"),
    )
    run_program(jax_python, *options, "--steps=2")
    saved = (tmp_path / "variables.npz").read_bytes()
    blocks = len(saved) // 1024 - 1
    done = subprocess.run(
        ["bash", "-c", f'ulimit -f {blocks}; exec "$0" "$@"', jax_python]
        + [str(RUNNER), *options],
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "variables.npz cannot be written: File too large" in done.stderr
    assert "Traceback" not in done.stderr
    assert (tmp_path / "variables.npz").read_bytes() == saved
    assert not list(tmp_path.glob("*.tmp"))


@pytest.mark.jax
@pytest.mark.parametrize("number", ["SIGTERM", "SIGINT"])
def test_a_signal_while_compiling_ends_at_once(
    jax_python, exported, tmp_path, number
):
    """Python calls no handler there; so a call that blocks stands for it."""
    program = f"""
import ctypes, os, runpy, signal, sys, threading
sys.path.insert(0, {str(RUNNER)!r})
import program

def compile_long(*_):
    threading.Timer(0.5, os.kill, (os.getpid(), signal.{number})).start()
    for _ in range(2):  # The signal ends the first one.
        ctypes.CDLL(None).usleep(5_000_000)
    raise AssertionError("not stopped")

program.Program.__init__ = compile_long
sys.argv = ["run", "--program={exported}", "--output_dir={tmp_path}"]
runpy.run_path({str(RUNNER)!r}, run_name="__main__")
"""
    done = run_code(jax_python, program)
    assert done.returncode == 42, done.stderr


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
    done = run_code(jax_python, stopped)
    assert done.returncode == 42, done.stderr
    *lines, _ = run_program(jax_python, *command)
    assert [line["step"] for line in lines] == after
    assert_equal(
        tmp_path / "whole/variables.npz", tmp_path / "part/variables.npz"
    )
    finished = start_program(jax_python, *command)
    assert finished.returncode == 0
    assert "has 7 updates already" in finished.stderr
