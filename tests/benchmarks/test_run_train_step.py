"""The program that runs an exported step with jax, and compiles it for TPUs.

`make test-jax` runs the tests that need jax, and the compiler for TPUs.
"""

import ast
import json
import re
import subprocess
import sys

import numpy as np
import pytest

from albert_tf import export_train_step
from tests.conftest import LOSS_RTOL
from tests.exported_steps import (
    BATCH,
    CONFIG,
    RUNNER,
    STEPS,
    environment,
    make_options,
    run_program,
    start_program,
    write_batches,
)

EIGHT = 8


def export(folder, size=BATCH, **changes):
    """Export a step with batches; returns its folder."""
    settings = make_options(folder, train_batch_size=size, **changes)
    export_train_step.run(settings)
    write_batches(settings.output_dir, size)
    return settings.output_dir


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    return export(tmp_path_factory.mktemp("exported"))


@pytest.fixture(scope="module")
def for_eight(tmp_path_factory):
    """The folder of a step whose batches eight devices can share."""
    return export(tmp_path_factory.mktemp("eight"), EIGHT)


def test_runner_imports_numpy_and_jax_only():
    known = {"jax", "jaxlib", "numpy", *sys.stdlib_module_names}
    for node in ast.walk(ast.parse(RUNNER.read_text())):
        names = [alias.name for alias in getattr(node, "names", [])]
        if isinstance(node, ast.ImportFrom):
            names = [str(node.module)]
        if isinstance(node, ast.Import | ast.ImportFrom):
            assert {name.split(".")[0] for name in names} <= known


def test_missing_jax_is_named_with_what_to_install():
    program = f"""
import runpy, sys
sys.modules["jax"] = None
runpy.run_path({str(RUNNER)!r})
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "Install what requirements-jax.txt names" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.jax
def test_what_is_handed_back_is_where_the_next_run_goes_on(
    jax_python, exported
):
    folder = exported
    program = f"--program={folder}"
    batches = f"--batches={folder}/batches"
    run_program(jax_python, program, batches, f"--output={folder}/all.npz")
    first = f"{folder}/batches/0.npz"
    rest = f"{folder}/batches/[!0].npz"
    part = f"{folder}/part.npz"
    run_program(jax_python, program, f"--batches={first}", f"--output={part}")
    run_program(
        jax_python,
        program,
        f"--variables={part}",
        f"--batches={rest}",
        f"--output={part}",
    )
    with np.load(f"{folder}/all.npz") as whole, np.load(part) as parts:
        for name in whole.files:
            np.testing.assert_array_equal(parts[name], whole[name], name)
    prefix = export_train_step.write_checkpoint(folder, part)
    assert prefix == f"{folder}/model.ckpt-{STEPS}"


@pytest.mark.jax
def test_the_same_command_continues_after_sigterm(
    jax_python, exported, tmp_path
):
    command = [
        f"--program={exported}",
        f"--batches={exported}/batches",
        "--log_steps=1",
        "--save_steps=2",
        "--steps=7",
    ]
    run_program(jax_python, *command, f"--output={tmp_path}/whole.npz")
    # The process gets the signal in its third update.
    stopped = f"""
import json, os, runpy, signal, sys
sys.argv[1:] = {[*command, f"--output={tmp_path}/part.npz"]!r}
real = json.dumps
def dumps(values):
    if values.get("step") == 3:
        os.kill(os.getpid(), signal.SIGTERM)
    return real(values)
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
    assert len(done.stdout.splitlines()) == 3
    *lines, _ = run_program(
        jax_python, *command, f"--output={tmp_path}/part.npz"
    )
    assert [line["step"] for line in lines] == [4, 5, 6, 7]
    with (
        np.load(tmp_path / "whole.npz") as whole,
        np.load(tmp_path / "part.npz") as parts,
    ):
        for name in whole.files:
            np.testing.assert_array_equal(parts[name], whole[name], name)
    finished = start_program(
        jax_python, *command, f"--output={tmp_path}/part.npz"
    )
    assert finished.returncode == 1
    assert "has 7 updates already" in finished.stderr


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
def test_eight_devices_give_the_numbers_of_one(jax_python, for_eight, tmp_path):
    lines, variables = {}, {}
    for devices in (1, EIGHT):
        *lines[devices], measured = run_program(
            jax_python,
            f"--program={for_eight}",
            f"--batches={for_eight}/batches",
            f"--devices={devices}",
            f"--output={tmp_path}/{devices}.npz",
            "--log_steps=1",
        )
        assert measured["devices"] == devices
        with np.load(tmp_path / f"{devices}.npz") as stored:
            variables[devices] = dict(stored)
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
        ((exported, "--devices=8"), r"devices=8: 8 devices cannot .* of 4 in"),
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
@pytest.mark.parametrize("topology, devices", [("v5e:1x1", 1), ("v5e:2x4", 8)])
def test_step_compiles_for_tpus(jax_python, for_eight, topology, devices):
    done = start_program(
        jax_python, f"--program={for_eight}", f"--compile_for={topology}"
    )
    assert done.returncode == 0, done.stderr
    line, names, values = done.stdout.splitlines()
    found = json.loads(line)
    assert found["device"] == "TPU v5 lite"
    assert found["devices"] == devices
    # All but the batch is replaced in place.
    assert 0 < found["arguments_mib"] - found["aliased_mib"] < 0.05
    for name in ("program_mib", "gigaflops", "hbm_gigabytes", "megacycles"):
        assert found[name] > 0
    assert names.split(" | ")[1] == "device"
    assert values.split(" | ")[1] == "TPU v5 lite"


@pytest.mark.jax
def test_a_topology_that_does_not_exist_is_refused(jax_python, exported):
    for topology in ("v5e:3x3", "v5e"):
        done = start_program(
            jax_python, f"--program={exported}", f"--compile_for={topology}"
        )
        assert done.returncode == 1
        assert f"--compile_for={topology} is no topology" in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.jax
def test_missing_compiler_is_named_with_what_to_install(jax_python, exported):
    program = f"""
import runpy, sys
sys.modules["libtpu"] = None
sys.argv[1:] = ["--program={exported}", "--compile_for=v5e:1x1"]
runpy.run_path({str(RUNNER)!r}, run_name="__main__")
"""
    done = subprocess.run(
        [jax_python, "-c", program], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "Install libtpu in the version" in done.stderr
    assert "Traceback" not in done.stderr


# A loop of three trips. Bytes outside of the chip's memory, each trip: 400 of
# the result of a slice, then twice 400 of the sum. Once: 800 for the copy.
COMPILED = """HloModule step

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}

%body (state: (s32[], f32[100])) -> (s32[], f32[100]) {
  %state = (s32[], f32[100]{0:T(128)}) parameter(0)
  %count = s32[]{:T(128)S(6)} get-tuple-element(%state), index=0
  %x = f32[100]{0:T(128)} get-tuple-element(%state), index=1
  %start = ((f32[200]{0}), f32[100]{0:S(1)}, s32[]{:S(2)}) slice-start(%x)
  %part = f32[100]{0:S(1)} slice-done(%start)
  %y = f32[100]{0} fusion(%x, %part), kind=kLoop, {"estimated_cycles":"7"}
  ROOT %out = (s32[], f32[100]{0}) tuple(%count, %y)
}

ENTRY %main (x: f32[100]) -> f32[100] {
  %x = f32[100]{0} parameter(0)
  %zero = s32[] constant(0)
  %copy = f32[100]{0} copy(%x), {"estimated_cycles":"5"}
  %f = (s32[], f32[100]{0}) tuple(%zero, %copy)
  %z = (s32[], f32[100]{0}) while(%f), body=%body,{"known_trip_count":{"n":"3"}}
  ROOT %y = f32[100]{0} get-tuple-element(%z), index=1
}
"""


@pytest.mark.jax
def test_work_of_loops_counts_for_each_trip(jax_python):
    program = f"""
import json, runpy
runner = runpy.run_path({str(RUNNER)!r})
print(json.dumps(runner["count_work"]({COMPILED!r})))
"""
    done = subprocess.run(
        [jax_python, "-c", program], capture_output=True, text=True, check=True
    )
    moved, cycles = json.loads(done.stdout)
    assert moved == 2 * 400 + 3 * (400 + 2 * 400)
    assert cycles == 5 + 3 * 7
