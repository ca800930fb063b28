"""Vocabularies of several tests."""

import pytest

from albert_tf.text import tokenization, wordpiece


@pytest.fixture(scope="session")
def tiny(tiny_vocab):
    return tokenization.Tokenizer(tiny_vocab)


@pytest.fixture(scope="session")
def released(shared_dir):
    path = shared_dir / "data" / "vocab" / "30k-clean.model"
    return tokenization.Tokenizer(str(path))


@pytest.fixture(scope="session")
def released_chinese(shared_dir):
    path = shared_dir / "data" / "vocab" / "vocab_chinese.txt"
    return wordpiece.WordPieceTokenizer(str(path))
