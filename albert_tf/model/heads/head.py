"""The base of heads: run the encoder, then the head on its outputs."""

from collections.abc import Mapping

import tensorflow as tf

from albert_tf.model import base, layers, model_inputs, modeling

# Separates the seed of a head's dropout from those of the encoder.
_DROPOUT_STREAM = 2**30


class Head(base.AlbertBase):
    """A model that computes something from an encoder's outputs.

    Attributes:
        encoder: The encoder; its weights are trained along.
    """

    def __init__(
        self, encoder: modeling.AlbertModel, name: str, dropout: float = 0.0
    ):
        """Start a head without variables of its own.

        Args:
            encoder: A finished encoder.
            name: Name of the model in Keras.
            dropout: Rate of the dropout that `call_head` applies in training.
        """
        super().__init__(name)
        self.encoder = encoder
        self.dropout = dropout

    def call(
        self,
        inputs: Mapping[str, tf.Tensor],
        training: bool = False,
        dropout_seed: tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        """Run encoder and head.

        Args:
            inputs: What `modeling.AlbertModel` and `call_head` take.
            training: Whether to apply dropout.
            dropout_seed: See `modeling.AlbertModel`.

        Returns:
            See `call_head`.
        """
        outputs = self.encoder(
            {k: inputs[k] for k in model_inputs.ENCODER if k in inputs},
            training=training,
            dropout_seed=dropout_seed,
            output_positions=self._chosen_positions(inputs),
        )
        dropout = layers.NO_DROPOUT
        if training and self.dropout:
            seed = layers.derive_seed(dropout_seed, _DROPOUT_STREAM)
            dropout = layers.Dropout(seed)
        return self.call_head(outputs, inputs, dropout)

    def output_positions(
        self, inputs: Mapping[str, tf.Tensor]
    ) -> tf.Tensor | None:
        """Return the positions of the encoder's output that `call_head` reads.

        It is asked only if `call_head` is of the same class: a subclass with
        another `call_head` gets all positions unless it has this method, too.

        Returns:
            int32 [B, P], see `modeling.AlbertModel.call`; None for all.
        """
        del inputs
        return None

    def _chosen_positions(
        self, inputs: Mapping[str, tf.Tensor]
    ) -> tf.Tensor | None:
        owner_of_call, owner_of_positions = (
            next(owner for owner in type(self).__mro__ if name in vars(owner))
            for name in ("call_head", "output_positions")
        )
        if not issubclass(owner_of_positions, owner_of_call):
            return None
        return self.output_positions(inputs)

    def call_head(
        self,
        outputs: Mapping[str, tf.Tensor],
        inputs: Mapping[str, tf.Tensor],
        dropout: layers.Dropout,
    ) -> dict[str, tf.Tensor]:
        """Return the model's outputs.

        Args:
            outputs: Of the encoder at `output_positions`, see
                `modeling.AlbertModel`.
            inputs: Of the model.
            dropout: Does nothing outside of training.
        """
        raise NotImplementedError
