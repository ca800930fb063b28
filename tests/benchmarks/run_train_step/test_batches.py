"""Batches from files, also while they are written."""

import os
import re
import shutil
import signal
import subprocess

import numpy as np
import pytest

from tests.exported_steps import (
    CONFIG,
    RUNNER,
    damaged_npz,
    environment,
    load,
    run_program,
    start_program,
)


@pytest.mark.jax
def test_runner_refuses_batches_of_another_program(
    jax_python, exported, tmp_path
):
    folder = exported
    with np.load(f"{folder}/batches/0.npz") as stored:
        good = dict(stored)
    too_large = good["input_ids"] + CONFIG.vocab_size
    short = good["input_ids"][:, :5]
    for changed, message in (
        ({**good, "input_ids": short}, r"int32 \[4, 5\]; the program takes"),
        ({**good, "input_ids": too_large}, "input_ids holds numbers outside 0"),
        ({"input_ids": good["input_ids"]}, "which takes input_mask too"),
    ):
        np.savez(tmp_path / "bad.npz", **changed)
        finished = start_program(
            jax_python, f"--program={folder}", f"--batches={tmp_path}"
        )
        assert finished.returncode == 1
        assert re.search(message, finished.stderr)


@pytest.mark.jax
@pytest.mark.parametrize("content", [b"", b"PK\3\4", b"x" * 99, damaged_npz()])
def test_damaged_batches_are_named(jax_python, exported, tmp_path, content):
    (tmp_path / "0.npz").write_bytes(content)
    finished = start_program(
        jax_python, f"--program={exported}", f"--batches={tmp_path}"
    )
    assert finished.returncode == 1
    assert f"{tmp_path}/0.npz cannot be read as an npz" in finished.stderr
    assert "Traceback" not in finished.stderr


def start_following(python, folder, output):
    """Start a process that waits for four batches in `OUTPUT/batches`."""
    return subprocess.Popen(
        [
            *(python, str(RUNNER), f"--program={folder}", "--follow"),
            *(f"--batches={output}/batches", f"--output_dir={output}/run"),
            *("--steps=4", "--log_steps=1", "--matrix_size=0"),
        ],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def add_batch(folder, output, number):
    """Have a batch appear as the exporter writes it."""
    name = f"{output}/batches/{number:08d}.npz"
    shutil.copy(f"{folder}/batches/{number}.npz", f"{name}.partial")
    os.replace(f"{name}.partial", name)


@pytest.mark.jax
def test_batches_are_waited_for_and_give_the_same_bits(
    jax_python, exported, tmp_path
):
    run_program(
        jax_python,
        f"--program={exported}",
        f"--batches={exported}/batches",
        "--steps=4",
        f"--output_dir={tmp_path}/whole",
    )
    (tmp_path / "batches").mkdir()
    with start_following(jax_python, exported, tmp_path) as process:
        for number in range(2):
            add_batch(exported, tmp_path, number)
            assert f'"step": {number + 1},' in process.stdout.readline()
        # There is no third one yet. The signal comes while it is waited for.
        waiting = f"Waiting for {tmp_path}/batches/00000002.npz.\n"
        assert waiting in iter(process.stderr.readline, "")
        process.send_signal(signal.SIGTERM)
        process.stderr.read()
    assert process.returncode == 42
    with start_following(jax_python, exported, tmp_path) as process:
        for number in (2, 3):
            add_batch(exported, tmp_path, number)
            assert f'"step": {number + 1},' in process.stdout.readline()
        process.stdout.read()
    assert process.returncode == 0
    whole = load(tmp_path / "whole/variables.npz")
    parts = load(tmp_path / "run/variables.npz")
    for name, value in whole.items():
        np.testing.assert_array_equal(parts[name], value, name)
