"""Lengths and vocabularies that do not fit an architecture."""

import dataclasses

import pytest

from albert_tf.model import compatibility
from albert_tf.text import tokenization
from tests.conftest import refused


def test_a_length_needs_positions(small_config):
    longest = small_config.max_position_embeddings
    compatibility.check_length(longest, small_config, "config.json")
    message = (
        f"={longest + 1}` is longer than the {longest} positions of config"
    )
    with refused(message):
        compatibility.check_length(longest + 1, small_config, "config.json")


def test_a_pair_needs_two_segments(small_config):
    compatibility.check_pairs(small_config, "c.json")
    one = dataclasses.replace(small_config, type_vocab_size=1)
    with refused("c.json has type_vocab_size 1"):
        compatibility.check_pairs(one, "c.json")


@pytest.fixture
def given(tiny_vocab):
    return tokenization.VocabularyOptions(spm_model_file=str(tiny_vocab))


@pytest.mark.parametrize("unused", [0, 1, 6, 64, 100, 128])
def test_rows_of_no_piece_are_noted(given, small_config, caplog, unused):
    """Tables are padded; span corruption has a hundred ids of its own."""
    pieces = tokenization.load(given).pieces
    config = dataclasses.replace(small_config, vocab_size=len(pieces) + unused)
    for _ in range(2):  # Said once.
        found = compatibility.load_tokenizer(given, config, f"m{unused}")
        assert found.pieces == pieces
    told = [f"{unused} rows of vocab_size in m{unused} belong to no"]
    assert [r.getMessage()[: len(told[0])] for r in caplog.records] == (
        told if unused else []
    )


@pytest.mark.parametrize("more", [-100, -1, 129, 1000])
def test_another_vocabulary_is_refused(given, small_config, more):
    count = tokenization.load(given).vocab_size
    other = dataclasses.replace(small_config, vocab_size=count + more)
    message = (
        f"spm_model_file=.* has {count} pieces.* vocab_size {count + more}"
    )
    with refused(message):
        compatibility.load_tokenizer(given, other, "the model")
