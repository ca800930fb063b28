"""Compiling exported steps for TPUs, on a machine without one."""

import json
import subprocess

import pytest

from tests.exported_steps import RUNNER, start_program


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
import json, sys
sys.path.insert(0, {str(RUNNER)!r})
import tpu_compiler
print(json.dumps(tpu_compiler.count_work({COMPILED!r})))
"""
    done = subprocess.run(
        [jax_python, "-c", program], capture_output=True, text=True, check=True
    )
    moved, cycles = json.loads(done.stdout)
    assert moved == 2 * 400 + 3 * (400 + 2 * 400)
    assert cycles == 5 + 3 * 7
