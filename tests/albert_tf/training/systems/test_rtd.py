"""The generator beside the encoder, and what it costs."""

import dataclasses

from albert_tf.model import model_options
from albert_tf.training import pretraining_recipe
from albert_tf.training.systems import rtd
from tests.albert_tf.training import recipes


def test_generator_of_another_width_has_embeddings_of_its_own(small_config):
    config = dataclasses.replace(small_config, project_words_first=True)
    recipe = recipes.make(
        objective="rtd", generator_size=0.5, generator_sharing="none"
    )
    generator = rtd.ReplacedTokens(recipe).generator_config(config)
    assert generator.hidden_size == config.hidden_size // 2
    line = rtd.ReplacedTokens(recipe).describe(config)
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
