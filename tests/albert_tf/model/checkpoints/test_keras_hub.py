"""What KerasHub lacks; what it makes of a preset is in parity."""

import pytest

from albert_tf.model.checkpoints import keras_hub
from albert_tf.text import tokenization
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
