"""Updates whose compiled programs take much memory; see test_train_step.py."""

import numpy as np
import pytest

from tests.albert_tf.training import head_steps


@pytest.mark.slow
@pytest.mark.parametrize("name", ["choices", "replaced_tokens"])
def test_compiled_as_a_whole_or_not_makes_no_difference(small_config, name):
    head_steps.assert_compiling_changes_nothing(small_config, name, parts=2)


def test_every_step_draws_other_words(one_layer):
    """With the same weights, only the number of the step differs."""
    make, batch = head_steps.make(one_layer, "replaced_tokens", parts=1)
    step = make()
    before = [value.numpy() for value in step.model.variables]
    share = step.names.index("replaced_token_loss")
    losses = []
    for _ in range(3):
        losses.append(step(batch).numpy()[share, 0])
        for variable, value in zip(step.model.variables, before, strict=True):
            variable.assign(value)
    assert len(np.unique(losses)) == 3
