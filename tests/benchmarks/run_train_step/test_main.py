"""The command: what it imports, and which options it refuses."""

import ast
import itertools
import subprocess
import sys

import pytest

from tests.exported_steps import (
    RUNNER,
    run_code,
    start_program,
)


def test_runner_imports_numpy_and_jax_only():
    paths = list(RUNNER.glob("*.py"))
    own = {path.stem for path in paths}
    known = {"jax", "jaxlib", "numpy", *sys.stdlib_module_names, *own}
    assert len(paths) > 1
    trees = [ast.parse(path.read_text()) for path in paths]
    for node in itertools.chain(*map(ast.walk, trees)):
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
@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--steps=0"], "--steps=0 is not a whole number from 1"),
        (["--save_steps=2"], "--save_steps needs --output_dir"),
        (["--eval_steps=2"], "--eval_steps needs --eval_batches"),
        (["--follow", "--steps=2"], "--follow needs --batches"),
        (["--eval_batches=x"], "has no evaluation. Export with"),
        (["--batches=x"], "--batches=x: there is no npz file"),
        (["--matrix_size=-1"], "--matrix_size=-1 is not a whole number from 0"),
        (["--step=2"], "arguments: --step=2. Did you mean --steps? --help"),
        (["x"], "unrecognized arguments: x. --help explains all options"),
        (["--output_dir="], "--output_dir is empty. Give it a value"),
        (["--compile_for="], "--compile_for is empty. Give it a value"),
        (["--devices=9"], "give 1 to 8. On a CPU, XLA_FLAGS="),
        (["--compile_for=v5e:1x1", "--batches=x"], "leave --batches out"),
        (
            ["--compile_for=v5e:1x1", "--devices=2", "--follow"],
            "for all chips of the topology: leave --follow, --devices out",
        ),
        (
            ["--follow", "--steps=2", "--batches=x/*"],
            "--batches=x/* is not one folder",
        ),
        (["--program=x"], "--program=x is not a folder that"),
        (["--variables=x"], "--variables: x cannot be read as an npz file"),
        (["--output_dir=/dev/null"], "--output_dir=/dev/null cannot be used: "),
    ],
)
def test_wrong_options_are_refused(jax_python, exported, arguments, message):
    done = start_program(jax_python, f"--program={exported}", *arguments)
    assert done.returncode in (1, 2)
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.jax
def test_a_failure_of_the_device_says_what_to_do(jax_python, exported):
    """As when its memory is too small."""
    program = f"""
import runpy, sys
import jax
sys.path.insert(0, {str(RUNNER)!r})
import program

def fail(*_):
    raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory")

program.Program.__call__ = fail
sys.argv[1:] = ["--program={exported}"]
runpy.run_path({str(RUNNER)!r}, run_name="__main__")
"""
    done = run_code(jax_python, program)
    assert done.returncode == 1
    assert f"--program={exported} failed on the device: RESOU" in done.stderr
    assert "export with a smaller --train_batch_size" in done.stderr
    assert "Traceback" not in done.stderr
