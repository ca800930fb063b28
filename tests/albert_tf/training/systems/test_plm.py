"""What two streams cost."""

import dataclasses

import pytest

from albert_tf.training import pretraining_options, pretraining_recipe

RECIPE = pretraining_options.RecipeOptions(
    objective="plm", sentence_objective="none"
)


@pytest.mark.parametrize("pooling", ["cls", "pair"])
def test_queries_are_counted_in_every_layer(small_config, pooling):
    """8 layers; in the last one only queries, at 5 of 32 positions."""
    config = dataclasses.replace(small_config, pooling=pooling)
    found = pretraining_recipe.forward_flops(RECIPE, config, 32, 5)
    content = small_config.forward_flops(32, 5, 5)
    query = 4 * 16 * (16 + 24 + 32)
    assert found == content + 7 * 5 * query
