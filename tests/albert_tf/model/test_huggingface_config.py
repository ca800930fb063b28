"""Keys and values of Hugging Face's configs, translated both ways."""

import pytest

from albert_tf.common import errors
from albert_tf.model import huggingface_config


def translate(**values):
    return huggingface_config.translate(
        {"model_type": "albert", **values}, "config.json"
    )


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("gelu_new", "gelu"),
        ("gelu_pytorch_tanh", "gelu"),
        ("gelu", "gelu_erf"),
        ("relu", "relu"),
        ("tanh", "tanh"),
        ("linear", "linear"),
    ],
)
def test_activations_are_translated(theirs, ours):
    assert translate(hidden_act=theirs) == {"hidden_act": ours}
    if theirs != "gelu_pytorch_tanh":
        assert huggingface_config.their_activation(ours) == theirs


def test_keys_that_mean_the_same_keep_their_values():
    values = {key: 7 for key in huggingface_config.SAME_KEYS}
    assert translate(**values) == values


def test_keys_without_a_meaning_here_are_ignored():
    assert not translate(torch_dtype="float32", gap_size=0, use_cache=True)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"hidden_act": "silu"}, "hidden_act='silu'. Allowed are gelu_new"),
        ({"hidden_act": ["gelu"]}, "hidden_act="),
        ({"layer_norm_eps": 1e-5}, "layer_norm_eps=1e-05"),
        ({"position_embedding_type": "relative_key"}, "'absolute' only"),
        ({"model_type": "bert"}, "config.json has model_type='bert'"),
    ],
)
def test_unsupported_values_are_refused(values, message):
    with pytest.raises(errors.UserError, match=message):
        translate(**values)
