"""Word embeddings from the records of a pretraining."""

import dataclasses

import numpy as np
import pytest

from albert_tf.data import layouts
from data_prep import make_word_embeddings
from data_prep.inspection import record_statistics
from data_prep.make_word_embeddings import WordEmbeddingsOptions
from data_prep.vocabulary import cooccurrence
from tests import record_files
from tests.conftest import refused, tiny_config
from tests.data_prep.one_record import LAYOUT, VALUES, features

SPECIAL = record_statistics.SpecialIds(cls_id=2, sep_id=3, mask_id=4)
UNMASKED = [-1, 11, 12, 13, -1, 20, 21, 22, -1, -1]


@pytest.fixture
def settings(tmp_path):
    """A run on twelve records of random pieces."""
    config = tiny_config(vocab_size=40, embedding_size=8)
    (tmp_path / "config.json").write_text(config.to_json())
    rng = np.random.default_rng(1)
    rows = [
        {**VALUES, "input_ids": [2, *rng.integers(5, 30, 8), 0]}
        for _ in range(12)
    ]
    record_files.write(tmp_path / "train.tfrecord", rows, LAYOUT)
    return WordEmbeddingsOptions(
        input_file=str(tmp_path / "train.tfrecord"),
        albert_config_file=str(tmp_path / "config.json"),
        output_file=str(tmp_path / "out" / "embeddings.npy"),
    )


def make(settings, **changes):
    settings = dataclasses.replace(settings, **changes)
    make_word_embeddings.run(settings)
    return np.load(settings.output_file)


def test_hidden_pieces_are_restored():
    masked = features({"input_ids": [2, 11, 4, 13, 3, 22, 21, 22, 3, 0]})
    # The third prediction is at 6; let it be the piece at 5.
    masked["masked_lm_positions"] = np.array([[2, 3, 5, 0]])
    found = make_word_embeddings.original_pieces(masked, SPECIAL)
    assert found.tolist() == [UNMASKED]


def test_records_without_masks():
    plain = features({"input_ids": [2, 11, 12, 13, 3, 20, 21, 22, 3, 0]})
    for name in record_statistics.PREDICTIONS:
        del plain[name]
    found = make_word_embeddings.original_pieces(plain, SPECIAL)
    assert found.tolist() == [UNMASKED]


def test_the_file_is_the_table_of_the_counts(settings):
    table = make(settings)
    assert table.shape == (40, 8)
    assert table.dtype == np.float32
    pieces = make_word_embeddings.read_pieces([settings.input_file], 100, 40)
    information = cooccurrence.positive_information(
        cooccurrence.add_pairs(pieces, 40)
    )
    expected = cooccurrence.embeddings(information, 8, 0.1, 12345)
    np.testing.assert_allclose(table, expected, atol=1e-5)


def test_only_some_records_are_read(settings, tmp_path):
    """The first ones say what [CLS] is."""
    ids = [9, *VALUES["input_ids"][1:]]
    record_files.write(
        tmp_path / "b", [{**VALUES, "input_ids": ids}] * 9, LAYOUT
    )
    paths = [settings.input_file, str(tmp_path / "b")]
    first, second = make_word_embeddings.read_pieces(paths, 15, 40)
    assert (len(first), len(second)) == (12, 3)
    assert second[:, 0].tolist() == [9] * 3


ONE_PIECE = {"input_ids": [2, 5, 5, 5, 3, 5, 5, 5, 3, 0]}
ONE_PIECE |= {"masked_lm_ids": [5, 5, 5, 0]}
OTHER = (layouts.Feature("input_ids", (3,), "int64"),)


@pytest.mark.parametrize(
    "sizes, layout, row, message",
    [
        ((23, 5), LAYOUT, {}, "holds the id 23; the"),
        ((40, 11), LAYOUT, {}, "of 40, 10 are possible"),
        ((40, 8), LAYOUT, ONE_PIECE, "too few different pieces"),
        (
            (40, 8),
            LAYOUT,
            {"input_mask": [1, 5, *[1] * 7, 0]},
            "record 1 cannot be used: input_mask has the number 5",
        ),
        (
            (40, 8),
            OTHER,
            {"input_ids": [2, 5, 3]},
            "no records for pretraining",
        ),
    ],
)
def test_what_gives_no_embeddings(
    settings, tmp_path, sizes, layout, row, message
):
    config = tiny_config(vocab_size=sizes[0], embedding_size=sizes[1])
    (tmp_path / "config.json").write_text(config.to_json())
    values = {f.name: {**VALUES, **row}[f.name] for f in layout}
    record_files.write(tmp_path / "train.tfrecord", [values], layout)
    with refused(message):
        make(settings)
    assert not (tmp_path / "out" / "embeddings.npy").exists()
