"""Every reader with damaged files: it reads them, or reports the damage."""

import os

import pytest
import tensorflow as tf

from albert_tf.common import errors
from tests.hostile import damages, limits, sampling
from tests.hostile.readers import READERS

# How many other values each JSON file is tried with.
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


@pytest.mark.parametrize("reader_files", READERS, indirect=True)
def test_whole_files_are_read(reader_files):
    assert check(*reader_files) is None


def cases():
    """Yield the name of each reader with each damage."""
    for name, reader in READERS.items():
        texts = damages.TEXTS if reader.is_text else {}
        for damage in (*damages.BYTES, *texts, *damages.KINDS):
            yield name, damage


@pytest.mark.parametrize(
    ("reader_files", "damage"), list(cases()), indirect=["reader_files"]
)
def test_damaged_files(reader_files, damage):
    _, _, damaged = reader_files
    if damage in damages.KINDS:
        os.remove(damaged)
        damages.KINDS[damage](damaged)
    else:
        change = {**damages.BYTES, **damages.TEXTS}[damage]
        damaged.write_bytes(change(damaged.read_bytes()))
    check(*reader_files)


JSON_READERS = [
    name
    for name, reader in READERS.items()
    if "json" in reader.source + reader.damaged
]


@pytest.mark.parametrize("reader_files", JSON_READERS, indirect=True)
def test_other_values_in_json(reader_files):
    reader, copy, damaged = reader_files
    contents = damages.values_of(damaged.read_bytes())
    for content in sampling.some(contents, EACH):
        damaged.write_bytes(content)
        check(*reader_files)
