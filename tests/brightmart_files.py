"""A small model of brightmart's albert_zh, as its archives have it."""

import json

import numpy as np

from albert_tf.text import wordpiece
from tests import tf1_checkpoints
from tests.conftest import FIXTURES

# Names and shapes of the released albert_tiny.
INDEX = json.loads((FIXTURES / "released_index.json").read_text())[
    "brightmart_albert_tiny_zh"
]
# Its sizes, and small ones.
SMALL = {21128: 60, 128: 8, 312: 12, 1248: 20, 512: 16, 2: 2}
CONFIG = {
    "attention_probs_dropout_prob": 0.0,
    "directionality": "bidi",
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.0,
    "hidden_size": 12,
    "embedding_size": 8,
    "initializer_range": 0.02,
    "intermediate_size": 20,
    "max_position_embeddings": 16,
    "num_attention_heads": 3,
    "num_hidden_layers": 3,
    "pooler_fc_size": 768,
    "pooler_type": "first_token_transform",
    "type_vocab_size": 2,
    "vocab_size": 60,
    "ln_type": "postln",
}


def write_config(path, **changes):
    path.write_text(json.dumps({**CONFIG, **changes}))
    return str(path)


def make_weights():
    """By their names; no bias is 0, no gamma is 1."""
    generator = np.random.default_rng(5)
    return {
        name: generator.normal(
            float(name.endswith("gamma")), 0.3, [SMALL[size] for size in shape]
        ).astype(np.float32)
        for name, (_, *shape) in INDEX.items()
    }


def save(weights, prefix, **more):
    return tf1_checkpoints.write(prefix, {**weights, **more})


def archive(folder):
    folder.mkdir()
    config = write_config(folder / "albert_config_tiny.json")
    letters = [chr(ord("一") + i) for i in range(55)]
    pieces = [*wordpiece.SPECIAL_PIECES, *letters]
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n")
    prefix = save(make_weights(), folder / "albert_model.ckpt")
    return {"init_checkpoint": prefix, "albert_config_file": config}
