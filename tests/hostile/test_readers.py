"""Every reader with everything that can be wrong: it reads, or says what."""

import os

import pytest
import tensorflow as tf

from albert_tf import errors
from tests.hostile import chance, damages, limits
from tests.hostile.readers import READERS

# Other values that each JSON file is tried with.
EACH = 8

TEXT_READERS = [name for name, reader in READERS.items() if reader.is_text]


def check(reader, copy, damaged):
    """Read: a result, or a message that names the file; nothing else.

    Those of disks and of TensorFlow end a command with status 1.
    """
    try:
        with limits.time_limit():
            reader.read(copy)
    except (errors.UserError, OSError, tf.errors.OpError) as error:
        assert damaged.name in str(error) or copy.name in str(error)
        return str(error)
    return None


@pytest.mark.parametrize("place", READERS, indirect=True)
def test_whole_files_are_read(place):
    assert check(*place) is None


@pytest.mark.parametrize("damage", damages.BYTES)
@pytest.mark.parametrize("place", READERS, indirect=True)
def test_damaged_bytes(place, damage):
    reader, copy, damaged = place
    damaged.write_bytes(damages.BYTES[damage](damaged.read_bytes()))
    check(*place)


@pytest.mark.parametrize("damage", damages.TEXTS)
@pytest.mark.parametrize("place", TEXT_READERS, indirect=True)
def test_damaged_text(place, damage):
    reader, copy, damaged = place
    damaged.write_bytes(damages.TEXTS[damage](damaged.read_bytes()))
    check(*place)


@pytest.mark.parametrize("kind", damages.KINDS)
@pytest.mark.parametrize("place", READERS, indirect=True)
def test_no_files(place, kind):
    reader, copy, damaged = place
    os.remove(damaged)
    damages.KINDS[kind](damaged)
    check(*place)


JSON_READERS = [
    name
    for name, reader in READERS.items()
    if "json" in reader.source + reader.damaged
]


@pytest.mark.parametrize("place", JSON_READERS, indirect=True)
def test_other_values_in_json(place):
    reader, copy, damaged = place
    contents = damages.values_of(damaged.read_bytes())
    for content in chance.some(contents, EACH):
        damaged.write_bytes(content)
        check(*place)
