"""Replaced-token detection: ELECTRA, Clark et al., arXiv 2003.10555."""

from albert_tf.common import errors
from albert_tf.data import arrangements
from albert_tf.model.config import AlbertConfig
from albert_tf.model.heads import replaced_tokens
from albert_tf.model.losses import objectives, replaced_tokens_objective
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.training import pretraining_options

# A generator that gets better makes the encoder's accuracy worse.
BEST_METRIC = "loss"


def make_objective(
    recipe: pretraining_options.RecipeOptions,
) -> objectives.Objective:
    """See `System`."""
    return replaced_tokens_objective.make(
        recipe.sentence_objective,
        recipe.masked_lm_factor,
        recipe.sentence_factor,
        recipe.replaced_token_factor,
        recipe.token_objective,
        recipe.token_factor,
    )


def make_model(
    recipe: pretraining_options.RecipeOptions, encoder: AlbertModel
) -> replaced_tokens.ReplacedTokenDetector:
    """See `System`."""
    return replaced_tokens.ReplacedTokenDetector(
        encoder,
        generator_config(recipe, encoder.config),
        recipe.generator_sharing,
        *arrangements.heads(recipe.sentence_objective, len(recipe.markers)),
        arrangements.parse_tokens(recipe.token_objective),
    )


def generator_config(
    recipe: pretraining_options.RecipeOptions, config: AlbertConfig
) -> AlbertConfig:
    """Return the architecture of the generator."""
    if recipe.generator_sharing == "all":
        return config
    found = replaced_tokens.shrink(config, recipe.generator_size)
    shared = recipe.generator_sharing == "embeddings"
    if shared and found.embedding_width != config.embedding_width:
        raise errors.UserError(
            f"`generator_sharing={recipe.generator_sharing}` does not fit an "
            "architecture with project_words_first, whose embeddings are "
            f"{config.embedding_width} wide, and a generator of "
            f"{found.embedding_width}. Use `generator_sharing=none` or all, or "
            "`generator_size=1`."
        )
    return found


def forward_flops(
    recipe: pretraining_options.RecipeOptions,
    config: AlbertConfig,
    length: int,
    predictions: int,
    outputs: int | None,
) -> float:
    """See `System`."""
    generator = generator_config(recipe, config)
    head = 2 * length * config.hidden_size * (config.hidden_size + 1)
    return (
        generator.forward_flops(length, predictions, outputs)
        + config.forward_flops(length, 0)
        + head
    )


def count_others(predictions: int) -> int:
    """See `System`."""
    return 0


def describe(
    recipe: pretraining_options.RecipeOptions, config: AlbertConfig
) -> str:
    """See `System`."""
    generator = generator_config(recipe, config)
    return (
        f"Generator: {generator.num_attention_heads} heads, hidden size "
        f"{generator.hidden_size}, intermediate size "
        f"{generator.intermediate_size}; it shares with the encoder: "
        f"{recipe.generator_sharing}. The number of parameters includes it."
    )
