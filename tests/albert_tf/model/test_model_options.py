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
        (name,) = changes
        message = f"^`{name}=.* only used with `init_checkpoint`, which is not"
        with pytest.raises(errors.UserError, match=message):
            model_options.InitOptions(**changes)
        layers = {"new_weights": "same"}.get(name, name.split("_")[-1])
        init = model_options.InitOptions("x", **changes)
        assert init.layers == layers
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


def test_the_optimizer_is_by_default_that_of_the_paper():
    default = model_options.OptimizerOptions("lamb", False, 0.999, 0.00176)
    assert model_options.OptimizerOptions() == default
    assert default.poly_power == 1
    assert (default.start_warmup_step, default.original_start_warmup) == (0, 0)
    for beta_2 in (0, 1):
        with pytest.raises(errors.UserError, match=f"`beta_2={beta_2}"):
            model_options.OptimizerOptions(beta_2=beta_2)
