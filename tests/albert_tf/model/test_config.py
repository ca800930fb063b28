"""The configuration: keys, values, files, groups, operations."""

import dataclasses
import json

import pytest

from albert_tf.model.config import HISTORIC_KEYS, AlbertConfig
from tests.conftest import refused


def test_unknown_key_comes_with_a_suggestion_and_the_allowed_ones():
    values = {"vocab_size": 10, "hiden_size": 8}
    with refused() as error:
        AlbertConfig.from_dict(values, "my.json")
    message = str(error.value)
    assert "Unknown key 'hiden_size' in my.json" in message
    assert "Did you mean 'hidden_size'?" in message
    for name in (
        *(f.name for f in dataclasses.fields(AlbertConfig)),
        "gap_size",
    ):
        assert name in message
    with refused("'zq' in my.json. Allowed are"):
        AlbertConfig.from_dict({"vocab_size": 10, "zq": 8}, "my.json")


def test_historic_keys_are_accepted_and_one_is_required(small_config):
    values = dataclasses.asdict(small_config)
    historic = dict.fromkeys(HISTORIC_KEYS, 0)
    assert AlbertConfig.from_dict({**values, **historic}) == small_config
    with refused("'vocab_size' is missing"):
        AlbertConfig.from_dict({"hidden_size": 8})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden_size": 16.0}, "hidden_size=16.0 is not a whole number"),
        ({"num_hidden_layers": 0}, "num_hidden_layers=0 is below 1"),
        ({"vocab_size": 10**12}, "vocab_size=1000000000000 is above 2,097,152"),
        ({"hidden_act": "swish"}, "hidden_act='swish' is not known. Allowed"),
        ({"hidden_dropout_prob": 1}, "hidden_dropout_prob=1 is not below 1"),
        ({"initializer_range": -0.1}, "initializer_range=-0.1 is below 0"),
        ({"layer_norm_eps": 0}, "layer_norm_eps=0 is not above 0"),
        (
            {"num_attention_heads": 3},
            "hidden_size=16 is not a multiple of num_attention_heads=3",
        ),
        (
            {"num_hidden_groups": 5},
            "num_hidden_groups=5 is more than num_hidden_layers=4",
        ),
        ({"share": "norm"}, "share='norm' is not known. Allowed are all, att"),
        (
            {"share": "none", "num_hidden_groups": 2},
            "share='none' and num_hidden_groups=2 contradict each other",
        ),
        ({"float_group_index": 1}, "float_group_index=1 is not true or false"),
        ({"pooling": "first"}, ".*Allowed are cls, pair"),
        ({"position_bias": "t5"}, ".*Allowed are none, alibi, relative"),
        (
            {
                "position_bias": "relative",
                "hidden_size": 15,
                "num_attention_heads": 3,
            },
            "hidden_size=15 is odd",
        ),
        (
            {"position_bias": "alibi", "num_attention_heads": 1},
            "num_attention_heads=1 is odd",
        ),
    ],
)
def test_wrong_values_are_refused(small_config, change, message):
    values = {**dataclasses.asdict(small_config), **change}
    with refused(f"In my.json: {message}"):
        AlbertConfig.from_dict(values, "my.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1, 2]", r"holds \[1, 2\], which is not a JSON object"),
        ('{"hiden_size": 4}', "'hiden_size' in `albert_config_file=.*`. Did"),
        ('{"vocab_size": 0}', "In `albert_config_file=.*`: vocab_size=0"),
        (
            '{"model_type": "albert", "position_embedding_type": "relative"}',
            "`albert_config_file=.*` has position_embedding_type='relative'",
        ),
    ],
)
def test_wrong_files_are_named(tmp_path, text, message):
    path = tmp_path / "albert_config.json"
    path.write_text(text)
    with refused(message):
        AlbertConfig.from_json_file(str(path))


@pytest.mark.parametrize(
    "own",
    [{}, {"share": "ffn", "float_group_index": True}, {"layer_norm_eps": 1e-7}],
)
def test_files_have_sorted_keys_and_only_the_own_ones_that_differ(
    tmp_path, own
):
    path = tmp_path / "albert_config.json"
    config = AlbertConfig(vocab_size=9, **own)
    path.write_text(config.to_json())
    assert AlbertConfig.from_json_file(str(path)) == config
    # The others that are ours have their defaults.
    ours = "share float_group_index project_words_first map_equal_sizes"
    ours = {*ours.split(), "pooling", "position_bias", "layer_norm_eps"}
    keys = (dataclasses.asdict(config).keys() - ours) | own.keys()
    assert list(json.loads(path.read_text())) == sorted(keys)


@pytest.mark.parametrize(
    ("layers", "groups", "expected"),
    [
        (1, 1, [0]),
        (4, 1, [0, 0, 0, 0]),
        (4, 2, [0, 0, 1, 1]),
        (4, 4, [0, 1, 2, 3]),
        (5, 2, [0, 0, 0, 1, 1]),
        (12, 5, [0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 4, 4]),
        (22, 22, list(range(22))),
    ],
)
def test_group_of_layer(small_config, layers, groups, expected):
    config = dataclasses.replace(
        small_config, num_hidden_layers=layers, num_hidden_groups=groups
    )
    assert [config.group_of_layer(i) for i in range(layers)] == expected


def test_float_group_index_is_the_original_s(small_config):
    """The wrong layers that original-release.md 2.5 counts."""
    wrong = {}
    for layers in range(1, 97):
        for groups in range(1, layers + 1):
            if layers % groups:
                continue
            config = dataclasses.replace(
                small_config,
                num_hidden_layers=layers,
                num_hidden_groups=groups,
                float_group_index=True,
            )
            for layer in range(layers):
                index = config.group_of_layer(layer)
                if index != layer * groups // layers:
                    wrong.setdefault((layers, groups), {})[layer] = index
    assert len(wrong) == 53
    assert sum(map(len, wrong.values())) == 144
    assert wrong[22, 22][15] == wrong[44, 22][30] == 14
    assert wrong[23, 23][13] == 12
    assert not {(12, 12), (24, 24), (48, 48)} & wrong.keys()


def test_defaults_are_those_of_the_original():
    """Of xxlarge; the keys that are ours are not written, so change nothing."""
    assert json.loads(AlbertConfig(30000).to_json()) == {
        "vocab_size": 30000,
        "embedding_size": 128,
        "hidden_size": 4096,
        "num_hidden_layers": 12,
        "num_hidden_groups": 1,
        "inner_group_num": 1,
        "num_attention_heads": 64,
        "intermediate_size": 16384,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "max_position_embeddings": 512,
        "type_vocab_size": 2,
        "initializer_range": 0.02,
    }
    assert AlbertConfig(1).layer_groups == [(0, 0)] * 12
    assert AlbertConfig(1, pooling="pair").pooled_width == 4 * 4096
    widths = [
        AlbertConfig(1, project_words_first=first).embedding_width
        for first in (False, True)
    ]
    assert widths == [128, 4096]


@pytest.mark.parametrize("outputs", [None, 4, 100])
@pytest.mark.parametrize(
    ("predictions", "changes"),
    [
        (3, {}),
        (0, {"embedding_size": 16, "position_bias": "alibi"}),
        (3, {"project_words_first": True}),
        (3, {"project_words_first": True, "embedding_size": 16}),
        (3, {"map_equal_sizes": True, "embedding_size": 16}),
        (3, {"position_bias": "relative"}),
        (3, {"pooling": "pair"}),  # All outputs of the last layer.
    ],
)
def test_operations_of_all_products_are_counted(
    small_config, predictions, changes, outputs
):
    config = dataclasses.replace(small_config, **changes)
    length, width, inner, narrow = 10, 16, 24, config.embedding_size

    def layer(rows):
        return [
            *[(length, width, width)] * 2,  # Key, value.
            *[(rows, width, width)] * 2,  # Query, output.
            (rows, width, length),  # Scores of all heads together,
            (rows, length, width),  # and what they are used for,
            *[(rows, width, 2 * length)] * ("relative" in changes.values()),
            (rows, width, inner),
            (rows, inner, width),
        ]

    last = length if "pooling" in changes else min(outputs or length, length)
    products = layer(length) * 7 + layer(last)
    if {narrow, *changes} & {8, "project_words_first", "map_equal_sizes"}:
        products.append((length, narrow, width))
    products += [(predictions, width, narrow), (predictions, narrow, 400)]
    if config.project_words_first:
        products.append((predictions, width, width))  # The head's transform.
    expected = sum(
        2 * rows * shared * columns for rows, shared, columns in products
    )
    assert config.forward_flops(length, predictions, outputs) == expected


def test_exits_are_some_depths_and_the_last(small_config):
    for listed, depths in ((None, (4,)), ("3,1", (1, 3, 4)), (" 2,4", (2, 4))):
        assert small_config.exits(listed) == depths
    for wrong in ("0", "5", "1,", "-1", "1.5", "\u00b2"):
        with refused(f"={wrong}` .* 1 to 4, the"):
            small_config.exits(wrong)
    with refused("the last layer alone"):
        small_config.exits("4")


@pytest.mark.parametrize(
    ("share", "groups", "attentions", "feed_forwards", "words"),
    [
        ("all", 1, "0000", "0000", "4 x 2 layers in 1 group(s) that share al"),
        ("all", 2, "0011", "0011", "4 x 2 layers in 2 group(s) that share al"),
        (
            "attention",
            2,
            "0011",
            "0123",
            "4 x 2 layers in 2 group(s) that share at",
        ),
        ("ffn", 1, "0123", "0000", "4 x 2 layers in 1 group(s) that share fe"),
        ("none", 1, "0123", "0123", "4 x 2 layers that share nothing"),
        ("none", 4, "0123", "0123", "4 x 2 layers that share nothing"),
        ("all", 4, "0123", "0123", "4 x 2 layers that share nothing"),
    ],
)
def test_what_is_shared(
    small_config, share, groups, attentions, feed_forwards, words
):
    config = dataclasses.replace(
        small_config, share=share, num_hidden_groups=groups
    )
    expected = zip(map(int, attentions), map(int, feed_forwards), strict=True)
    assert config.layer_groups == [*expected]
    assert config.sharing.startswith(words)
    one = dataclasses.replace(config, num_hidden_layers=1, num_hidden_groups=1)
    assert one.sharing == "1 x 2 layers that share nothing"
    one = dataclasses.replace(one, inner_group_num=1)
    assert one.sharing == "1 layer"


def test_files_of_others_and_names_of_released_models_are_read(tmp_path):
    assert AlbertConfig.from_json_file("albert_large_v2").hidden_size == 1024
    bert = {"vocab_size": 9, "num_hidden_layers": 3}
    for name, values, narrow, share in (
        ("config", {"model_type": "albert"}, 128, "all"),
        ("mine", {"ln_type": "postln", "embedding_size": 64}, 64, "all"),
        ("bert_config", {}, 768, "none"),
        ("mine", {"directionality": "bidi"}, 768, "none"),
        ("bert_config", {"num_hidden_groups": 1}, 128, "all"),
    ):
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps({**bert, **values}))
        config = AlbertConfig.from_json_file(str(path))
        assert config.num_hidden_layers == 3
        assert (config.embedding_size, config.share) == (narrow, share), values
        assert config.project_words_first == ("ln_type" in values)
