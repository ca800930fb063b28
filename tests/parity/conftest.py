"""Texts with recordings of the original: two places, the same tests.

`own_text` lies in the repository: generated texts, the vocabulary trained on
them, and what the original gave. `real_text` lies beside the project, where it
is there: real data and the released vocabularies.
"""

import dataclasses
import gzip
import json
import pathlib

import pytest

from albert_tf import tokenization
from tests.conftest import FIXTURES

PLACES = ("own_text", "real_text")


@dataclasses.dataclass(frozen=True)
class Place:
    """Where texts, vocabularies and recordings are.

    Attributes:
        recordings: Folder of what the original gave.
        data: Folder of what it was given.
        sentencepiece: A vocabulary.
        wordpiece: Another one.
        corpus: Text for pretraining, with recorded records of it.
    """

    recordings: pathlib.Path
    data: pathlib.Path
    sentencepiece: pathlib.Path
    wordpiece: pathlib.Path
    corpus: pathlib.Path

    def read(self, name):
        """The text of a recording."""
        content = (self.recordings / name).read_bytes()
        packed = name.endswith(".gz")
        return (gzip.decompress(content) if packed else content).decode()

    def read_rows(self, name):
        """The rows of a recording; texts may hold other ends of lines."""
        return [json.loads(row) for row in self.read(name).split("\n")[:-1]]

    def vocabulary(self, kind, **settings):
        """The options of a vocabulary, "sentencepiece" or "wordpiece"."""
        names = {"sentencepiece": "spm_model_file", "wordpiece": "vocab_file"}
        path = str(getattr(self, kind))
        return tokenization.VocabularyOptions(**{names[kind]: path}, **settings)

    def tokenizer(self, kind="sentencepiece", **settings):
        """The tokenizer of a vocabulary."""
        return tokenization.load(self.vocabulary(kind, **settings))


@pytest.fixture(scope="session")
def own_text():
    folder = FIXTURES / "own_text"
    return Place(
        folder,
        folder,
        folder / "spm.model",
        folder / "vocab.txt",
        folder / "corpus.txt",
    )


@pytest.fixture(scope="session")
def real_text(shared_dir):
    vocabularies = shared_dir / "data" / "vocab"
    recordings = shared_dir / "fixtures"
    return Place(
        recordings,
        shared_dir / "data",
        vocabularies / "30k-clean.model",
        vocabularies / "vocab_chinese.txt",
        recordings / "original_tfrecord" / "input.txt",
    )


@pytest.fixture(scope="session")
def place(request):
    """One of PLACES, named by the parameter of a test."""
    return request.getfixturevalue(request.param)
