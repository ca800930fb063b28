"""What a decoder costs, and what it learns."""

import tensorflow as tf

from albert_tf.training import pretraining_options, pretraining_recipe


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
