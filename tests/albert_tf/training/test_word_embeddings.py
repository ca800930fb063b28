"""Word embeddings that pretraining starts from."""

import numpy as np
import pytest

from albert_tf.common import errors
from albert_tf.training import (
    pretraining_options,
    pretraining_recipe,
    training_options,
    word_embeddings,
)


@pytest.fixture
def table(small_config):
    shape = small_config.vocab_size, small_config.embedding_size
    return np.random.default_rng(1).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize(
    "recipe",
    [
        pretraining_options.RecipeOptions(),
        pretraining_options.RecipeOptions(
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
    np.save(tmp_path / "words.npy", table.astype(dtype))
    found = word_embeddings.read(str(tmp_path / "words.npy"), small_config)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, table)


def refused(tmp_path, config, match):
    with pytest.raises(errors.UserError, match=match):
        word_embeddings.read(str(tmp_path / "words.npy"), config)


@pytest.mark.parametrize(
    ("table", "part"),
    [
        (np.zeros((400, 9)), r"holds float64 \[400, 9\].*\[400, 8\]"),
        (np.zeros((400, 8), np.int32), r"holds int32 \[400, 8\]"),
        (np.full((400, 8), np.nan), "numbers that are not finite"),
    ],
)
def test_tables_that_do_not_fit(small_config, tmp_path, table, part):
    np.save(tmp_path / "words.npy", table)
    refused(tmp_path, small_config, part)


def test_damaged_files(small_config, tmp_path, table):
    path = tmp_path / "words.npy"
    refused(tmp_path, small_config, "word_embeddings_file=")
    np.save(path, table)
    whole = path.read_bytes()
    huge = whole.replace(b"(400, 8)", b"(4" + b"0" * 9 + b")", 1)
    for content in (b"", b"king 0.1 0.2", b"PK\3\4", whole[:60], whole[:999]):
        path.write_bytes(content)
        refused(tmp_path, small_config, "is not a whole NumPy file")
    path.write_bytes(huge)
    refused(tmp_path, small_config, "word_embeddings_file=")
    rng = np.random.default_rng(1)
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[rng.integers(128)] = rng.integers(256)
        path.write_bytes(damaged)
        try:
            word_embeddings.read(str(path), small_config)
        except errors.UserError:
            pass
