"""Every option of every command with unusual values."""

import pathlib

import pytest

from albert_tf.common import options
from tests import test_option_names
from tests.hostile import commands, valid_inputs

# No file is read: the paths need not be there.
NOWHERE = valid_inputs.Inputs(pathlib.Path("/nowhere"))

# By the type of an option. What absl or a rule of ours does not refuse is an
# option that works, as far as options alone can tell.
VALUES = {
    int: (
        *("", " ", "five", "0x10", "1e3", "1.0", "nan", "inf", "1_000", "٣"),
        *(
            "-1",
            "0",
            "-0",
            "+1",
            "99999999999999999999",
            "-9223372036854775809",
        ),
        "9" * 5000,
    ),
    float: (
        *("", " ", "five", "nan", "inf", "-inf", "1e400", "-1e400", "1e-400"),
        *("-1", "0", "-0.0", "0x1p3", "1_0.5", "1e308", "9" * 5000),
    ),
    bool: ("", "maybe", "2", "-1", "truefalse", "None"),
    str: (
        *("", " ", "\0", "\n", "~", "~/x", "/", "..", "-", "--", "=", "%s{0}"),
        *("[", "**", ",", ",,", "a" * 5000, "/" * 5000, "\udcff", "😀", "nan"),
        *("None", "file:///etc/passwd", "gs://", "://", "../../x", "$HOME"),
    ),
}


def nothing(*_):
    """Does nothing: only the options are tried."""


def one_by_one():
    return [
        pytest.param(name, leaf, id=f"{name.split(':')[0]}-{leaf.name}")
        for name in commands.COMMANDS
        for leaf in options.leaves(commands.load(name)[1])
    ]


def test_every_command_is_here():
    assert commands.COMMANDS.keys() == test_option_names.OPTIONS.keys()


@pytest.mark.parametrize(("name", "leaf"), one_by_one())
def test_values_of_an_option(name, leaf, capfd, tmp_path):
    _, options_class = commands.load(name)
    workspace = commands.Workspace(tmp_path, NOWHERE)
    for value in VALUES[leaf.type]:
        flags = workspace.flags(name, {leaf.name: value})
        status = options.run_inside(nothing, options_class, flags)
        said = capfd.readouterr().err
        assert status in (0, 2), (value, said)
        if status:
            assert said.startswith("error: ") and leaf.name in said, said
