"""Recipes of pretraining, from the options that differ from the usual."""

from albert_tf.common import options
from albert_tf.training import pretraining_options


def make(**values):
    return options.from_dict(pretraining_options.RecipeOptions, values)
