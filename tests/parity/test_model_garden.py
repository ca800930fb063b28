"""The encoder against Model Garden's independent implementation."""

import numpy as np
import pytest
import tensorflow as tf
from official.nlp.modeling import networks

from albert_tf.model.config import AlbertConfig
from albert_tf.model.network.encoder import AlbertModel
from tests.parity.conftest import assert_close

CONFIG = AlbertConfig(
    vocab_size=50,
    embedding_size=8,
    hidden_size=12,
    num_hidden_layers=3,
    num_attention_heads=3,
    intermediate_size=20,
    max_position_embeddings=16,
    initializer_range=0.2,
)


@pytest.fixture
def theirs():
    encoder = networks.AlbertEncoder(
        vocab_size=CONFIG.vocab_size,
        embedding_width=CONFIG.embedding_size,
        hidden_size=CONFIG.hidden_size,
        num_layers=CONFIG.num_hidden_layers,
        num_attention_heads=CONFIG.num_attention_heads,
        max_sequence_length=CONFIG.max_position_embeddings,
        type_vocab_size=CONFIG.type_vocab_size,
        intermediate_size=CONFIG.intermediate_size,
        dict_outputs=True,
    )
    random = np.random.default_rng(0)
    for variable in encoder.variables:  # No bias stays 0, no gamma 1.
        variable.assign(random.normal(0, 0.3, variable.shape))
    return encoder


def _pair_up(theirs, ours):
    """Copy weights; both list them in the order of use, up to the pooler."""
    names = {
        "word_embeddings/embeddings": "embeddings/word_embeddings",
        "position_embedding/embeddings": "embeddings/position_embeddings",
        "type_embeddings/embeddings": "embeddings/token_type_embeddings",
        "embeddings/layer_norm/": "embeddings/LayerNorm/",
        "embedding_projection/": "encoder/embedding_hidden_mapping_in/",
        "self_attention/query/": "self/query/",
        "self_attention/key/": "self/key/",
        "self_attention/value/": "self/value/",
        "self_attention/attention_output/": "attention_1/output/dense/",
        "self_attention_layer_norm/": "inner_group_0/LayerNorm/",
        "intermediate/": "ffn_1/intermediate/dense/",
        "transformer/output/": "ffn_1/intermediate/output/dense/",
        "output_layer_norm/": "inner_group_0/LayerNorm_1/",
        "pooler_transform/": "pooler/dense/",
    }
    left = {variable.name: variable for variable in ours.variables}
    for variable in theirs.variables:
        key = next(k for k in names if k in variable.name)
        suffix = variable.name.rsplit("/", 1)[1] if key.endswith("/") else ""
        (name,) = (
            n for n in left if f"{names[key]}{suffix}" in n and "bert" in n
        )
        target = left.pop(name)
        target.assign(tf.reshape(variable, target.shape))
    assert not left


def test_same_weights_give_the_same_outputs(theirs):
    ours = AlbertModel(CONFIG)
    _pair_up(theirs, ours)
    random = np.random.default_rng(1)
    ids = random.integers(0, CONFIG.vocab_size, [4, 9]).astype(np.int32)
    mask = (np.arange(9) < np.array([[9], [7], [4], [1]])).astype(np.int32)
    segments = (np.arange(9) > 3).astype(np.int32) * np.ones_like(ids)
    expected = theirs(
        {
            "input_word_ids": ids,
            "input_mask": mask,
            "input_type_ids": segments,
        }
    )
    inputs = {"input_ids": ids, "input_mask": mask, "segment_ids": segments}
    outputs = ours(inputs)
    for name in ("sequence_output", "pooled_output"):
        assert_close(outputs[name], expected[name])
