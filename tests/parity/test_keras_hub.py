"""Presets in KerasHub, on Keras 3 with torch: `make test-torch`."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import convert_checkpoint
from albert_tf.model.checkpoints import checkpoint_reader
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.text import tokenization
from tests.albert_tf.model import passes
from tests.conftest import FIXTURES, tiny_config

pytestmark = pytest.mark.torch
OWN = FIXTURES / "own_text"
TEXTS = ["Mara gave Ivo 1,024 ropes. ÄRGER\u00a0ﬁn², Café!", "THE lamp (at) 2012,"]
MODELS = {
    "Albert": {
        "num_hidden_layers": 4,
        "num_hidden_groups": 2,
        "inner_group_num": 2,
    },
    "Bert": {
        "num_hidden_layers": 2,
        "share": "none",
        "embedding_size": 32,
        "hidden_size": 32,
    },
}
# Keras 3 and tf_keras do not go together in a process.
PROGRAM = """
import json, sys
import numpy as np
import keras_hub

answers = {}
for name, folder in json.loads(sys.argv[1]).items():
    tokenizer = getattr(keras_hub.models, f"{name}Tokenizer")
    tokenizer = tokenizer.from_preset(folder)
    backbone = getattr(keras_hub.models, f"{name}Backbone").from_preset(folder)
    batch = dict(np.load(f"{folder}/batch.npz"))
    outputs = backbone(batch)
    np.savez(f"{folder}/outputs.npz", **{n: v.detach() for n, v in outputs.items()})
    answers[name] = [list(map(int, tokenizer(t))) for t in json.loads(sys.argv[2])]
    backbone.save_to_preset(f"{folder}/again")
    tokenizer.save_to_preset(f"{folder}/again")
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    pass
