"""The tables of names."""

import pytest

from albert_tf.model.checkpoints import huggingface_names


@pytest.mark.parametrize("family", huggingface_names.FAMILIES.values())
def test_every_name_is_there_once(family):
    pairs = list(family.pairs(3, 1))
    for names in zip(*pairs, strict=True):
        assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("pooler.dense.bias", "bert.pooler.dense.bias"),
        ("embeddings.LayerNorm.gamma", "bert.embeddings.LayerNorm.weight"),
        ("bert.embeddings.LayerNorm.beta", "bert.embeddings.LayerNorm.bias"),
        ("classifier.weight", "classifier.weight"),
    ],
)
def test_names_get_their_scope_and_today_s_leaf(name, full):
    assert huggingface_names.BERT.full_name(name) == full
