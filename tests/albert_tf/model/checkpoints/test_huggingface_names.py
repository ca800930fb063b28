"""The tables of names."""

import pytest

from albert_tf.model.checkpoints import huggingface_names


@pytest.mark.parametrize("family", huggingface_names.FAMILIES.values())
def test_every_name_is_there_once(family):
    """But for the two heads that are called alike there."""
    ours = [name for name, _ in family.pairs(3, 1)]
    assert len(set(ours)) == len(ours)
    for is_of_tokens in (False, True):
        known = family.ours(3, 1, is_of_tokens=is_of_tokens)
        assert len(set(known.values())) == len(known) == len(ours) - 2
        head = "cls/tags/" if is_of_tokens else ""
        assert known["classifier.weight"] == f"{head}output_weights"


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
