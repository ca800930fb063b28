"""The base of models with a head: an encoder, and what a head needs of it."""

from collections.abc import Mapping
from typing import Any, ClassVar

import tensorflow as tf

from albert_tf.model import base, model_inputs, seeds
from albert_tf.model.network.encoder import AlbertModel

# Separates the seed of a head's dropout from those of the encoder.
_DROPOUT_STREAM = 2**30


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
