"""A folder of a tiny pretrained model, and the model in it."""

import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.heads import pretraining
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.text import tokenization
from lab.measure import scoring
from tests.conftest import tiny_config


def write_model(folder, tiny_vocab, seed=1):
    pieces = tokenization.Tokenizer(tiny_vocab).vocab_size
    config = tiny_config(vocab_size=pieces)
    model = pretraining.AlbertPretrainer(AlbertModel(config))
    random = np.random.default_rng(seed)
    for variable in model.variables:
        variable.assign(random.normal(0, 0.5, variable.shape))
    (folder / "albert_config.json").write_text(config.to_json())
    tf.train.Checkpoint(model=model).write(str(folder / "model.ckpt-best"))
    shutil.copy(tiny_vocab, folder / "spm.model")


@pytest.fixture(scope="session")
def model_dir(tmp_path_factory, tiny_vocab) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("pretrained")
    write_model(folder, tiny_vocab)
    return folder


@pytest.fixture(scope="session")
def masked_lm(model_dir) -> scoring.MaskedLm:
    nothing = tokenization.VocabularyOptions()
    return scoring.Source.find(str(model_dir), None, nothing).load()
