"""Numbers of parameters: those of the paper's tables, to the last one.

Expected are the exact counts that follow from ALBERT Tables 1 to 4, next to the
millions that the paper prints. Embeddings, mapping, layers and pooler; no head.
"""

import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.config import AlbertConfig
from albert_tf.model.network.encoder import AlbertModel
from tests.conftest import ROOT

MODELS = ROOT / "configs" / "models"


def values_of(size):
    return json.loads((MODELS / f"albert_{size}_v2.json").read_text())


def count(size="base", **changes):
    config = AlbertConfig.from_dict(values_of(size) | changes)
    with tf.Graph().as_default():  # Shapes without memory.
        variables = AlbertModel(config).variables
        return sum(int(np.prod(variable.shape)) for variable in variables)


@pytest.mark.parametrize(
    ("embedding", "shared", "separate", "printed"),
    [
        (64, 9_681_408, 87_648_000, (10, 87)),
        (256, 15_687_936, 93_654_528, (16, 93)),
    ],
)
def test_embedding_sizes(embedding, shared, separate, printed):
    """ALBERT Table 3; the next test has the sizes 128 and 768."""
    assert count(embedding_size=embedding) == shared
    for change in ({"num_hidden_groups": 12}, {"share": "none"}):
        assert count(embedding_size=embedding, **change) == separate
    for exact, millions in zip((shared, separate), printed, strict=True):
        assert abs(exact / 1e6 - millions) < 1.1


@pytest.mark.parametrize(
    ("share", "narrow", "wide", "printed"),
    [
        ("all", 11_683_584, 31_114_752, (12, 31)),
        ("attention", 63_647_232, 83_078_400, (64, 83)),
        ("ffn", 37_686_528, 57_117_696, (38, 57)),
        ("none", 89_650_176, 109_081_344, (89, 108)),
    ],
)
def test_sharing_modes(share, narrow, wide, printed):
    """ALBERT Table 4; the norm counts with the part that it follows."""
    assert count(share=share) == narrow
    assert count(share=share, embedding_size=768) == wide
    for exact, millions in zip((narrow, wide), printed, strict=True):
        assert abs(exact / 1e6 - millions) < 1.1


@pytest.mark.parametrize(
    ("size", "layers"), [("large", 1), ("large", 48), ("xxlarge", 24)]
)
def test_depth_is_free(size, layers):
    assert count(size, num_hidden_layers=layers) == count(size)


def test_widest_model_of_the_paper():
    wide = {"hidden_size": 6144, "intermediate_size": 24576}
    assert count("xxlarge", **wide, num_hidden_layers=3) == 495_518_208


@pytest.mark.parametrize(
    ("size", "expected"), [("large", 334_607_360), ("xlarge", 1_275_291_648)]
)
def test_bert_shapes(size, expected):
    width = values_of(size)["hidden_size"]
    layers = {"num_hidden_layers": 24, "num_hidden_groups": 24}
    assert count(size, embedding_size=width, **layers) == expected
