"""The classifier: parity with the recorded original, and its dropout."""

import dataclasses

import numpy as np
import tensorflow as tf

from albert_tf.model.checkpoints import restoring
from albert_tf.model.config import AlbertConfig
from albert_tf.model.heads import classification
from albert_tf.model.network.encoder import AlbertModel
from tests.albert_tf.model import initial_weights, passes
from tests.conftest import FIXTURES, PARITY_ATOL

RECORDING = FIXTURES / "original_head_classifier"


def test_logits_equal_the_original():
    """Of a recorded classifier; its head is found by name."""
    config = AlbertConfig.from_json_file(str(RECORDING / "albert_config.json"))
    model = classification.AlbertClassifier(AlbertModel(config), 3)
    restoring.restore(model, str(RECORDING / "model.ckpt-0"))
    recorded = np.load(RECORDING / "fixture.npz")
    names = ("input_ids", "input_mask", "segment_ids")
    logits = model({n: tf.constant(recorded[n]) for n in names})["logits"]
    passes.assert_close(logits, recorded["logits"], PARITY_ATOL)


def test_new_head_starts_from_its_own_range(small_config):
    config = dataclasses.replace(small_config, initializer_range=0.05)
    model = classification.AlbertClassifier(AlbertModel(config), 9)
    initial_weights.assert_initial(passes.head_of(model), 0.02)


def test_a_tenth_of_the_pooled_output_is_dropped(small_config):
    """Where: tests/albert_tf/model/test_dropout.py."""
    model = classification.AlbertClassifier(AlbertModel(small_config), 3)
    assert model.dropout == 0.1
