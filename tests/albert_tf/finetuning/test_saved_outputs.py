"""Outputs that are kept for ensembles: as they were, or an error."""

import dataclasses
import random

import numpy as np
import pytest

from albert_tf.common import errors
from albert_tf.finetuning import saved_outputs
from tests.conftest import refused

SAVED = saved_outputs.SavedOutputs(
    {"logits": np.arange(6, dtype=np.float32).reshape(3, 2)},
    "dev.tsv",
    {"max_seq_length": 32},
)


@pytest.fixture
def path(tmp_path):
    saved_outputs.save(str(tmp_path), "dev", SAVED)
    return tmp_path / "dev_outputs.npz"


def test_outputs_come_back(path):
    found = saved_outputs.load(str(path.parent), "dev")
    assert (found.source, found.key) == (SAVED.source, SAVED.key)
    np.testing.assert_array_equal(
        found.outputs["logits"], SAVED.outputs["logits"]
    )

    with refused("test_outputs.npz is not there"):
        saved_outputs.load(str(path.parent), "test")


def load_damaged(path, content):
    path.write_bytes(content)
    with refused("dev_outputs.npz is damaged"):
        saved_outputs.load(str(path.parent), "dev")


def test_file_without_one_of_the_outputs_is_refused(path):
    with np.load(path) as arrays:
        facts = arrays["facts_json"]
    np.savez(path, facts_json=facts)
    load_damaged(path, path.read_bytes())


def test_file_that_is_cut_short_or_another_is_refused(path):
    content = path.read_bytes()
    cut = [content[:size] for size in range(0, len(content) - 1, 7)]
    for other in (b"PK", b"{}", b"\x93NUMPY", *cut):
        load_damaged(path, other)


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_refused(path, number):
    logits = np.full([3, 2], number, np.float32)
    changed = dataclasses.replace(SAVED, outputs={"logits": logits})
    saved_outputs.save(str(path.parent), "dev", changed)
    with refused(r"outputs.npz .* not finite"):
        saved_outputs.load(str(path.parent), "dev")


def test_flipped_bits_are_an_error_or_change_nothing(path):
    content = path.read_bytes()
    draw = random.Random(5)
    for _ in range(300):
        damaged = bytearray(content)
        damaged[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        path.write_bytes(damaged)
        try:
            found = saved_outputs.load(str(path.parent), "dev")
        except errors.UserError:
            continue
        assert (found.source, found.key) == (SAVED.source, SAVED.key)
        np.testing.assert_array_equal(
            found.outputs["logits"], SAVED.outputs["logits"]
        )
