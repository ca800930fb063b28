"""Two sets of texts with recordings of the original, for the same tests.

`own_text` is in the repository: generated texts, a vocabulary trained on them,
and the original's outputs. `real_text` is beside the project, if at all: real
data and the released vocabularies.
"""

import dataclasses
import gzip
import json
import pathlib

import numpy as np
import pytest

from albert_tf.text import tokenization
from tests.conftest import FIXTURES, PARITY_ATOL

TEXT_SETS = ("own_text", "real_text")


def assert_close(actual, expected):
    np.testing.assert_allclose(actual, expected, atol=PARITY_ATOL, rtol=0)


@dataclasses.dataclass(frozen=True)
class TextSet:
    """`recordings`: the folder of the original's outputs; `data`: its inputs.

    `corpus`: text for pretraining, whose records are recorded.
    """

    recordings: pathlib.Path
    data: pathlib.Path
    sentencepiece: pathlib.Path
    wordpiece: pathlib.Path
    corpus: pathlib.Path

    def read(self, name):
        content = (self.recordings / name).read_bytes()
        packed = name.endswith(".gz")
        return (gzip.decompress(content) if packed else content).decode()

    def read_rows(self, name):
        """The rows of a recording; texts may contain other line separators."""
        return [json.loads(row) for row in self.read(name).split("\n")[:-1]]

    def vocabulary(self, kind, **settings):
        names = {"sentencepiece": "spm_model_file", "wordpiece": "vocab_file"}
        path = str(getattr(self, kind))
        return tokenization.VocabularyOptions(**{names[kind]: path}, **settings)

    def tokenizer(self, kind="sentencepiece", **settings):
        return tokenization.load(self.vocabulary(kind, **settings))


@pytest.fixture(scope="session")
def own_text():
    folder = FIXTURES / "own_text"
    return TextSet(
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
    return TextSet(
        recordings,
        shared_dir / "data",
        vocabularies / "30k-clean.model",
        vocabularies / "vocab_chinese.txt",
        recordings / "original_tfrecord" / "input.txt",
    )


@pytest.fixture(scope="session")
def text_set(request):
    return request.getfixturevalue(request.param)
