"""Word embeddings that pretraining starts from."""

import contextlib

import numpy as np
import pytest

from albert_tf.common import errors
from albert_tf.text import tokenization
from albert_tf.training import (
    pretraining_recipe,
    training_options,
    word_embeddings,
)
from tests.albert_tf.training import recipes
from tests.conftest import refused

WHOLE = np.zeros((400, 8), np.float32)


@pytest.fixture
def table(small_config):
    shape = small_config.vocab_size, small_config.embedding_size
    return np.random.default_rng(1).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize(
    "recipe",
    [
        recipes.make(),
        recipes.make(
            objective="rtd", generator_size=0.5, generator_sharing="none"
        ),
    ],
)
def test_all_networks_of_a_model_get_the_table(small_config, table, recipe):
    update = training_options.UpdateOptions()
    model = pretraining_recipe.make_model(recipe, small_config, update)
    word_embeddings.assign(model, table)
    encoders = [model.encoder]
    if recipe.objective == "rtd":
        encoders.append(model.generator.encoder)
        assert encoders[0].embeddings is not encoders[1].embeddings
    for encoder in encoders:
        found = encoder.embeddings.word_embeddings
        np.testing.assert_array_equal(found, table)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_saved_table_is_read(small_config, tmp_path, table, dtype):
    table[0, 0] = -16384  # The largest number.
    np.save(tmp_path / "words.npy", table.astype(dtype))
    found = word_embeddings.read(str(tmp_path / "words.npy"), small_config)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, table)


@pytest.mark.parametrize(
    ("table", "part"),
    [
        (np.zeros((400, 9)), r"holds float64 \[400, 9\].*\[400, 8\]"),
        (np.zeros((400, 8), np.int32), r"holds int32 \[400, 8\]"),
        (np.full((400, 8), np.nan), "numbers that are not finite"),
        (np.full((400, 8), 1e39), "numbers that are not finite"),
        (np.full((400, 8), -1e38), r"the number 1e\+38. Above 16,384, float32"),
        (np.full((400, 8), 16390.0), "the number 1.639e"),
        (b"", "is not a whole NumPy file"),
        (b"king 0.1 0.2", "is not a whole NumPy file"),
        (b"PK\3\4", "is not a whole NumPy file"),
        (60, "is not a whole NumPy file"),
        (999, "is not a whole NumPy file"),
        (b"(4000000000, 8)", "word_embeddings_file="),
    ],
)
def test_tables_that_do_not_fit(small_config, tmp_path, table, part):
    path = tmp_path / "words.npy"
    np.save(path, table if isinstance(table, np.ndarray) else WHOLE)
    whole = path.read_bytes()
    if isinstance(table, int):
        path.write_bytes(whole[:table])
    elif isinstance(table, bytes):
        huge = whole.replace(b"(400, 8)", table, 1)
        path.write_bytes(huge if table.startswith(b"(") else table)
    with refused(part):
        word_embeddings.read(str(path), small_config)


def test_a_damaged_header_is_an_error_or_harmless(small_config, tmp_path):
    path = tmp_path / "words.npy"
    np.save(path, WHOLE)
    whole, rng = path.read_bytes(), np.random.default_rng(1)
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[rng.integers(128)] = rng.integers(256)
        path.write_bytes(damaged)
        with contextlib.suppress(errors.UserError):
            word_embeddings.read(str(path), small_config)


def test_fewer_columns_keep_the_products_of_rows():
    """Exactly, if the rest is 0; a table that fits stays as it is."""
    generator = np.random.default_rng(1)
    table = generator.normal(size=[50, 3]) @ generator.normal(size=[3, 8])
    table = table.astype(np.float32)
    found = word_embeddings.reduce_width(table, 3)
    assert found.shape == (50, 3)
    np.testing.assert_allclose(found @ found.T, table @ table.T, atol=1e-4)
    assert word_embeddings.reduce_width(table, 8) is table
    with refused(r"8 numbers.* 9"):
        word_embeddings.reduce_width(table, 9)


def test_pieces_of_another_vocabulary_get_the_mean_of_the_same_text(tmp_path):
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    theirs = [*special, "rain", "##ing", "bow", "##s"]
    ours = ["[UNK]", "[MASK]", "##s", "raining", "[SEP]", "[CLS]", "[PAD]"]
    of, tokenizer = (
        tokenization.load(
            tokenization.VocabularyOptions(
                vocab_file=write_vocabulary(tmp_path / name, pieces),
                do_lower_case=True,
            )
        )
        for name, pieces in (("theirs", theirs), ("ours", [*ours, "snow"]))
    )
    table = np.random.default_rng(2).normal(size=[9, 4]).astype(np.float32)
    found = word_embeddings.convert_rows(table, of, tokenizer)
    mean = table[[5, 6]].mean(0)
    expected = np.stack([*table[[1, 4, 8]], mean, *table[[3, 2, 0, 1]]])
    np.testing.assert_array_equal(found, expected)
    assert word_embeddings.convert_rows(table, of, of) is table


def write_vocabulary(path, pieces):
    path.write_text("\n".join(pieces) + "\n")
    return str(path)
