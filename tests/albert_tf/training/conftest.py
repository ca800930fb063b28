"""Trainers of a tiny model."""

import dataclasses
import time

import pytest
import tensorflow as tf
import tf_keras as keras

from albert_tf.model import model_options
from albert_tf.model.optimizers import optimization
from albert_tf.training import (
    pretraining_options,
    pretraining_recipe,
    training_loop,
    training_options,
)
from tests.albert_tf.training import tiny_training


@pytest.fixture
def one_layer(small_config):
    """What XLA compiles in a second."""
    return dataclasses.replace(
        small_config,
        num_hidden_layers=1,
        num_hidden_groups=1,
        inner_group_num=1,
    )


@pytest.fixture
def make_trainer(small_config, tmp_path):
    """Makes a trainer; the same arguments make the same one."""

    def make(
        folder="run",
        *,
        dropout=0.0,
        strategy=None,
        learning_rate=1e-2,
        now=time.monotonic,
        steps=tiny_training.STEPS,
        **changes,
    ):
        recipe = pretraining_options.RecipeOptions(
            objective=changes.pop("objective", "mlm")
        )
        config = dataclasses.replace(
            small_config,
            num_hidden_layers=2,
            num_hidden_groups=1,
            inner_group_num=1,
            hidden_dropout_prob=dropout,
            attention_probs_dropout_prob=dropout,
        )
        options = model_options.OptimizerOptions(
            changes.pop("optimizer", "lamb"), learning_rate=learning_rate
        )
        (tmp_path / folder).mkdir(exist_ok=True)
        usual = {"save_checkpoints_steps": 3, "iterations_per_loop": 1}
        trainer_options = training_options.TrainerOptions(**usual | changes)
        strategy = strategy or tf.distribute.OneDeviceStrategy("/CPU:0")
        keras.utils.set_random_seed(trainer_options.seed)
        with strategy.scope():
            model = pretraining_recipe.make_model(
                recipe, config, trainer_options
            )
            optimizer = optimization.make_optimizer(
                options,
                steps,
                2,
                by_the_clock="max_minutes" in changes,
                precision=trainer_options.precision,
            )
        trainer = training_loop.Trainer(
            model,
            optimizer,
            pretraining_recipe.make_objective(recipe),
            str(tmp_path / folder),
            trainer_options,
            now,
        )
        trainer.restore_or_initialize()
        return trainer

    return make
