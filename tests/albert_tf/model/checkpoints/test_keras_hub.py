"""What KerasHub lacks, and damaged presets; what it makes of one: parity."""

import json
import shutil

import h5py
import numpy as np
import pytest

from albert_tf.model.checkpoints import checkpoint_reader, keras_hub, restoring
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.text import tokenization
from albert_tf.training import run_folder
from tests.albert_tf.model import models
from tests.conftest import FIXTURES, refused, tiny_config

WORDS = {"vocab_file": str(FIXTURES / "own_text" / "vocab.txt")}
PIECES = {"spm_model_file": str(FIXTURES / "own_text" / "spm.model")}
OF_BERT = {"share": "none", "embedding_size": 16}


@pytest.mark.parametrize(
    ("changes", "vocabulary", "message"),
    [
        (
            {"hidden_act": "gelu_erf"},
            PIECES,
            "hidden_act='gelu_erf' has no .*K",
        ),
        ({"position_bias": "alibi"}, PIECES, "position_bias='alibi' has no"),
        ({"pooling": "pair"}, PIECES, "pooling='pair' has no"),
        ({"layer_norm_eps": 1e-6}, PIECES, "layer_norm_eps=1e-06 has no"),
        ({"project_words_first": True}, PIECES, "project_words_first=True has"),
        ({"share": "attention"}, PIECES, "share='attention' with 1 num_hidden"),
        ({"num_hidden_groups": 2}, PIECES, "2 num_hidden_groups for 3 num"),
        (OF_BERT, PIECES, "BERT has no tokenizer .* sentencepiece with .CLS."),
        ({}, WORDS, "ALBERT has no tokenizer .* of wordpiece with .CLS."),
    ],
)
def test_what_keras_hub_lacks_is_refused(changes, vocabulary, message):
    config = tiny_config(num_hidden_layers=3, **changes)
    options = tokenization.VocabularyOptions(**vocabulary)
    with refused(message):
        keras_hub.contents(config, {}, tokenization.load(options))


def edited(name, **values):
    """A change of arguments in a preset's JSON; None: the key is removed."""

    def change(folder):
        content = json.loads((folder / name).read_text())
        config = content["config"] | values
        content["config"] = {k: v for k, v in config.items() if v is not None}
        content |= {k: v for k, v in values.items() if k in content}
        (folder / name).write_text(json.dumps(content))

    return change


def stored(name, shape=None, dtype=np.float32):
    """A change of an array in the file of weights; None: it is removed."""

    def change(folder):
        with h5py.File(folder / "model.weights.h5", "a") as file:
            if name in file:
                del file[name]
            if shape is not None:
                file[name] = np.zeros(shape, dtype)

    return change


def removed(name):
    return lambda folder: (folder / name).unlink()


def resharded(folder):
    (folder / "model.weights.h5").rename(folder / "model_00001.weights.h5")


DENSE = "layers/dense/vars/0"
QUERY = "layers/transformer_encoder/_self_attention_layer/query_dense/vars/0"
WORDS_NAME = keras_hub.VOCABULARY_NAMES["vocab_file"]


@pytest.fixture(scope="module")
def preset(tmp_path_factory):
    folder = tmp_path_factory.mktemp("preset")
    tokenizer = tokenization.load(tokenization.VocabularyOptions(**WORDS))
    config = tiny_config(vocab_size=tokenizer.vocab_size, **OF_BERT)
    weights = models.random_weights("encoder", config)
    for name, content in keras_hub.contents(config, weights, tokenizer).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            edited("config.json", class_name="GemmaBackbone"),
            "config.json has class_name=.GemmaBackbone. .* are read; choose",
        ),
        (
            edited("config.json", activation="relu"),
            'config.json has activation="relu", which this project does not',
        ),
        (
            edited("config.json", dtype={"config": {"name": "bfloat16"}}),
            'config.json has dtype="bfloat16", which',
        ),
        (edited("config.json", num_heads=None), "json has no num_heads. Copy"),
        (
            edited("config.json", num_heads="2"),
            "config.json: num_attention_heads='2'",
        ),
        (
            edited("config.json", num_heads=4),
            "query/kernel: model .16, 16., checkpoint .16, 2, 8.",
        ),
        (removed("model.weights.h5"), "has no model.weights.h5. .*max_shard_s"),
        (resharded, "has no model.weights.h5. .*max_shard_size=None"),
        (stored(QUERY, [16, 3, 5]), "query/kernel: .*checkpoint .16, 3, 5."),
        (stored(DENSE), "pooler/dense/kernel: .*checkpoint nothing"),
        (stored(DENSE, (), "S3"), r"pooler/dense/kernel: .*checkpoint \[\]"),
        (stored("layers/adapter/vars/0", [1]), "holds layers/adapter/vars/0"),
        (
            edited("tokenizer.json", lowercase=False),
            "strip_accents without lowercase, which",
        ),
        (
            edited("tokenizer.json", suffix_indicator="@@"),
            'tokenizer.json has suffix_indicator="@@", which',
        ),
        (
            edited("tokenizer.json", class_name="GemmaTokenizer"),
            "tokenizer.json has class_name=.GemmaTokenizer. .* BertTokenizer",
        ),
        (removed("tokenizer.json"), "tokenizer.json does not exist. Copy"),
        (removed(WORDS_NAME), "`spm_model_file` and `vocab_file` are both mis"),
    ],
)
def test_damaged_presets_are_refused(tmp_path, preset, damage, message):
    folder = shutil.copytree(preset, tmp_path / "preset")
    damage(folder)
    with refused(message):
        checkpoint = checkpoint_reader.read(str(folder))
        restoring.restore(AlbertModel(checkpoint.config), checkpoint)
        beside, _ = run_folder.vocabulary_beside(
            str(folder), tokenization.VocabularyOptions()
        )
        tokenization.load(beside)
