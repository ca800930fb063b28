"""Keys and values of config files of all layouts, translated."""

import dataclasses

import pytest

from albert_tf.model.checkpoints import config_files
from albert_tf.model.config import AlbertConfig
from tests import brightmart_files
from tests.conftest import refused

SIZES = {"vocab_size": 9, "hidden_size": 8, "num_attention_heads": 2}


def build(name="config.json", **values):
    return config_files.build(values, name, name, AlbertConfig.from_dict)


def albert(**values):
    return build(**{"model_type": "albert", **SIZES, **values})


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
    config = albert(hidden_act=theirs)
    assert config.hidden_act == ours
    if theirs != "gelu_pytorch_tanh":
        values = config_files.for_hub(config, 1, "albert")
        assert values["hidden_act"] == theirs


BASE = AlbertConfig(
    vocab_size=9,
    hidden_size=768,
    embedding_size=768,
    num_hidden_layers=12,
    num_attention_heads=12,
    intermediate_size=3072,
    hidden_dropout_prob=0.1,
    attention_probs_dropout_prob=0.1,
    hidden_act="gelu_erf",
    share="none",
)
RELU = dataclasses.replace(BASE, hidden_act="relu")
MPNET = dataclasses.replace(
    BASE,
    max_position_embeddings=510,
    type_vocab_size=1,
    position_bias="buckets",
)
XLM_ROBERTA = dataclasses.replace(BASE, max_position_embeddings=510)
ONLY_ALBERT = {"embedding_size": 3, "num_hidden_groups": 2}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"model_type": "bert", **ONLY_ALBERT}, BASE),
        # Old files say it by their class only.
        ({"architectures": ["BertModel"]}, BASE),
        ({"architectures": ["MPNetForMaskedLM"], **ONLY_ALBERT}, MPNET),
        ({"architectures": ["XLMRobertaModel"]}, XLM_ROBERTA),
        ({"name": "bert_config.json"}, BASE),
        ({"name": "bert_config.json", "hidden_act": "relu"}, RELU),
        ({"directionality": "bidi", "pooler_type": "x"}, BASE),
        (
            {"architectures": ["AlbertModel"], "gap_size": 0},
            AlbertConfig(vocab_size=9),
        ),
        # These are configs of this project.
        (
            {"name": "bert_config.json", **ONLY_ALBERT},
            AlbertConfig(vocab_size=9, **ONLY_ALBERT),
        ),
        (
            {"name": "bert_config.json", "share": "all"},
            AlbertConfig(vocab_size=9),
        ),
    ],
)
def test_each_layout_has_its_own_defaults(values, expected):
    assert build(vocab_size=9, **values) == expected


@pytest.mark.parametrize("ln_type", ["postln", None])
def test_configs_of_brightmart_are_recognized(ln_type):
    """By both keys; before October 2019 there was no ln_type."""
    values = {**brightmart_files.CONFIG, "ln_type": ln_type}
    if ln_type is None:
        del values["ln_type"]
    config = build("albert_config_tiny.json", **values)
    assert (config.project_words_first, config.share) == (True, "all")
    del values["embedding_size"]  # BERT's, unless it has ln_type.
    config = build("albert_config_tiny.json", **values)
    assert config.project_words_first == bool(ln_type)
    assert config.embedding_size == (128 if ln_type else 12)


def test_keys_that_mean_the_same_keep_their_values_and_others_go():
    values = {key: 2 for key in config_files.SHARED_KEYS} | {
        "embedding_size": 3,
        "hidden_dropout_prob": 0.2,
        "attention_probs_dropout_prob": 0.3,
        "initializer_range": 0.4,
        "layer_norm_eps": 0.05,
    }
    config = albert(**values, torch_dtype="float32", gap_size=0)
    assert config == AlbertConfig(**values)
    own = "share float_group_index project_words_first map_equal_sizes pooling"
    names = {field.name for field in dataclasses.fields(AlbertConfig)}
    assert names - values.keys() == {
        "hidden_act",
        *own.split(),
        "position_bias",
    }


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
        ({"model_type": "roberta"}, "Its texts are byte-level BPE"),
        (
            {"model_type": "mpnet", "relative_attention_num_buckets": 64},
            "relative_attention_num_buckets=64; .* computes 32 only",
        ),
        (
            {"model_type": "mpnet", "max_position_embeddings": "9"},
            "not a whole n",
        ),
        (
            {"model_type": "xlm-roberta", "pad_token_id": 0},
            "pad_token_id=0; this project computes 1",
        ),
        ({"model_type": "camembert"}, "only albert, bert, mpnet, xlm-rob"),
        ({"model_type": "bert", "is_decoder": True}, "computes False only"),
        (
            {"num_hidden_layers": 18, "num_hidden_groups": 14},
            "18 num_hidden_layers. For these, transformers rounds",
        ),
    ],
)
def test_unsupported_values_are_refused(values, message):
    with refused(message):
        albert(**values)


def test_norms_before_sublayers_are_refused():
    values = {**brightmart_files.CONFIG, "ln_type": "preln"}
    with refused("ln_type='preln': this model of brightmart's"):
        build("c.json", **values)


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
    details = config_files.read_details(values, "config.json")
    assert details == config_files.Details(labels)


def test_regression_and_choice_are_read():
    def read(**values):
        return config_files.read_details(values, "config.json")

    assert read(problem_type="regression").is_regression
    one = read(problem_type="single_label_classification")
    assert one == config_files.Details([])
    several = read(problem_type="multi_label_classification")
    assert several == config_files.Details([], is_multi_label=True)
    for kind in ("Albert", "Bert", "MPNet"):
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
    with refused(message):
        config_files.read_details(values, "config.json")


def test_each_output_needs_a_name():
    details = config_files.Details(["no", "yes"])
    values = config_files.for_labels(2, details)
    assert values == {
        "id2label": {"0": "no", "1": "yes"},
        "label2id": {"no": 0, "yes": 1},
        "problem_type": "single_label_classification",
    }
    for flag, kind in (
        ("is_multi_label", "multi_label_classification"),
        ("is_regression", "regression"),
    ):
        unnamed = config_files.Details(**{flag: True})
        values = config_files.for_labels(2, unnamed)
        assert values["id2label"] == {"0": "LABEL_0", "1": "LABEL_1"}
        assert values["problem_type"] == kind
    choice = config_files.Details(is_choice=True)
    assert config_files.for_labels(1, choice, "bert") == {
        "architectures": ["BertForMultipleChoice"]
    }
    for count in (1, 3):
        with refused(f"{count} outputs, but 2 names: no, y"):
            config_files.for_labels(count, details)
