"""The update of replaced-token detection as one program that XLA compiles."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from albert_tf.model.heads import replaced_tokens
from albert_tf.model.losses import replaced_tokens_objective
from albert_tf.model.network.encoder import AlbertModel
from tests.albert_tf.training import tiny_training, update_runs
from tests.conftest import tiny_config


@pytest.fixture
def batch():
    examples = tiny_training.make_examples(tiny_training.BATCH)
    return {name: tf.constant(value) for name, value in examples.items()}


@pytest.fixture
def make():
    """Makes the step, always the same; its parts are microbatches."""

    def of(parts):
        def make():
            keras.utils.set_random_seed(2)
            encoder = AlbertModel(tiny_config())
            model = replaced_tokens.ReplacedTokenDetector(
                encoder, replaced_tokens.shrink(encoder.config, 0.5)
            )
            objective = replaced_tokens_objective.make()
            return update_runs.make_step(model, objective, parts=parts)

        return make

    return of


@pytest.mark.parametrize("parts", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_compiled_as_a_whole_or_not_makes_no_difference(make, batch, parts):
    plain = update_runs.run(make(parts), batch, compiled=False)
    compiled = update_runs.run(make(parts), batch, compiled=True)
    update_runs.assert_same(plain, compiled)


def test_every_step_draws_other_words(make, batch):
    """With the same weights, only the number of the step differs."""
    step = make(1)()
    before = [value.numpy() for value in step.model.variables]
    share = step.names.index("replaced_token_loss")
    losses = []
    for _ in range(3):
        losses.append(step(batch).numpy()[share, 0])
        for variable, value in zip(step.model.variables, before, strict=True):
            variable.assign(value)
    assert len(np.unique(losses)) == 3
