"""Systems with layers that share all, something or nothing."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.training import (
    pretraining_options,
    pretraining_recipe,
    training_options,
)
from tests.albert_tf.model import passes
from tests.albert_tf.model.heads import test_decoder, test_permutation

BATCHES = {
    "plm": (
        "relative",
        {
            **test_permutation.make_batch(),
            "masked_lm_ids": tf.constant([[9, 8, 7], [6, 5, 4]]),
            "masked_lm_weights": tf.ones([2, 3]),
            "is_real_example": tf.ones([2]),
        },
    ),
    "spans": ("buckets", test_decoder.make_batch()),
}
SHARING = [
    {"num_hidden_groups": 2},
    *(
        {"share": share, "num_hidden_groups": 1, "num_hidden_layers": 2}
        for share in ("all", "attention", "ffn", "none")
    ),
]


@pytest.mark.parametrize("changes", SHARING, ids=str)
@pytest.mark.parametrize("name", BATCHES)
def test_every_variable_that_is_used_gets_a_gradient(
    small_config, name, changes
):
    position_bias, batch = BATCHES[name]
    config = dataclasses.replace(
        small_config, position_bias=position_bias, **changes
    )
    recipe = pretraining_options.RecipeOptions(
        objective=name, sentence_objective="none"
    )
    model = passes.fill(
        pretraining_recipe.make_model(
            recipe, config, training_options.UpdateOptions()
        )
    )
    objective = pretraining_recipe.make_objective(recipe)
    with tf.GradientTape() as tape:
        sums = objective.weighted_sums(model, batch, tf.constant([1, 2]))
        loss = objective.total(sums, objective.normalizers(batch))
    assert np.isfinite(loss)
    variables = passes.named(model)
    gradients = tape.gradient(loss, variables)
    missing = {n for n, gradient in gradients.items() if gradient is None}
    assert missing == {n for n in variables if "pooler" in n}
    for variable, gradient in gradients.items():
        if gradient is not None:
            norm = np.linalg.norm(tf.convert_to_tensor(gradient))
            # The bias of a key adds the same to all scores of a query.
            assert norm > 0 or variable.endswith("key/bias"), variable
            assert np.isfinite(norm), variable
