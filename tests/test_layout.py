"""Folders are layers; ARCHITECTURE.md states the rule, this file checks it."""

import ast
import pathlib
import re
import subprocess
import sys

import pytest

from tests.conftest import ROOT

# Each may import those before it, and itself. Those of one line do not import
# each other. Files outside of folders are commands.
LAYERS = (
    ("common",),
    ("text", "data"),
    ("model",),
    ("training",),
    ("finetuning",),
    ("serving",),
    ("commands",),
)
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
FILES = [
    path
    for package in ("albert_tf", "data_prep")
    for path in sorted((ROOT / package).rglob("*.py"))
    if path.name != "__init__.py"
]
NAMES = [path.relative_to(ROOT).as_posix() for path in FILES]
# They read and print command lines.
NAME_FLAGS = {
    f"albert_tf/common/{name}.py"
    for name in ("errors", "flag_files", "option_help", "options")
}
# These have no test file of their own, for the reasons given.
WITHOUT_TESTS = {
    "albert_tf/common/shared_options.py": "declarations; test_option_names, "
    "test_option_defaults and test_option_ranges test them in every command",
}
LONGEST_TEST_FILE = 700  # Lines.
COMMANDS = {
    name.removesuffix(".py").replace("/", ".")
    for name in NAMES
    if name.count("/") == 1
}


def imported_modules(path: pathlib.Path) -> set[str]:
    """Every module that a file imports, anywhere in it, with dots."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import."
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
            found.add(str(node.module))
    return found


def layer(module: str) -> str:
    """Return the layer of a module of albert_tf, such as `model`."""
    folder = module.split(".")[1]
    return folder if folder in RANK else "commands"


@pytest.mark.parametrize("name", NAMES)
def test_a_layer_imports_only_the_layers_below(name):
    own = layer(name.replace("/", ".")) if name[0] == "a" else "commands"
    for module in imported_modules(ROOT / name):
        if module.startswith("albert_tf."):
            other = layer(module)
            assert other == own or RANK[other] < RANK[own], module
        if not name.startswith("data_prep/"):
            assert not module.startswith("data_prep"), module


@pytest.mark.parametrize("name", NAMES)
def test_no_file_imports_a_command(name):
    assert not imported_modules(ROOT / name) & COMMANDS


def test_data_prep_imports_no_tensorflow():
    modules = [
        name.removesuffix(".py").replace("/", ".")
        for name in NAMES
        if name.startswith("data_prep/")
    ]
    program = f"import sys, {', '.join(modules)}\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = done.stdout.split()
    assert "data_prep.create_pretraining_data" in loaded
    assert not {"tensorflow", "tf_keras"} & set(loaded)


def texts_for_users(path: pathlib.Path) -> list[str]:
    """Every string of a file but docstrings and what `--help` shows."""
    tree = ast.parse(path.read_text())
    left_out = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            left_out.add(node.value)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "option":
            left_out |= set(ast.walk(node))
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node not in left_out
    ]


@pytest.mark.parametrize("name", NAMES)
def test_the_library_names_arguments_and_no_flags(name):
    if layer(name.replace("/", ".")) == "commands" or name in NAME_FLAGS:
        return
    for text in texts_for_users(ROOT / name):
        is_command = "python -m " in text
        assert is_command or not re.search(r"--\w|--$", text), text


@pytest.mark.parametrize("name", NAMES)
def test_keras_has_one_spelling(name):
    modules = imported_modules(ROOT / name)
    assert not {m for m in modules if re.match(r"(tensorflow\.)?keras\b", m)}
    text = (ROOT / name).read_text()
    assert "tf.keras" not in text
    if any(module.startswith("tf_keras") for module in modules):
        assert "import tf_keras as keras\n" in text


@pytest.mark.parametrize("name", NAMES)
def test_every_file_has_tests_in_its_mirror(name):
    folder, _, file = name.rpartition("/")
    has_tests = (ROOT / "tests" / folder / f"test_{file}").is_file()
    assert has_tests != (name in WITHOUT_TESTS)


def test_reasons_are_for_files_that_exist():
    assert WITHOUT_TESTS.keys() <= set(NAMES)


def test_no_test_file_is_long():
    for path in (ROOT / "tests").rglob("*.py"):
        assert path.read_text().count("\n") <= LONGEST_TEST_FILE, path
