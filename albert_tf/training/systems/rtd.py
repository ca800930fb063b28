"""Replaced-token detection: ELECTRA, Clark et al., arXiv 2003.10555."""

from albert_tf.data import arrangements
from albert_tf.model.config import AlbertConfig
from albert_tf.model.heads import replaced_tokens
from albert_tf.model.losses import objectives, replaced_tokens_objective
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.training.systems import system


class ReplacedTokens(system.PretrainingSystem):
    """A small generator, and an encoder that finds its words."""

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

    def forward_flops(self, shape: system.PassShape) -> float:
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
