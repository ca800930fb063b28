"""Lengths and vocabularies that do not fit an architecture."""

import dataclasses

import pytest

from albert_tf.common import errors
from albert_tf.model import compatibility
from albert_tf.text import tokenization


def test_a_length_needs_positions(small_config):
    longest = small_config.max_position_embeddings
    compatibility.check_length(longest, small_config, "config.json")
    message = (
        f"={longest + 1}` is longer than the {longest} positions of config"
    )
    with pytest.raises(errors.UserError, match=message):
        compatibility.check_length(longest + 1, small_config, "config.json")


def test_a_pair_needs_two_segments(small_config):
    compatibility.check_pairs(small_config, "c.json")
    one = dataclasses.replace(small_config, type_vocab_size=1)
    with pytest.raises(errors.UserError, match="c.json has type_vocab_size 1"):
        compatibility.check_pairs(one, "c.json")


def test_a_vocabulary_has_as_many_pieces_as_the_model(tiny_vocab, small_config):
    options = tokenization.VocabularyOptions(spm_model_file=str(tiny_vocab))
    loaded = tokenization.load(options)
    config = dataclasses.replace(small_config, vocab_size=loaded.vocab_size)
    found = compatibility.load_tokenizer(options, config, "the model")
    assert found.pieces == loaded.pieces
    # Those of span corruption, which are no pieces.
    with_sentinels = dataclasses.replace(
        config, vocab_size=loaded.vocab_size + 100
    )
    assert compatibility.load_tokenizer(options, with_sentinels, "the model")
    other = dataclasses.replace(config, vocab_size=loaded.vocab_size + 1)
    count = loaded.vocab_size
    message = f"spm_model_file=.* has {count} pieces, .* vocab_size {count + 1}"
    with pytest.raises(errors.UserError, match=message):
        compatibility.load_tokenizer(options, other, "the model")
