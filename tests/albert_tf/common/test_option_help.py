"""What --help and --helpfull show."""

import collections
import dataclasses
import importlib
import subprocess
import sys

import pytest

from albert_tf.common import option_help, options, ranges
from albert_tf.common.options import option
from tests.conftest import ROOT
from tests.test_option_names import OPTIONS


@dataclasses.dataclass(frozen=True)
class Inner:
    learning_rate: float = option(
        0.5, "Peak.", within=ranges.Range(above=0, high=10)
    )
    precision: str = option("x", "Numbers.", choices=("x", "y"))


@dataclasses.dataclass(frozen=True)
class Outer:
    odd_option: str | None = option(None, "An odd one.")
    do_eval: bool = option(True, "Whether to evaluate.")
    do_train: bool = option(False, "Whether to train.")
    inner: Inner = dataclasses.field(default_factory=Inner)
    input_file: str = option(
        "a", help="Long words." + " Long words." * 6, positional=True
    )


def test_options_stand_in_groups_by_use():
    shown = option_help.text("What it does.", options.leaves(Outer), False)
    assert shown == (
        "What it does.\n\n"
        "Data:\n"
        "  [--input_file=]TEXT\n"
        "      Long words. Long words. Long words. Long words. Long words. "
        "Long words.\n"
        "      Long words. Default: a.\n\n"
        "Training:\n"
        "  --[no]do_train\n"
        "      Whether to train. Default: false.\n"
        "  --[no]do_eval\n"
        "      Whether to evaluate. Default: true.\n"
        "  --learning_rate=NUMBER\n"
        "      Peak. A number above 0, up to 10. Default: 0.5.\n\n"
        "Devices:\n"
        "  --precision=x|y\n"
        "      Numbers. Default: x.\n\n"
        "--helpfull has 1 more.\n"
    )


def test_full_help_has_the_others():
    shown = option_help.text("What it does.", options.leaves(Outer), True)
    assert "Rarely needed:\n  --odd_option=TEXT\n      An odd one.\n" in shown
    assert "--flagfile=FILE" in shown and "--helpfull" not in shown


def options_class(where):
    module, name = where.split(":")
    return getattr(importlib.import_module(module), name)


@pytest.mark.parametrize("where", OPTIONS)
def test_help_has_the_options_that_must_be_given(where):
    leaves = list(options.leaves(options_class(where)))
    shown = option_help.text("", leaves, False)
    for leaf in leaves:
        if leaf.is_required:
            assert f"--{leaf.name}=" in shown
    assert max(map(len, shown.splitlines())) <= option_help.WIDTH


# Runs a command several times; tells the status of each, and what it loaded.
PROGRAM = """
import runpy
import sys
for words in (["--help"], ["--helpfull"], ["--absent=1"], []):
    sys.argv = ["command", *words]
    try:
        runpy.run_module(MODULE, run_name="__main__", alter_sys=True)
    except SystemExit as left:
        print(left.code, file=sys.stderr)
print({"tensorflow", "keras", "tf_keras"} & set(sys.modules), file=sys.stderr)
"""


@pytest.mark.parametrize("where", OPTIONS)
def test_help_and_wrong_options_load_no_tensorflow(where):
    module = where.split(":")[0]
    done = subprocess.run(
        [sys.executable, "-c", f"MODULE = {module!r}{PROGRAM}"],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    said = [
        line
        for line in done.stderr.splitlines()
        if line in ("0", "1", "2", "set()") or line.startswith(("{", "error"))
    ]
    statuses = [line for line in said if not line.startswith("error")]
    assert statuses == ["0", "0", "2", "2", "set()"], done.stderr
    assert said[2].startswith("error: --absent is not an option"), said


def test_table_names_each_option_once_and_none_that_is_gone():
    known = {n for w in OPTIONS for n in options.names(options_class(w))}
    listed = " ".join(option_help.GROUPS.values()).split()
    assert not set(listed) - known
    assert max(collections.Counter(listed).values()) == 1
