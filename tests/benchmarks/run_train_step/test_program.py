"""Compiled programs on one and several devices."""

import json
import os
import re
import shutil

import numpy as np
import pytest

from albert_tf import export_train_step
from tests import exported_steps
from tests.conftest import LOSS_RTOL
from tests.exported_steps import (
    EIGHT,
    STEPS,
    export,
    load,
    make_options,
    metrics,
    run_program,
    start_program,
)


@pytest.mark.jax
def test_runner_reads_what_lies_beside_the_description(jax_python, tmp_path):
    settings = make_options(tmp_path)
    export_train_step.run(settings)
    path = tmp_path / "step" / "train_step.json"
    description = json.loads(path.read_text())
    for name in ("program", "variables"):
        description[name] = f"/elsewhere/{description[name]}"
    path.write_text(json.dumps(description))
    run_program(jax_python, f"--program={settings.output_dir}", "--steps=1")


@pytest.mark.jax
@pytest.mark.parametrize(
    "name, content, message",
    [
        ("train_step.mlir", "module {", "train_step.mlir cannot be read"),
        ("train_step.mlir", "", "it has no main function"),
        (
            "train_step.mlir",
            "func.func @main(%a: tensor<3xf32>) { return }",
            "it takes other arrays than train_step.json says",
        ),
        ("train_step.json", "[]", "train_step.json has no arguments"),
        ("train_step.json", "3", "is not a folder that albert_tf.export"),
    ],
)
def test_damaged_program_is_named(
    jax_python, exported, tmp_path, name, content, message
):
    folder = shutil.copytree(exported, tmp_path / "step")
    (folder / name).write_text(content)
    done = start_program(jax_python, f"--program={folder}")
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.jax
@pytest.mark.parametrize(
    "changes, message",
    [
        ({"options": {}}, "train_step.json has no gradient_accumulation_steps"),
        ({"config": {}}, "train_step.json has no hidden_size"),
        ({"sequences": "4"}, "train_step.json has no sequences"),
        ({"arguments": [{"name": "x"}]}, "names no shape of an array"),
        ({"results": []}, "train_step.json has no names of the numbers"),
        ({"evaluation": {}}, "is not a folder that albert_tf.export"),
        ({"arguments": [3]}, "is not a folder that albert_tf.export"),
    ],
)
def test_a_description_that_lacks_something_is_named(
    jax_python, exported, tmp_path, changes, message
):
    with open(f"{exported}/train_step.json") as stream:
        description = json.load(stream)
    path = tmp_path / "train_step.json"
    path.write_text(json.dumps({**description, **changes}))
    done = start_program(jax_python, f"--program={tmp_path}")
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.jax
@pytest.mark.parametrize(
    "name", ["eval_step.mlir", "eval_batches/00000000.npz"]
)
def test_a_damaged_evaluation_is_named_before_training(
    jax_python, with_evaluation, tmp_path, name
):
    folder = shutil.copytree(with_evaluation, tmp_path / "step")
    (folder / name).write_text("module {")
    done = start_program(
        jax_python,
        f"--program={folder}",
        f"--eval_batches={folder}/eval_batches",
        "--log_steps=1",
    )
    assert done.returncode == 1
    assert f"{folder.joinpath(name).name} cannot be read" in done.stderr
    assert "Traceback" not in done.stderr
    assert not done.stdout


@pytest.mark.jax
def test_eight_devices_give_the_numbers_of_one(jax_python, for_eight, tmp_path):
    lines, variables = {}, {}
    for devices in (1, EIGHT):
        *found, measured = run_program(
            jax_python,
            f"--program={for_eight}",
            f"--batches={for_eight}/batches",
            f"--devices={devices}",
            f"--output_dir={tmp_path}/{devices}",
            "--log_steps=1",
        )
        assert measured["devices"] == devices
        lines[devices] = list(map(metrics, found))
        variables[devices] = load(tmp_path / f"{devices}/variables.npz")
    assert len(lines[1]) == STEPS
    for one, all_devices in zip(lines[1], lines[EIGHT], strict=True):
        assert all_devices == pytest.approx(one, rel=LOSS_RTOL)
    for name, value in variables[1].items():
        np.testing.assert_allclose(
            variables[EIGHT][name], value, rtol=LOSS_RTOL, atol=1e-6
        )


@pytest.mark.jax
def test_batches_that_devices_cannot_share_are_refused(
    jax_python, exported, tmp_path
):
    in_parts = export(tmp_path, EIGHT, gradient_accumulation_steps=2)
    for arguments, message in (
        (
            (exported, "--devices=8"),
            r"devices=8: 8 devices cannot .* of 4\. Use",
        ),
        ((exported, "--devices=9"), "devices=9, but jax finds 8"),
        ((in_parts, "--devices=2"), "of 8 in 2 microbatches"),
        ((exported, "--compile_for=v5e:2x4"), "v5e:2x4: 8 devices cannot sha"),
    ):
        folder, option = arguments
        done = start_program(jax_python, f"--program={folder}", option)
        assert done.returncode == 1
        assert re.search(message, done.stderr)
        assert "Traceback" not in done.stderr


@pytest.mark.jax
def test_a_platform_without_devices_is_named(jax_python, exported, monkeypatch):
    monkeypatch.setattr(
        exported_steps,
        "environment",
        lambda: {**os.environ, "JAX_PLATFORMS": "cuda"},
    )
    done = start_program(jax_python, f"--program={exported}")
    assert done.returncode == 1
    assert (
        "--devices=1, but jax finds none with JAX_PLATFORMS=cuda" in done.stderr
    )
    assert "set JAX_PLATFORMS=cpu" in done.stderr
    assert "Traceback" not in done.stderr
