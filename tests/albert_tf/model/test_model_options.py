"""Options of initial weights and of the optimizer."""

import pytest

from albert_tf.common import errors
from albert_tf.model import model_options


def test_options_about_a_checkpoint_need_one():
    for changes in (
        {"init_from_group0": True},
        {"init_shallower": True},
        {"new_weights": "cls"},
    ):
        with pytest.raises(errors.UserError, match="`init_checkpoint`, which"):
            model_options.InitOptions(**changes)
    with pytest.raises(errors.UserError, match="contradict each other"):
        model_options.InitOptions(
            "x", init_from_group0=True, init_shallower=True
        )
    init = model_options.InitOptions(
        "x", new_weights=" cls/squad/, bert/pooler"
    )
    assert init.new_scopes == ("cls/squad", "bert/pooler")
    with pytest.raises(errors.UserError, match="`init_checkpoint` is empty"):
        model_options.InitOptions("")
