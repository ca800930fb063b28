"""The update at the shape of albert-base, compiled by XLA as one program.

Compiled programs stay in memory, so this test has its own file.
"""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.config import AlbertConfig
from albert_tf.model.heads import pretraining
from albert_tf.model.losses import pretraining_objective
from albert_tf.model.network.encoder import AlbertModel
from tests.albert_tf.training import head_steps, update_runs
from tests.conftest import LOSS_RTOL, ROOT


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_pretraining_at_base_shape_is_one_program_for_xla(precision):
    config = AlbertConfig.from_json_file(
        str(ROOT / "configs/models/albert_base_v2.json")
    )
    # Compiled programs stay in memory, and all layers are the same.
    config = dataclasses.replace(config, num_hidden_layers=2)
    encoder = AlbertModel(config, precision=precision)
    model = pretraining.AlbertPretrainer(encoder)
    objective = pretraining_objective.make()
    step = update_runs.make_step(model, objective, precision)
    batch = head_steps.pretraining_batch(config.vocab_size)
    expected = objective.weighted_sums(model, batch, tf.constant([0, 0]))
    row = tf.function(step, jit_compile=True)(batch).numpy()
    name = objective.names.index("masked_lm_loss")
    loss = expected["masked_lm_loss"].numerator.numpy()
    rtol = LOSS_RTOL if precision == "float32" else 2e-2
    np.testing.assert_allclose(row[name, 0], loss, rtol=rtol)
    assert np.isfinite(row).all() and row[-1, 0] == 0
