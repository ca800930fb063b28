"""Every reader with damaged files: it reads them, or reports the damage."""

import json
import os

import hypothesis
import pytest
import tensorflow as tf
from hypothesis import strategies

from albert_tf.common import errors
from tests.hostile import damages, sampling
from tests.hostile.readers import READERS

pytestmark = pytest.mark.slow

# Readers that build a network, load one or draw a picture for every file.
SLOW = ("metrics.jsonl", "saved variables", "saved_model.pb")
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


def check(reader, copy, damaged):
    """Errors of disks and of TensorFlow end a command with status 1."""
    try:
        with sampling.time_limit():
            reader.read(str(copy))
    except (errors.UserError, OSError, tf.errors.OpError) as error:
        assert damaged.name in str(error) or copy.name in str(error)
        return str(error)
    return None


def has_json(reader):
    return "json" in reader.source + reader.damaged


def changes_of(reader, whole):
    changes = {**damages.BYTES, **(damages.TEXTS if reader.is_text else {})}
    found = [(name, change(whole)) for name, change in changes.items()]
    if has_json(reader):
        values = enumerate(damages.values_of(whole))
        found += [(f"value {number}", content) for number, content in values]
    return found


@pytest.mark.parametrize("reader_files", READERS, indirect=True)
def test_damaged_files(reader_files, request):
    """A sample of the damages; what the file is replaced by comes last."""
    reader, copy, damaged = reader_files
    assert check(*reader_files) is None
    name = request.node.callspec.params["reader_files"]
    changes = changes_of(reader, damaged.read_bytes())
    for damage, content in sampling.some(changes, 6, name):
        damaged.write_bytes(content)
        note(damage, lambda: check(*reader_files))
    for damage in sampling.some([*damages.KINDS], 1, name):
        os.remove(damaged)
        damages.KINDS[damage](damaged)
        note(damage, lambda: check(*reader_files))


@pytest.mark.parametrize("reader_files", READERS, indirect=True)
@pytest.mark.parametrize("kind", ["pipe", "link to /dev/zero"])
def test_what_may_never_end(reader_files, kind):
    """In the place of any file, also of one that is read by its name only."""
    _, _, damaged = reader_files
    os.remove(damaged)
    damages.KINDS[kind](damaged)
    assert check(*reader_files)


@pytest.mark.parametrize(
    "reader_files",
    [
        name
        for name, reader in READERS.items()
        if reader.damaged
        and reader.source
        in ("huggingface", "preset", "sentences", "rte", "pretrained")
    ],
    indirect=True,
)
def test_no_link_leads_out_of_the_folder_of_a_model(reader_files, tmp_path):
    _, _, damaged = reader_files
    os.rename(damaged, tmp_path / "elsewhere")
    damaged.symlink_to(tmp_path / "elsewhere")
    said = check(*reader_files)
    assert said and "outside of its folder" in said


def note(damage, call):
    try:
        call()
    except BaseException as error:
        error.add_note(f"damage: {damage}; FUZZ_SEED={sampling.SEED}")
        raise


def edited(whole: bytes, edits) -> bytes:
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


@strategies.composite
def contents(draw, reader, whole):
    """What a damaged file holds: edits, random text, or other JSON values."""
    kinds = ["edits", *["text"] * reader.is_text, *["json"] * has_json(reader)]
    kind = draw(strategies.sampled_from(kinds))
    if kind == "edits":
        return edited(whole, draw(EDITS))
    if kind == "text":
        text = draw(strategies.text(LETTERS, max_size=200))
        return text.encode("utf-8", "surrogatepass")
    content, rest = damages.first_json(whole)
    where = draw(strategies.sampled_from([(), *damages.places(content)]))
    changed = damages.replaced(content, where, draw(VALUES))
    return (json.dumps(changed) + rest).encode()


@pytest.mark.slow
@pytest.mark.parametrize("reader_files", READERS, indirect=True)
def test_random_files(reader_files, request):
    reader, _, damaged = reader_files
    whole = damaged.read_bytes()
    name = request.node.callspec.params["reader_files"]

    @sampling.fuzz(3 if name in SLOW else 30)
    @hypothesis.given(content=contents(reader, whole))
    def read(content):
        damaged.write_bytes(content)
        check(*reader_files)

    read()
