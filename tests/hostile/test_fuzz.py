"""Random files and flags: a reader reads them, or says what is wrong.

They are the same ones every time. `make fuzz` draws others, and more of them.
"""

import json

import hypothesis
import pytest
from hypothesis import strategies

from albert_tf import options
from tests.hostile import chance, commands, damages
from tests.hostile.readers import READERS
from tests.hostile.test_options import NOWHERE, nothing
from tests.hostile.test_readers import JSON_READERS, TEXT_READERS, check

# Readers that build a network, load one or draw a picture for every file.
SLOW = (
    *("saved_model.pb", "saved variables", "train_step.json", "variables.npz"),
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
            max_examples=examples * chance.ROUNDS,
            derandomize=chance.SEED == 0,
            database=None,
            deadline=None,
            phases=(hypothesis.Phase.generate,),  # Shrinking takes minutes.
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        return settings(hypothesis.seed(chance.SEED)(test))

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


def read_damaged(place, content: bytes) -> None:
    _, _, damaged = place
    damaged.write_bytes(content)
    check(*place)


@pytest.mark.parametrize(
    "place", [name for name in READERS if name not in SLOW], indirect=True
)
@fuzz(20)
@hypothesis.given(edits=EDITS)
def test_edited_files(place, edits, originals):
    read_damaged(place, edited(originals(place), edits))


@pytest.mark.parametrize("place", SLOW, indirect=True)
@fuzz(3)
@hypothesis.given(edits=EDITS)
def test_edited_files_of_slow_readers(place, edits, originals):
    read_damaged(place, edited(originals(place), edits))


@pytest.mark.parametrize(
    "place", [name for name in TEXT_READERS if name not in SLOW], indirect=True
)
@fuzz(20)
@hypothesis.given(text=strategies.text(LETTERS, max_size=200))
def test_random_text(place, text):
    read_damaged(place, text.encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize(
    "place", [name for name in JSON_READERS if name not in SLOW], indirect=True
)
@fuzz(30)
@hypothesis.given(data=strategies.data())
def test_random_json(place, data, originals):
    read_changed_json(place, data, originals)


@pytest.mark.parametrize(
    "place", [name for name in JSON_READERS if name in SLOW], indirect=True
)
@fuzz(3)
@hypothesis.given(data=strategies.data())
def test_random_json_of_slow_readers(place, data, originals):
    read_changed_json(place, data, originals)


def read_changed_json(place, data, originals):
    content, rest = damages.first_json(originals(place))
    where = data.draw(strategies.sampled_from([(), *damages.places(content)]))
    changed = damages.replaced(content, where, data.draw(VALUES))
    read_damaged(place, (json.dumps(changed) + rest).encode())


@pytest.fixture
def originals():
    """What a file holds before it is damaged for the first time."""
    known = {}

    def original(place):
        if not known:
            known[place[2]] = place[2].read_bytes()
        return known[place[2]]

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
    flags = commands.Place(tmp_path, NOWHERE).flags(name, changes)
    status = options.run_inside(nothing, options_class, flags)
    said = capfd.readouterr().err
    assert status in (0, 2), said
    assert (status == 2) == said.startswith("error: ")
