"""Options of pretraining that do not fit together."""

import pytest

from albert_tf.common import errors
from albert_tf.training import pretraining_options


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"num_train_steps": 5, "num_warmup_steps": 6},
            "`num_warmup_steps=6` is more than the 5 steps of the run",
        ),
        ({"init_schedule": "continue"}, "says how to use `init_checkpoint`"),
    ],
)
def test_schedules_that_do_not_fit_are_refused(values, message):
    with pytest.raises(errors.UserError, match=message):
        pretraining_options.RecipeOptions(**values)
