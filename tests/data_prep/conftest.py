"""Options of the writer that work."""

import pytest

from albert_tf.data import masking
from albert_tf.text import tokenization
from data_prep import create_pretraining_data
from data_prep.writer import corpus, segment_pairs
from tests.data_prep import writing


@pytest.fixture
def base(tmp_path, tiny_vocab):
    """Options that work, of a folder with two text files."""
    writing.write_corpus(tmp_path / "a.txt", 1)
    writing.write_corpus(tmp_path / "b.txt", 2)
    return create_pretraining_data.CreatePretrainingDataOptions(
        text=corpus.CorpusOptions(str(tmp_path / "*.txt")),
        output_file=str(tmp_path / "out" / "a.tfrecord"),
        num_workers=1,
        vocabulary=tokenization.VocabularyOptions(tiny_vocab),
        dupe_factor=3,
        pairs=segment_pairs.PairOptions(max_seq_length=32),
        masks=masking.MaskingOptions(max_predictions_per_seq=5),
    )


@pytest.fixture
def many_pieces(monkeypatch):
    """Many blocks, units and parts, although there is little text."""
    for name, value in (
        ("_BLOCK_BYTES", (600, 600)),
        ("_UNIT_TOKENS", (300, 300)),
        ("_PART_POSITIONS", (32 * 9, 32 * 9)),
    ):
        monkeypatch.setattr(create_pretraining_data, name, value)
