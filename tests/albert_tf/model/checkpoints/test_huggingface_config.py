"""Keys and values of Hugging Face's configs, translated both ways."""

import dataclasses

import pytest

from albert_tf.common import errors
from albert_tf.model.checkpoints import bert, huggingface_config
from albert_tf.model.config import AlbertConfig


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
    ],
)
def test_activations_are_translated(theirs, ours):
    assert translate(hidden_act=theirs) == {"hidden_act": ours}
    if theirs != "gelu_pytorch_tanh":
        assert huggingface_config.their_activation(ours) == theirs


def test_a_bert_has_its_own_defaults():
    albert = {"embedding_size": 3, "num_hidden_groups": 2, "inner_group_num": 2}
    found = translate(model_type="bert", hidden_size=8, **albert)
    assert found == bert.complete({"hidden_size": 8, "hidden_act": "gelu_erf"})
    assert huggingface_config.is_config({"architectures": ["BertModel"]})
    assert huggingface_config.is_config({"architectures": ["AlbertModel"]})
    assert not huggingface_config.is_config({"architectures": ["T5Model"]})


def test_keys_that_mean_the_same_keep_their_values_and_others_go():
    values = {key: 7 for key in huggingface_config.SAME_KEYS}
    assert translate(**values, torch_dtype="float32", gap_size=0) == values
    others = {field.name for field in dataclasses.fields(AlbertConfig)} - {
        *values
    }
    own = "share float_group_index project_words_first map_equal_sizes pooling"
    assert others == {"hidden_act", *own.split(), "position_bias"}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"hidden_act": "silu"}, "hidden_act='silu'. Allowed are gelu_new"),
        (
            {"position_embedding_type": "relative_key"},
            "json has position_embedding_type='relative_key'; .*'absolute' o",
        ),
        ({"add_cross_attention": True}, "attention=True; .* computes False o"),
        ({"model_type": "t5"}, "config.json has model_type='t5'; only"),
        ({"model_type": "mpnet"}, "byte-level BPE, and its positions begin"),
        ({"model_type": "camembert"}, "SentencePiece vocabulary are shifted"),
        ({"model_type": "bert", "is_decoder": True}, "computes False only"),
    ],
)
def test_unsupported_values_are_refused(values, message):
    with pytest.raises(errors.UserError, match=message):
        translate(**values)


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ({}, []),
        ({"id2label": {"1": "yes", "0": "no, never"}}, ["no, never", "yes"]),
        ({"id2label": {"0": "LABEL_0", "1": "LABEL_1"}}, []),
        (
            {"id2label": {"0": "LABEL_1", "1": "LABEL_0"}},
            ["LABEL_1", "LABEL_0"],
        ),
        ({"id2label": None, "problem_type": None}, []),
    ],
)
def test_names_of_classes_are_read(values, labels):
    details = huggingface_config.read_details(values, "config.json")
    assert details == huggingface_config.Details(labels)


def test_regression_and_choice_are_read():
    def read(**values):
        return huggingface_config.read_details(values, "config.json")

    assert read(problem_type="regression").is_regression
    one = read(problem_type="single_label_classification")
    assert one == huggingface_config.Details([])
    several = read(problem_type="multi_label_classification")
    assert several == huggingface_config.Details([], are_several=True)
    for kind in ("Albert", "Bert"):
        assert read(architectures=[f"{kind}ForMultipleChoice"]).is_choice
    for other in (None, ["AlbertModel"], "AlbertForMultipleChoice", 7):
        assert not read(architectures=other).is_choice


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"id2label": {"0": "no", "2": "yes"}}, "Allowed are the numbers"),
        ({"id2label": {"0": "no", "1": "no"}}, "a name of its own"),
        ({"id2label": {"0": "no", "1": " "}}, "config.json has id2label="),
        ({"id2label": {"0": 1}}, "config.json has id2label="),
        ({"id2label": ["no", "yes"]}, "config.json has id2label="),
        ({"id2label": False}, "config.json has id2label=False"),
        (
            {"problem_type": "ranking"},
            "problem_type='ranking'. Allowed are regression, single_label",
        ),
    ],
)
def test_outputs_without_a_meaning_are_refused(values, message):
    with pytest.raises(errors.UserError, match=message):
        huggingface_config.read_details(values, "config.json")


def test_each_output_needs_a_name():
    details = huggingface_config.Details(["no", "yes"])
    values = huggingface_config.label_values(2, details)
    assert values == {
        "id2label": {"0": "no", "1": "yes"},
        "label2id": {"no": 0, "yes": 1},
        "problem_type": "single_label_classification",
    }
    for flag, kind in (
        ("are_several", "multi_label_classification"),
        ("is_regression", "regression"),
    ):
        unnamed = huggingface_config.Details(**{flag: True})
        values = huggingface_config.label_values(2, unnamed)
        assert values["id2label"] == {"0": "LABEL_0", "1": "LABEL_1"}
        assert values["problem_type"] == kind
    choice = huggingface_config.Details(is_choice=True)
    assert huggingface_config.label_values(1, choice, "bert") == {
        "architectures": ["BertForMultipleChoice"]
    }
    for count in (1, 3):
        message = f"{count} outputs, but 2 names: no, y"
        with pytest.raises(errors.UserError, match=message):
            huggingface_config.label_values(count, details)
