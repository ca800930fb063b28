"""What pretraining trains for: learning rates, lengths, labels."""

import dataclasses
import math
import re

import pytest

from albert_tf.common import errors
from albert_tf.model import model_options
from albert_tf.training import (
    pretraining_options,
    pretraining_recipe,
    training_options,
)


@pytest.mark.parametrize(
    ("optimizer", "rate", "batch_size", "message"),
    [
        (
            "lamb",
            0.00176,
            256,
            "much for batches of 256.*4.40e-04",
        ),
        ("lamb", 4.4e-4, 32, "=0.00044` is much for batches of 32.*1.56e-04"),
        (
            "adamw",
            0.00176,
            32,
            "=0.00176` is much for `optimizer=adamw` and batches of 32.* for "
            "lamb and 4096",
        ),
        ("muon", 0.002, 32, "`optimizer=muon` and batches of 32"),
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


def test_muon_computes_in_the_precision_of_the_run():
    recipe = pretraining_options.RecipeOptions(
        optimizer=model_options.OptimizerOptions("muon")
    )
    optimizer = pretraining_recipe.make_optimizer(recipe, "bfloat16")
    assert optimizer._precision == "bfloat16"


def test_generator_of_another_width_has_embeddings_of_its_own(small_config):
    config = dataclasses.replace(small_config, project_words_first=True)
    recipe = pretraining_options.RecipeOptions(
        objective="rtd", generator_size=0.5
    )
    with pytest.raises(
        errors.UserError, match="=embeddings` does not fit .*=1"
    ):
        pretraining_recipe.generator_config(recipe, config)
    recipe = dataclasses.replace(recipe, generator_sharing="none")
    generator = pretraining_recipe.generator_config(recipe, config)
    assert generator.hidden_size == config.hidden_size // 2
    line = pretraining_recipe.describe_generator(recipe, config)
    assert f"hidden size {generator.hidden_size}, " in line
    assert line.endswith(
        "with the encoder: none. The number of parameters includes it."
    )


def test_work_of_both_networks_is_counted(small_config):
    recipes = {
        sharing: pretraining_options.RecipeOptions(
            objective="rtd", generator_sharing=sharing
        )
        for sharing in model_options.GENERATOR_SHARING
    }
    plain = pretraining_options.RecipeOptions()
    alone = pretraining_recipe.forward_flops(plain, small_config, 32, 5)
    assert alone == small_config.forward_flops(32, 5, 6)
    packed = pretraining_recipe.forward_flops(plain, small_config, 32, 5, 16)
    assert packed == small_config.forward_flops(32, 5, 21)
    whole = pretraining_recipe.forward_flops(plain, small_config, 32, 5, None)
    assert whole == small_config.forward_flops(32, 5)
    found = {
        sharing: pretraining_recipe.forward_flops(recipe, small_config, 32, 5)
        for sharing, recipe in recipes.items()
    }
    encoder = small_config.forward_flops(32, 0)
    width = small_config.hidden_size
    assert found["all"] == alone + encoder + 64 * width * (width + 1)
    assert encoder < found["none"] == found["embeddings"] < found["all"]


ENTROPY = 6.4


def warned_at(caplog, losses, steps=10_000, entropy=ENTROPY, factor=1.0):
    """The steps at which a run with these lines was warned."""
    recipe = pretraining_options.RecipeOptions(
        num_train_steps=steps, masked_lm_factor=factor
    )
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


@pytest.mark.parametrize(
    ("values", "losses"),
    [
        ({}, {"masked_lm_loss": 2.0, "sentence_order_loss": 3.0}),
        ({"sentence_objective": "none"}, {"masked_lm_loss": 2.0}),
        (
            {"objective": "rtd", "replaced_token_factor": 5.0},
            {
                "masked_lm_loss": 2.0,
                "sentence_order_loss": 3.0,
                "replaced_token_loss": 5.0,
            },
        ),
    ],
)
def test_factors_are_those_of_the_losses(small_config, values, losses):
    recipe = pretraining_options.RecipeOptions(
        masked_lm_factor=2.0, sentence_factor=3.0, **values
    )
    assert dict(pretraining_recipe.make_objective(recipe).losses) == losses
    update = training_options.UpdateOptions()
    model = pretraining_recipe.make_model(recipe, small_config, update)
    assert model.sentence_order == ("sentence_order_loss" in losses)
