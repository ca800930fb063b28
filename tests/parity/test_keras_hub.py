"""Presets in KerasHub, on Keras 3 and torch: `make test-torch`."""

import json
import os

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import convert_checkpoint
from albert_tf.model.checkpoints import checkpoint_reader, restoring
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.text import tokenization
from albert_tf.training import run_folder
from tests.albert_tf.model import passes
from tests.conftest import FIXTURES, python, tiny_config
from tests.parity.conftest import assert_close

pytestmark = pytest.mark.torch
# By the names of KerasHub: the vocabulary, the shape, texts.
MODELS = {
    "Albert": (
        {"spm_model_file": str(FIXTURES / "own_text" / "spm.model")},
        {"num_hidden_layers": 4, "num_hidden_groups": 2, "inner_group_num": 2},
        [
            "Mara gave Ivo 1,024 ropes; ÄRGER\u00a0½ m²?",
            "THE lamp at 2012, Café",
        ],
    ),
    "Bert": (
        {"vocab_file": str(FIXTURES / "own_text" / "vocab.txt")},
        {"num_hidden_layers": 2, "share": "none", "embedding_size": 16},
        ["Mara gave Ivo 1,024 ropes; ÄRGER?", "THE lamp (at) 2012, Café"],
    ),
}
# In a process of its own: Keras 3 beside tf_keras, and torch under it.
PROGRAM = """
import json, sys
import keras_hub
import numpy as np

ids = {}
for name, texts in json.loads(sys.argv[2]).items():
    folder = f"{sys.argv[1]}/{name}"
    backbone = getattr(keras_hub.models, f"{name}Backbone").from_preset(folder)
    outputs = backbone(dict(np.load(f"{folder}/batch.npz")))
    arrays = {key: value.detach().numpy() for key, value in outputs.items()}
    np.savez(f"{folder}/outputs.npz", **arrays)
    cut = getattr(keras_hub.models, f"{name}Tokenizer")
    cut = cut.from_preset(folder)
    ids[name] = [np.array(cut(text)).tolist() for text in texts]
    backbone.save_to_preset(f"{folder}/again")
    cut.save_to_preset(f"{folder}/again")
print(json.dumps(ids))
"""


def read(folder):
    """What KerasHub has saved, as this project reads it."""
    checkpoint = checkpoint_reader.read(str(folder))
    model = AlbertModel(checkpoint.config)
    restoring.restore(model, checkpoint)
    vocabulary, _ = run_folder.vocabulary_beside(
        str(folder), tokenization.VocabularyOptions()
    )
    return model, tokenization.load(vocabulary)


def test_presets_give_our_outputs_and_ids(tmp_path):
    expected, ids, batch = {}, {}, passes.make_batch()
    for name, (vocabulary, shape, texts) in MODELS.items():
        options = tokenization.VocabularyOptions(**vocabulary)
        tokenizer = tokenization.load(options)
        config = tiny_config(vocab_size=tokenizer.vocab_size, **shape)
        model = passes.fill(AlbertModel(config), 0.3)
        source = tmp_path / f"{name}_source"
        tf.train.Checkpoint(model=model).write(str(source / "model.ckpt"))
        (source / "albert_config.json").write_text(config.to_json())
        convert_checkpoint.run(
            convert_checkpoint.ConvertOptions(
                from_=str(source / "model.ckpt"),
                to=str(tmp_path / name),
                format="keras_hub",
                vocabulary=options,
            )
        )
        np.savez(
            tmp_path / name / "batch.npz",
            token_ids=batch["input_ids"],
            padding_mask=batch["input_mask"],
            segment_ids=batch["segment_ids"],
        )
        expected[name] = model(batch)
        ids[name] = [tokenizer.encode(text) for text in texts]
    asked = json.dumps({name: texts for name, (*_, texts) in MODELS.items()})
    environment = {**os.environ, "KERAS_BACKEND": "torch"}
    answer = python("-c", PROGRAM, tmp_path, asked, env=environment)
    assert json.loads(answer.stdout.splitlines()[-1]) == ids
    is_token = batch["input_mask"].numpy() > 0
    for name in MODELS:
        outputs = np.load(tmp_path / name / "outputs.npz")
        restored, tokenizer = read(tmp_path / name / "again")
        _, _, texts = MODELS[name]
        assert [tokenizer.encode(text) for text in texts] == ids[name]
        for ours in (expected[name], restored(batch)):
            assert_close(outputs["pooled_output"], ours["pooled_output"])
            assert_close(
                outputs["sequence_output"][is_token],
                ours["sequence_output"].numpy()[is_token],
            )
