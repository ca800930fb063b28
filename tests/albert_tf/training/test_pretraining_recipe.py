"""What pretraining trains for: learning rates, lengths, labels."""

import dataclasses

import pytest

from albert_tf.common import errors
from albert_tf.model import model_options
from albert_tf.training import pretraining_options, pretraining_recipe


@pytest.mark.parametrize(
    ("optimizer", "learning_rate", "batch_size", "parts"),
    [
        (
            *("lamb", 0.00176, 256),
            ("`learning_rate=0.00176` is much for batches of 256", "4.40e-04"),
        ),
        (
            *("lamb", 4.4e-4, 32),
            ("`learning_rate=0.00044` is much for batches of 32", "1.56e-04"),
        ),
        (
            *("adamw", 0.00176, 32),
            (
                "`learning_rate=0.00176` is much for `optimizer=adamw` and "
                "batches of 32",
                "for lamb and 4096",
            ),
        ),
        (*("muon", 0.002, 32), ("`optimizer=muon` and batches of 32",)),
    ],
)
def test_learning_rates_that_are_too_high(
    caplog, optimizer, learning_rate, batch_size, parts
):
    options = model_options.OptimizerOptions(
        optimizer, learning_rate=learning_rate
    )
    pretraining_recipe.warn_of_learning_rate(options, batch_size)
    (warning,) = caplog.messages
    for part in parts:
        assert part in warning


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
