"""Random files and flags: a reader reads them, or reports what is wrong.

The seed is fixed. `make fuzz` draws others, and more of them.
"""

import json

import hypothesis
import pytest
from hypothesis import strategies

from albert_tf.common import options
from tests.hostile import commands, damages, sampling
from tests.hostile.readers import READERS
from tests.hostile.test_options import NOWHERE, nothing
from tests.hostile.test_readers import JSON_READERS, TEXT_READERS, check

# Readers that build a network, load one or draw a picture for every file.
SLOW = (
    "saved_model.pb",
    "saved variables",
    "metrics.jsonl",
)
CHARACTERS = strategies.characters(exclude_categories=())  # Halves, too.
LETTERS = (
    "\t\n\r\0 \v\x1c\x85\u2028\ufeff\u0301aB7-+.,:;e\"'\\/{}[]_#%~@漢😀\ud83d"
)
VALUES = strategies.recursive(
    strategies.none()
    | strategies.booleans()
    | strategies.integers()
    | strategies.floats()
    | strategies.text(CHARACTERS, max_size=20),
    lambda inner: (
        strategies.lists(inner, max_size=4)
        | strategies.dictionaries(
            strategies.text(CHARACTERS, max_size=8), inner, max_size=4
        )
    ),
    max_leaves=8,
)
EDITS = strategies.lists(
    strategies.tuples(
        strategies.sampled_from(("put", "insert", "remove", "repeat", "cut")),
        strategies.floats(0, 1),
        strategies.binary(min_size=1, max_size=12),
    ),
    min_size=1,
    max_size=4,
)


def fuzz(examples):
    """Decorate a test: how many examples, and with which seed."""

    def decorate(test):
        settings = hypothesis.settings(
            max_examples=examples * sampling.ROUNDS,
            derandomize=sampling.SEED == 0,
            database=None,
            deadline=None,
            phases=(hypothesis.Phase.generate,),  # Shrinking takes minutes.
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        return settings(hypothesis.seed(sampling.SEED)(test))

    return decorate


def edited(whole: bytes, edits) -> bytes:
    """Change a file in a few places."""
    for what, share, some in edits:
        place = int(share * len(whole))
        before, behind = whole[:place], whole[place:]
        if what == "put":
            behind = some + behind[len(some) :]
        elif what == "insert":
            behind = some + behind
        elif what == "remove":
            behind = behind[len(some) :]
        elif what == "repeat":
            behind = behind[: 20 * len(some)] + behind
        else:
            behind = b""
        whole = before + behind
    return whole


def read_damaged(reader_files, content: bytes) -> None:
    _, _, damaged = reader_files
    damaged.write_bytes(content)
    check(*reader_files)


@pytest.mark.parametrize(
    "reader_files",
    [name for name in READERS if name not in SLOW],
    indirect=True,
)
@fuzz(20)
@hypothesis.given(edits=EDITS)
def test_edited_files(reader_files, edits, originals):
    read_damaged(reader_files, edited(originals(reader_files), edits))


@pytest.mark.parametrize("reader_files", SLOW, indirect=True)
@fuzz(3)
@hypothesis.given(edits=EDITS)
def test_edited_files_of_slow_readers(reader_files, edits, originals):
    read_damaged(reader_files, edited(originals(reader_files), edits))


@pytest.mark.parametrize(
    "reader_files",
    [name for name in TEXT_READERS if name not in SLOW],
    indirect=True,
)
@fuzz(20)
@hypothesis.given(text=strategies.text(LETTERS, max_size=200))
def test_random_text(reader_files, text):
    read_damaged(reader_files, text.encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize(
    "reader_files",
    [name for name in JSON_READERS if name not in SLOW],
    indirect=True,
)
@fuzz(30)
@hypothesis.given(data=strategies.data())
def test_random_json(reader_files, data, originals):
    read_changed_json(reader_files, data, originals)


@pytest.mark.parametrize(
    "reader_files",
    [name for name in JSON_READERS if name in SLOW],
    indirect=True,
)
@fuzz(3)
@hypothesis.given(data=strategies.data())
def test_random_json_of_slow_readers(reader_files, data, originals):
    read_changed_json(reader_files, data, originals)


def read_changed_json(reader_files, data, originals):
    content, rest = damages.first_json(originals(reader_files))
    where = data.draw(strategies.sampled_from([(), *damages.places(content)]))
    changed = damages.replaced(content, where, data.draw(VALUES))
    read_damaged(reader_files, (json.dumps(changed) + rest).encode())


@pytest.fixture
def originals():
    """What a file holds before it is damaged for the first time."""
    known = {}

    def original(reader_files):
        if not known:
            known[reader_files[2]] = reader_files[2].read_bytes()
        return known[reader_files[2]]

    return original


@pytest.mark.parametrize("name", commands.COMMANDS)
@fuzz(20)
@hypothesis.given(data=strategies.data())
def test_random_flags(name, data, capfd, tmp_path):
    _, options_class = commands.load(name)
    names = strategies.sampled_from(options.names(options_class))
    values = (
        strategies.text(CHARACTERS, max_size=12)
        | strategies.integers().map(str)
        | strategies.floats().map(str)
    )
    changes = data.draw(strategies.dictionaries(names, values, max_size=4))
    flags = commands.Workspace(tmp_path, NOWHERE).flags(name, changes)
    status = options.run_inside(nothing, options_class, flags)
    said = capfd.readouterr().err
    assert status in (0, 2), said
    assert (status == 2) == said.startswith("error: ")
