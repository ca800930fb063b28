"""Every option of every command with unusual values; no file is read."""

import pathlib

import hypothesis
import pytest
from hypothesis import strategies

from albert_tf.common import options
from tests import test_option_names
from tests.hostile import commands, sampling

NOWHERE = pathlib.Path("/nowhere")
# By the type of an option. What absl or a rule of ours does not refuse is an
# option that works, as far as options alone can tell.
NUMBERS = [
    *("", " ", "9" * 20, "-9223372036854775809", "9" * 5000),
    *"five 0x10 1e3 1.0 nan inf -inf 1_000 ٣ -1 0 -0 +1 1e400 1e-400".split(),
]
VALUES = {
    int: NUMBERS,
    float: NUMBERS,
    bool: ["", "maybe", "2", "-1", "truefalse", "None"],
    str: [
        *("", " ", "\0", "\n", "\udcff", "a" * 5000, "/" * 5000),
        *"~/x / .. -- = %s{0} [ ** ,, None gs:// ../../x $HOME".split(),
    ],
}


def nothing(*_):
    """Does nothing: only the options are tried."""


@pytest.fixture
def parse(tmp_path, capfd):
    def parse(name, changes):
        _, options_class = commands.load(name)
        flags = commands.Workspace(tmp_path, NOWHERE).flags(name, changes)
        status = options.run_inside(nothing, options_class, flags)
        said = capfd.readouterr().err
        assert status in (0, 2), (changes, said)
        assert (status == 2) == said.startswith("error: "), (changes, said)
        return said

    return parse


def test_every_command_is_here():
    assert commands.COMMANDS.keys() == test_option_names.OPTIONS.keys()


@pytest.mark.parametrize("name", commands.COMMANDS)
def test_unusual_values(name, parse):
    """A sample of them; the message names the option."""
    leaves = options.iter_flags(commands.load(name)[1])
    pairs = [(leaf.name, v) for leaf in leaves for v in VALUES[leaf.type]]
    for option, value in sampling.some(pairs, 40, name):
        said = parse(name, {option: value})
        assert not said or option in said, (value, said)


@pytest.mark.slow
@pytest.mark.parametrize("name", commands.COMMANDS)
def test_random_flags(name, parse):
    names = strategies.sampled_from(options.names(commands.load(name)[1]))
    values = (
        strategies.text(
            strategies.characters(exclude_categories=()), max_size=12
        )
        | strategies.integers().map(str)
        | strategies.floats().map(str)
    )

    @sampling.fuzz(20)
    @hypothesis.given(strategies.dictionaries(names, values, max_size=4))
    def parse_some(changes):
        parse(name, changes)

    parse_some()
