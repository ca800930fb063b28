"""The tables of names."""

import pytest

from albert_tf.model.checkpoints import layouts
from tests.albert_tf.model.checkpoints import test_contract


@pytest.mark.parametrize(
    "family", [layouts.family(n) for n in ("albert", "bert")]
)
def test_every_name_is_there_once(family):
    """But for the two heads that are called alike there."""
    ours = [name for name, _ in family.pairs(3, 1)]
    assert len(set(ours)) == len(ours)
    for is_of_tokens in (False, True):
        name = f"{family.scope.capitalize()}ForTokenClassification"
        names = family.our_names(3, 1, [name] if is_of_tokens else [])
        assert len(set(names.values())) == len(names) == len(ours) - 2
        head = "cls/tags/" if is_of_tokens else ""
        assert names["classifier.weight"] == f"{head}output_weights"


def test_names_of_a_bert_are_those_of_transformers():
    """Those of an ALBERT: test_huggingface.py."""
    names = dict(layouts.family("bert").pairs(3, 1))
    for theirs, ours in test_contract.PARTS_OF_BERT.items():
        kernel = "gamma" if "LayerNorm" in ours else "kernel"
        name = f"bert.encoder.layer.2.{theirs.replace('/', '.')}.weight"
        group = "bert/encoder/transformer/group_2/inner_group_0"
        assert names[f"{group}/{ours}/{kernel}"] == name
    for ours, theirs in (
        ("bert/pooler/dense/kernel", "bert.pooler.dense.weight"),
        ("cls/predictions/output_bias", "cls.predictions.bias"),
        ("cls/seq_relationship/output_bias", "cls.seq_relationship.bias"),
        (
            "cls/predictions/transform/LayerNorm/beta",
            "cls.predictions.transform.LayerNorm.bias",
        ),
    ):
        assert names[ours] == theirs


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
    assert layouts.BERT.full_name(name) == full


@pytest.mark.parametrize(
    "layer", ["layer_0/other", "layer_x/output", "layer_shared/other"]
)
def test_names_of_other_layouts_stay(layer):
    name = f"bert/encoder/{layer}/dense/bias"
    assert layouts.from_bert(name) == name
