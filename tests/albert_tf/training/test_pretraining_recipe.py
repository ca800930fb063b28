"""What pretraining trains for: learning rates, lengths, labels."""

import math
import re

import pytest

from albert_tf.model import model_options
from albert_tf.training import (
    pretraining_recipe,
    training_options,
)
from tests.albert_tf.training import recipes
from tests.conftest import refused
from tests.data_prep import writing

RTD = {"objective": "rtd"}


@pytest.mark.parametrize(
    ("optimizer", "rate", "batch_size", "message"),
    [
        ("lamb", 2.51 * 4.4e-4, 256, "much for batches of 256.*4.40e-04"),
        ("lamb", 4.4e-4, 32, "=0.00044` is much for batches of 32.*1.56e-04"),
        (
            "adamw",
            0.00176,
            32,
            "=0.00176` is much for `optimizer=adamw` and batches of 32.* for "
            "lamb and 4096",
        ),
        ("muon", 0.00151, 255, "`optimizer=muon` and batches of 255"),
        ("lamb", 0.00176, 4096, None),
        ("lamb", 2.49 * 0.00176 / 4, 256, None),
        ("adamw", 0.0015, 32, None),
        ("adamw", 0.002, 256, None),
    ],
)
def test_learning_rates_that_are_too_high(
    caplog, optimizer, rate, batch_size, message
):
    options = model_options.OptimizerOptions(optimizer, learning_rate=rate)
    pretraining_recipe.warn_of_learning_rate(options, batch_size)
    assert len(caplog.messages) == (message is not None)
    assert not message or re.search(message, caplog.text)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"masked_lm_factor": 0.0, "sentence_factor": 0.0},
            "factors of masked_lm_loss and sentence_order_loss are 0: nothing",
        ),
        (
            {
                **RTD,
                "replaced_token_factor": 0.0,
                "masked_lm_factor": 0.0,
                "sentence_objective": "none",
            },
            "factors of masked_lm_loss and replaced_token_loss are 0: nothing",
        ),
    ],
)
def test_factors_that_leave_nothing_to_learn_are_refused(values, message):
    recipe = recipes.make(**values)
    with refused(message):
        pretraining_recipe.make_objective(recipe)


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (
            {},
            "masked_lm_loss sentence_order_loss masked_lm_accuracy "
            "sentence_order_accuracy",
        ),
        (
            {"sentence_objective": "nsp", "masked_lm_factor": 0.0},
            "masked_lm_loss next_sentence_loss masked_lm_accuracy "
            "next_sentence_accuracy",
        ),
        (
            {"sentence_objective": "none", "sentence_factor": 0.0},
            "masked_lm_loss masked_lm_accuracy",
        ),
        (
            {**RTD, "sentence_objective": "none", "generator_sharing": "all"},
            "masked_lm_loss replaced_token_loss masked_lm_accuracy "
            "replaced_token_accuracy replaced_token_share",
        ),
        (
            {**RTD, "masked_lm_factor": 0.0, "sentence_factor": 0.0},
            "masked_lm_loss sentence_order_loss replaced_token_loss "
            "masked_lm_accuracy sentence_order_accuracy "
            "replaced_token_accuracy replaced_token_share",
        ),
        ({"objective": "plm"}, "masked_lm_loss masked_lm_accuracy"),
        ({"objective": "spans"}, "target_loss target_accuracy"),
    ],
)
def test_what_is_measured_follows_from_what_is_learned(values, names):
    recipe = recipes.make(**values)
    found = pretraining_recipe.make_objective(recipe).names
    assert found == tuple(names.split())
    default = {"rtd": "loss", "spans": "target_accuracy"}.get(
        recipe.objective, "masked_lm_accuracy"
    )
    assert pretraining_recipe.best_metric(recipe, None) == default
    assert pretraining_recipe.best_metric(recipe, found[0]) == found[0]


@pytest.mark.parametrize(
    ("values", "metric", "message"),
    [
        (
            RTD,
            "replaced_token_share",
            "`best_metric=replaced_token_share` is not measured",
        ),
        ({}, "", "`best_metric=` is not measured"),
        (
            {},
            "accuracy",
            "`best_metric=accuracy` is not measured.*=sop` there are loss, "
            "masked_lm_loss, sentence_order_loss, masked_lm_accuracy, "
            "sentence_order_accuracy",
        ),
    ],
)
def test_metrics_that_are_not_measured_are_refused(values, metric, message):
    recipe = recipes.make(**values)
    with refused(message):
        pretraining_recipe.best_metric(recipe, metric)


@pytest.mark.parametrize(("instances", "read"), [(1, 6), (3, 8), (None, None)])
def test_cost_is_of_the_positions_that_are_read(small_config, instances, read):
    found = pretraining_recipe.forward_flops(
        recipes.make(), small_config, 32, 5, instances
    )
    assert found == small_config.forward_flops(32, 5, read)


ENTROPY = 6.4


def warned_at(caplog, losses, steps=10_000, entropy=ENTROPY, factor=1.0):
    """The steps at which a run with these lines was warned."""
    recipe = recipes.make(num_train_steps=steps, masked_lm_factor=factor)
    found = []
    for count in range(1, len(losses) + 1):
        caplog.clear()
        pretraining_recipe.warn_of_plateau(recipe, losses[:count], entropy)
        found += [losses[count - 1][0]] * len(caplog.messages)
    return found


def lines(loss, last=3000, every=100):
    return [(step, loss) for step in range(every, last + 1, every)]


def test_a_run_on_its_plateau_is_warned_once_after_a_tenth(caplog):
    assert warned_at(caplog, lines(6.351, 1000)) == [1000]
    (warning,) = caplog.messages
    assert warning.startswith(
        "After 1000 updates the masked_lm_loss is 6.351. The entropy of the "
        "labels is 6.400: the model knows no more than how frequent"
    )


EARLY = lines(9.0, 500)  # The mean over the second half of the tenth counts.


@pytest.mark.parametrize(
    ("losses", "others", "warned"),
    [
        (lines(6.35), {}, [1000]),
        (lines(6.4, every=300), {}, [1200]),
        (lines(7.0), {"steps": 9995}, [1000]),
        (lines(7.0), {"steps": 10_001}, [1100]),
        ([(5100, 7.0), (5200, 7.0)], {}, [5100]),
        (lines(6.29), {}, []),
        (lines(math.nan), {}, []),
        (lines(7.0), {"entropy": None}, []),
        (lines(7.0), {"factor": 0.0}, []),
        (EARLY + lines(6.2)[5:], {}, []),
        (EARLY + lines(6.4)[5:], {}, [1000]),
        # The mean is 6.32, then 6.28; it must be below 6.3.
        ([*lines(6.4, 900), (1000, 6.0)], {}, [1000]),
        ([*lines(6.4, 900), (1000, 5.8)], {}, []),
    ],
)
def test_a_plateau_is_a_mean_near_the_entropy(caplog, losses, others, warned):
    assert warned_at(caplog, losses, **others) == warned


CAPITALS = {"token_objective": "capitalization", "token_factor": 7.0}
OF_TEXT = {
    "masked_lm_loss": 2.0,
    "sentence_order_loss": 3.0,
    "capitalization_loss": 7.0,
}


@pytest.mark.parametrize(
    ("values", "losses"),
    [
        (
            {"sentence_factor": 3.0, **CAPITALS},
            OF_TEXT,
        ),
        ({"sentence_objective": "none"}, {"masked_lm_loss": 2.0}),
        (
            {
                "objective": "rtd",
                "sentence_factor": 3.0,
                "replaced_token_factor": 5.0,
                **CAPITALS,
            },
            {**OF_TEXT, "replaced_token_loss": 5.0},
        ),
    ],
)
def test_factors_are_those_of_the_losses(small_config, values, losses):
    recipe = recipes.make(masked_lm_factor=2.0, **values)
    assert dict(pretraining_recipe.make_objective(recipe).losses) == losses
    update = training_options.UpdateOptions()
    model = pretraining_recipe.make_model(recipe, small_config, update)
    assert model.sentence_order == ("sentence_order_loss" in losses)


@pytest.mark.parametrize("objective", ["mlm", "rtd"])
def test_heads_have_the_classes_of_their_tasks(
    small_config, tmp_path, objective
):
    """That of discourse as many as there are markers."""
    four = "we\nso\tand so\nbut\nor\n"
    given = writing.markers(tmp_path, four, "discourse,sop")
    recipe = recipes.make(
        objective=objective, token_objective="capitalization", **given
    )
    update = training_options.UpdateOptions()
    model = pretraining_recipe.make_model(recipe, small_config, update)
    assert model.sentence_order and list(model.tasks.values()) == [4]
    assert list(model.token_tasks) == ["capitalization"]
