"""Folders of Hugging Face without a tokenizer, for tests."""

import json
import os

import tensorflow as tf

from albert_tf.model.checkpoints import huggingface


def write(folder, config, weights):
    """Write `config.json` and `model.safetensors`; return the folder."""
    values, data = huggingface.files_of(config, weights)
    tf.io.gfile.makedirs(str(folder))
    for name, content in (
        (huggingface.CONFIG_NAME, json.dumps(values)),
        (huggingface.WEIGHTS_NAME, data),
    ):
        with tf.io.gfile.GFile(os.path.join(str(folder), name), "wb") as file:
            file.write(content)
    return folder
