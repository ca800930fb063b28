"""Weights in 8 bits: how they are rounded, and damaged files."""

import dataclasses

import numpy as np
import pytest
import safetensors.numpy

from albert_tf.model import int8_weights
from albert_tf.model.checkpoints import checkpoint_reader
from albert_tf.model.network.encoder import AlbertModel
from tests.albert_tf.model import models
from tests.conftest import refused

KERNEL, TABLE = "bert/pooler/dense/kernel", "bert/embeddings/word_embeddings"


def random_matrix(seed=0):
    """Rows of very different size, and one of zeros."""
    random = np.random.default_rng(seed)
    sizes = 10.0 ** random.uniform(-32, 30, [50, 1])
    matrix = random.standard_normal([50, 300]) * sizes
    matrix[7] = 0
    return matrix.astype(np.float32)


@pytest.mark.parametrize("name", [KERNEL, TABLE])
def test_each_weight_is_off_by_half_a_scale_at_most(name):
    matrix = random_matrix()
    matrix = matrix.T if name == KERNEL else matrix
    numbers, scale = int8_weights.quantize(name, matrix)
    assert (numbers.dtype, scale.dtype) == (np.int8, np.float32)
    assert scale.shape == ((1, 50) if name == KERNEL else (50, 1))
    largest = np.abs(matrix).max(0 if name == KERNEL else 1)
    used = largest > 1e-29
    assert used.sum() > 40
    np.testing.assert_allclose(scale.ravel()[used], largest[used] / 127, 1e-4)
    exact = numbers.astype(np.float64) * scale
    assert (np.abs(exact - matrix) <= scale * 0.503).all()
    # The product is exact, and stays the same when it is rounded again.
    value = numbers * scale
    np.testing.assert_array_equal(value, exact)
    again = int8_weights.quantize(name, value)
    np.testing.assert_array_equal(again[0], numbers)
    np.testing.assert_array_equal(again[1], scale)


@pytest.mark.parametrize("kind", ["pretraining", "squad_v2", "vectors"])
def test_tables_have_scales_of_rows_and_kernels_of_outputs(small_config, kind):
    model = models.MODELS[kind](AlbertModel(small_config))
    names = {
        checkpoint_reader.name_of(v): int8_weights.axis_of_scale(
            checkpoint_reader.name_of(v)
        )
        for v in model.variables
        if int8_weights.is_rounded(v)
    }
    for name, axis in names.items():
        is_table = "_embeddings" in name or name.endswith("output_weights")
        assert axis == is_table, name


@pytest.fixture
def folder(tmp_path, small_config):
    config = dataclasses.replace(small_config, vocab_size=11)
    weights = {
        TABLE: random_matrix(),
        "bert/pooler/dense/bias": np.ones(3, "f4"),
    }
    (tmp_path / "albert_config.json").write_text(config.to_json())
    (tmp_path / "model.safetensors").write_bytes(int8_weights.to_bytes(weights))
    return tmp_path


SCALE = f"{TABLE}/scale"
DAMAGED = [
    (None, "bert/embeddings/word_embeddings is I8, and its scale is not there"),
    (np.ones([1, 300], "f4"), r"has the shape \[1, 300\] instead of \[50, 1\]"),
    (np.ones(50, "f4"), r"has the shape \[50\] instead of \[50, 1\]"),
    (np.full([50, 1], np.nan, "f4"), "numbers that are not finite and posit"),
    (np.zeros([50, 1], "f4"), "numbers that are not finite and positive"),
]
VERSION = {int8_weights.FORMAT: "1"}
FOREIGN = [
    ({int8_weights.FORMAT: "2"}, "version 2; this program reads version 1. U"),
    ({"format": "pt"}, "as I8. Allowed are F32, F16, BF16, and I8 as convert_"),
]


@pytest.mark.parametrize(
    ("scale", "metadata", "message"),
    [(scale, VERSION, message) for scale, message in DAMAGED]
    + [(np.ones([50, 1], "f4"), *rest) for rest in FOREIGN],
)
def test_damaged_and_foreign_files_are_refused(
    folder, scale, metadata, message
):
    path = folder / "model.safetensors"
    tensors = safetensors.numpy.load_file(path)
    tensors[SCALE] = scale
    if scale is None:
        del tensors[SCALE]
    path.write_bytes(safetensors.numpy.save(tensors, metadata))
    with refused(message):
        checkpoint_reader.read(str(folder))
