"""Options of initial weights and of the optimizer."""

import pytest

from albert_tf.model import model_options


@pytest.mark.parametrize(
    ("values", "layers"),
    [
        ({"init_from_group0": True}, "group0"),
        ({"init_shallower": True}, "shallower"),
        ({"new_weights": " cls/squad/, bert/pooler"}, "same"),
    ],
)
def test_weights_of_a_checkpoint(values, layers):
    init = model_options.InitOptions("x", **values)
    scopes = ("cls/squad", "bert/pooler") if layers == "same" else ()
    assert (init.layers, init.new_scopes) == (layers, scopes)


def test_the_optimizer_is_by_default_that_of_the_paper():
    default = model_options.OptimizerOptions("lamb", False, 0.999, 0.00176)
    assert model_options.OptimizerOptions() == default
    assert default.poly_power == 1
    assert (default.start_warmup_step, default.original_start_warmup) == (0, 0)
