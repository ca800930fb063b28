"""The base of models with a head: an encoder, and what a head needs of it."""

from collections.abc import Mapping
from typing import Any, ClassVar

import tensorflow as tf

from albert_tf.model import base, model_inputs, seeds
from albert_tf.model.network import layers
from albert_tf.model.network.encoder import AlbertModel

# Separates the seed of a head's dropout from those of the encoder.
_DROPOUT_STREAM = 2**30
# Of heads that one linear layer ends. Fixed in the original, whatever the
# config's `initializer_range` is.
_INITIALIZER_RANGE = 0.02


class ModelWithHead(base.BuiltModel):
    """A model that computes something from an encoder's outputs.

    A head's `call` takes inputs, `training` and `dropout_seed` as that of the
    encoder, and begins with `encode`.
    """

    reads_pooler: ClassVar[bool] = True

    def __init__(self, encoder: AlbertModel, name: str, dropout: float = 0.0):
        super().__init__(name)
        self.encoder = encoder
        self.dropout = dropout

    def add_output(self, scope: str, units: int) -> None:
        """Create `output_weights` [units, H] and `output_bias` [units].

        Args:
            scope: What their names begin with, such as `cls/tags/`.
        """
        self.output_weights = self.add_weight(
            name=f"{scope}output_weights",
            shape=[units, self.encoder.config.hidden_size],
            initializer=layers.truncated_normal(_INITIALIZER_RANGE),
        )
        self.output_bias = self.add_weight(
            name=f"{scope}output_bias", shape=[units], initializer="zeros"
        )

    def token_scores(self, sequence_output: tf.Tensor) -> tf.Tensor:
        """Return float32 [B, S, units] for the encoder's output [B, S, H]."""
        x = tf.cast(sequence_output, tf.float32)
        scores = tf.einsum("BSH,CH->BSC", x, self.output_weights)
        return scores + self.output_bias

    def encode(
        self,
        inputs: Mapping[str, tf.Tensor],
        training: bool,
        dropout_seed: tf.Tensor | None,
        positions: tf.Tensor | None = None,
    ) -> dict[str, Any]:
        """Return the outputs of the encoder.

        Args:
            positions: The only positions whose `sequence_output` the head
                reads, as `output_positions` of the encoder.
        """
        return self.encoder(
            {k: inputs[k] for k in model_inputs.ENCODER if k in inputs},
            training=training,
            dropout_seed=dropout_seed,
            output_positions=positions,
        )

    def head_dropout(
        self, training: bool, dropout_seed: tf.Tensor | None
    ) -> seeds.DropoutSeeds:
        """Return the head's dropout; it does nothing outside of training."""
        if not (training and self.dropout):
            return seeds.NO_DROPOUT
        seed = seeds.fold_in(dropout_seed, _DROPOUT_STREAM)
        return seeds.DropoutSeeds(seed)
