"""What `--objective` chooses among: pretraining systems, a class each."""

import abc
import dataclasses
from typing import NamedTuple

import tensorflow as tf

from albert_tf.data import arrangements, span_corruption
from albert_tf.model.config import AlbertConfig
from albert_tf.model.heads import (
    decoder,
    model_with_head,
    permutation,
    pretraining,
    replaced_tokens,
)
from albert_tf.model.losses import (
    cross_entropy,
    objectives,
    pretraining_objective,
    replaced_tokens_objective,
)
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.training import pretraining_options


class PassShape(NamedTuple):
    """The shape of a forward pass of one sequence; lengths are in tokens."""

    config: AlbertConfig
    length: int
    num_predictions: int  # Masked tokens, or what is asked for instead.
    # How many positions of the last layer the heads read; None: all.
    num_outputs: int | None


class PretrainingSystem(abc.ABC):
    """A way to pretrain an encoder: what one value of `--objective` means."""

    # The number that chooses the best checkpoint where no option does.
    best_metric = "masked_lm_accuracy"

    def __init__(self, recipe: pretraining_options.RecipeOptions):
        self.recipe = recipe

    @abc.abstractmethod
    def make_objective(self) -> objectives.Objective:
        """Return what is trained for."""

    @abc.abstractmethod
    def make_model(self, encoder: AlbertModel) -> model_with_head.ModelWithHead:
        """Add to an encoder what only pretraining needs."""

    @abc.abstractmethod
    def forward_flops(self, shape: PassShape) -> float:
        """Return the operations of a pass, see `config.forward_flops`."""

    def count_extra_tokens(self, num_predictions: int) -> int:
        """Return how many tokens layers compute beside those of a sequence."""
        return 0

    def describe(self, config: AlbertConfig) -> str:
        """Return a line for the log on what else is trained, if anything is."""
        return ""


class MaskedWords(PretrainingSystem):
    """Masked words, tasks of segments and of tokens: ALBERT, BERT, RoBERTa."""

    def make_objective(self) -> objectives.Objective:
        return pretraining_objective.make(
            self.recipe.sentence_objective,
            self.recipe.masked_lm_factor,
            self.recipe.sentence_factor,
            self.recipe.passages.token_objective,
            self.recipe.passages.token_factor,
        )

    def make_model(self, encoder: AlbertModel) -> pretraining.AlbertPretrainer:
        order, tasks = arrangements.pretraining_heads(
            self.recipe.sentence_objective, len(self.recipe.passages.markers)
        )
        return pretraining.AlbertPretrainer(
            encoder,
            order,
            tasks=tasks,
            token_tasks=self.recipe.passages.token_tasks,
        )

    def forward_flops(self, shape: PassShape) -> float:
        config, length, num_predictions, num_outputs = shape
        if self.recipe.passages.token_tasks:
            num_outputs = None  # All positions are read.
        return config.forward_flops(length, num_predictions, num_outputs)


class PermutationLm(PretrainingSystem):
    """Pieces in a random order, from those before: XLNet, arXiv 1906.08237."""

    def make_objective(self) -> objectives.Objective:
        return pretraining_objective.make("none", self.recipe.masked_lm_factor)

    def make_model(
        self, encoder: AlbertModel
    ) -> permutation.PermutationPretrainer:
        return permutation.PermutationPretrainer(encoder)

    def forward_flops(self, shape: PassShape) -> float:
        # `config.forward_flops` counts the queries in the last layer only, and
        # only with pooling=cls; here every layer has them beside its tokens.
        config = dataclasses.replace(shape.config, pooling="cls")
        with_queries, without_queries = (
            config.forward_flops(shape.length, shape.num_predictions, queries)
            for queries in (shape.num_predictions, 0)
        )
        layers = config.num_hidden_layers * config.inner_group_num
        return with_queries + (layers - 1) * (with_queries - without_queries)

    def count_extra_tokens(self, num_predictions: int) -> int:
        return num_predictions


class ReplacedTokens(PretrainingSystem):
    """A small generator, and an encoder that finds its words.

    Source: ELECTRA, Clark et al., arXiv 2003.10555.
    """

    # A generator that gets better makes the encoder's accuracy worse.
    best_metric = "loss"

    def make_objective(self) -> objectives.Objective:
        return replaced_tokens_objective.make(
            self.recipe.rtd.replaced_token_factor,
            sentence_objective=self.recipe.sentence_objective,
            masked_lm_factor=self.recipe.masked_lm_factor,
            sentence_factor=self.recipe.sentence_factor,
            token_objective=self.recipe.passages.token_objective,
            token_factor=self.recipe.passages.token_factor,
        )

    def make_model(
        self, encoder: AlbertModel
    ) -> replaced_tokens.ReplacedTokenDetector:
        return replaced_tokens.ReplacedTokenDetector(
            encoder,
            self.generator_config(encoder.config),
            self.recipe.rtd.generator_sharing,
            *arrangements.pretraining_heads(
                self.recipe.sentence_objective,
                len(self.recipe.passages.markers),
            ),
            self.recipe.passages.token_tasks,
        )

    def generator_config(self, config: AlbertConfig) -> AlbertConfig:
        if self.recipe.rtd.generator_sharing == "all":
            return config
        return replaced_tokens.shrink(config, self.recipe.rtd.generator_size)

    def forward_flops(self, shape: PassShape) -> float:
        config, length, num_predictions, num_outputs = shape
        generator = self.generator_config(config)
        head = 2 * length * config.hidden_size * (config.hidden_size + 1)
        return (
            generator.forward_flops(length, num_predictions, num_outputs)
            + config.forward_flops(length, num_predictions=0)
            + head
        )

    def describe(self, config: AlbertConfig) -> str:
        generator = self.generator_config(config)
        return (
            f"Generator: {generator.num_attention_heads} heads, hidden size "
            f"{generator.hidden_size}, intermediate size "
            f"{generator.intermediate_size}; it shares with the encoder: "
            f"{self.recipe.rtd.generator_sharing}. The number of parameters "
            "includes it."
        )


class SpanCorruption(PretrainingSystem):
    """Hidden spans, which a decoder writes: T5, arXiv 1910.10683."""

    best_metric = "target_accuracy"

    def make_objective(self) -> objectives.Objective:
        term = objectives.LossTerm(
            "target",
            1.0,
            # Pieces and the end count, padding does not: float32 [B, P].
            lambda batch: tf.cast(batch["target_ids"] > 0, tf.float32),
            lambda outputs, batch: cross_entropy.loss_and_accuracy(
                "target", outputs["target_logits"], batch["target_ids"]
            ),
        )
        return objectives.combine([term])

    def make_model(self, encoder: AlbertModel) -> decoder.SpanPretrainer:
        return decoder.SpanPretrainer(encoder)

    def forward_flops(self, shape: PassShape) -> float:
        """Return those of encoder, decoder and cross-attention together."""
        config, length = shape.config, shape.length
        target_length = self.count_extra_tokens(shape.num_predictions)
        width = config.hidden_size
        # Cross-attention has queries of the target, keys of the text.
        projections = 4 * (target_length + length) * width**2
        products = 4 * target_length * length * width
        layers = config.num_hidden_layers * config.inner_group_num
        return (
            config.forward_flops(length, num_predictions=0)
            + config.forward_flops(target_length, target_length)
            + layers * (projections + products)
        )

    def count_extra_tokens(self, num_predictions: int) -> int:
        # The decoder's target: hidden pieces, a sentinel for each span, an end.
        return (
            num_predictions + span_corruption.count_spans(num_predictions) + 1
        )


SYSTEMS: dict[str, type[PretrainingSystem]] = {
    "mlm": MaskedWords,
    "plm": PermutationLm,
    "rtd": ReplacedTokens,
    "spans": SpanCorruption,
}
