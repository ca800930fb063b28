"""A step of each head, with a batch, for tests."""

import dataclasses

import numpy as np
import tensorflow as tf
import tf_keras as keras

from albert_tf.model.heads import classification, pretraining, replaced_tokens
from albert_tf.model.losses import (
    label_objectives,
    pretraining_objective,
    replaced_tokens_objective,
)
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.tasks.race import model as multiple_choice
from albert_tf.tasks.squad import model as squad_model
from tests.albert_tf.training import update_runs

BATCH, LENGTH, PREDICTIONS = 2, 32, 4


def make_batch(vocab_size, **labels):
    generator = np.random.default_rng(9)
    shape = [BATCH, LENGTH]
    values = {
        "input_ids": generator.integers(5, vocab_size, shape),
        "input_mask": np.ones(shape),
        "segment_ids": np.zeros(shape),
        "is_real_example": np.ones([BATCH]),
        **labels,
    }
    return {
        name: tf.constant(value, tf.int32)
        if np.asarray(value).dtype != np.float32
        else tf.constant(value)
        for name, value in values.items()
    }


def predictions(vocab_size):
    generator = np.random.default_rng(10)
    shape = [BATCH, PREDICTIONS]
    return {
        "masked_lm_positions": generator.integers(0, LENGTH, shape),
        "masked_lm_ids": generator.integers(5, vocab_size, shape),
        "masked_lm_weights": np.ones(shape, np.float32),
        "next_sentence_labels": np.ones([BATCH, 1]),
    }


def pretraining_batch(vocab_size):
    return make_batch(vocab_size, **predictions(vocab_size))


def questions(vocab_size, choices=4):
    shape = [BATCH, choices, LENGTH // choices]
    generator = np.random.default_rng(11)
    return {
        "input_ids": generator.integers(5, vocab_size, shape),
        "input_mask": np.ones(shape),
        "segment_ids": np.zeros(shape),
        "label_ids": [3, 1],
    }


# Without dropout: XLA draws other numbers from the same seed.
HEADS = {
    "classes": (
        lambda e: classification.AlbertClassifier(e, 3, dropout=0.0),
        label_objectives.CLASSIFICATION,
        {"label_ids": [2, 1]},
    ),
    "regression": (
        lambda e: classification.AlbertClassifier(e, 1, dropout=0.0),
        label_objectives.REGRESSION,
        {"label_ids": np.array([2.5, 1.0], np.float32)},
    ),
    "squad_v1": (
        squad_model.AlbertSquadV1,
        squad_model.V1,
        {"start_positions": [3, 4], "end_positions": [5, 6]},
    ),
    "squad_v2": (
        lambda e: squad_model.AlbertSquadV2(e, dropout=0.0),
        squad_model.V2,
        {
            "start_positions": [3, 4],
            "end_positions": [5, 6],
            "is_impossible": [0, 1],
            "p_mask": np.zeros([BATCH, LENGTH]),
        },
    ),
    "choices": (
        lambda e: multiple_choice.AlbertMultipleChoice(e, dropout=0.0),
        label_objectives.CLASSIFICATION,
        questions(400),
    ),
    "pretraining": (
        pretraining.AlbertPretrainer,
        pretraining_objective.make(),
        predictions(400),
    ),
    "replaced_tokens": (
        lambda e: replaced_tokens.ReplacedTokenDetector(
            e, replaced_tokens.shrink(e.config, 0.5)
        ),
        replaced_tokens_objective.make(),
        predictions(400),
    ),
}


def make(config, name, parts):
    """Return what makes the step of a head, always the same, and its batch."""
    config = dataclasses.replace(
        config,
        num_hidden_layers=1,
        num_hidden_groups=1,
        inner_group_num=1,
    )
    make_model, objective, labels = HEADS[name]

    def step():
        keras.utils.set_random_seed(2)
        model = make_model(AlbertModel(config))
        return update_runs.make_step(model, objective, parts=parts)

    return step, make_batch(config.vocab_size, **labels)


def assert_compiling_changes_nothing(config, name, parts):
    """Compare the step as XLA compiles it with the plain one."""
    step, batch = make(config, name, parts)
    plain = update_runs.run(step, batch, compiled=False)
    update_runs.assert_same(plain, update_runs.run(step, batch, compiled=True))
