"""What each system costs, and what it learns."""

import dataclasses

import pytest
import tensorflow as tf

from albert_tf.model import model_options
from albert_tf.training import pretraining_options, pretraining_recipe, systems
from tests.albert_tf.training import recipes


@pytest.mark.parametrize("pooling", ["cls", "pair"])
def test_queries_are_counted_in_every_layer(small_config, pooling):
    """8 layers; in the last one only queries, at 5 of 32 positions."""
    recipe = pretraining_options.RecipeOptions(
        objective="plm", sentence_objective="none"
    )
    config = dataclasses.replace(small_config, pooling=pooling)
    found = pretraining_recipe.forward_flops(recipe, config, 32, 5)
    content = small_config.forward_flops(32, 5, 5)
    query = 4 * 16 * (16 + 24 + 32)
    assert found == content + 7 * 5 * query


def test_generator_of_another_width_has_embeddings_of_its_own(small_config):
    config = dataclasses.replace(small_config, project_words_first=True)
    recipe = recipes.make(
        objective="rtd", generator_size=0.5, generator_sharing="none"
    )
    generator = systems.ReplacedTokens(recipe).generator_config(config)
    assert generator.hidden_size == config.hidden_size // 2
    line = systems.ReplacedTokens(recipe).describe(config)
    assert line == (
        "Generator: 1 heads, hidden size 8, intermediate size 12; it shares "
        "with the encoder: none. The number of parameters includes it."
    )


def test_work_of_both_networks_is_counted(small_config):
    of_sharing = {
        sharing: recipes.make(objective="rtd", generator_sharing=sharing)
        for sharing in model_options.GENERATOR_SHARING
    }
    plain = recipes.make()
    alone = pretraining_recipe.forward_flops(plain, small_config, 32, 5)
    assert alone == small_config.forward_flops(32, 5, 6)
    tokens = recipes.make(token_objective="capitalization")
    found = pretraining_recipe.forward_flops(tokens, small_config, 32, 5)
    assert found == small_config.forward_flops(32, 5)
    found = {
        sharing: pretraining_recipe.forward_flops(recipe, small_config, 32, 5)
        for sharing, recipe in of_sharing.items()
    }
    encoder = small_config.forward_flops(32, 0)
    width = small_config.hidden_size
    assert found["all"] == alone + encoder + 64 * width * (width + 1)
    assert encoder < found["none"] == found["embeddings"] < found["all"]


def test_decoder_and_its_attention_to_the_text_are_counted(small_config):
    """8 layers; 5 pieces in 2 spans are a target of 8."""
    recipe = pretraining_options.RecipeOptions(objective="spans")
    found = pretraining_recipe.forward_flops(recipe, small_config, 32, 5)
    alone = small_config.forward_flops(32, 0)
    decoder = small_config.forward_flops(8, 8)
    cross = 4 * (8 + 32) * 16**2 + 4 * 8 * 32 * 16
    assert found == alone + decoder + 8 * cross
    objective = pretraining_recipe.make_objective(recipe)
    weights = objective.sample_weights({"target_ids": tf.constant([5, 3, 0])})
    assert weights["target_loss"].numpy().tolist() == [1, 1, 0]
