"""The base of models with a head: an encoder, and what a head needs of it."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

import tensorflow as tf

from albert_tf.model import base, model_inputs, seeds
from albert_tf.model.network import layers, pooling
from albert_tf.model.network.encoder import AlbertModel

# Separates the seed of a head's dropout from those of the encoder.
_DROPOUT_STREAM = 2**30
# Of heads that one linear layer ends. Fixed in the original, whatever the
# config's `initializer_range` is.
_INITIALIZER_RANGE = 0.02
# What the scopes of outputs at single depths begin with.
EXIT = "exit_"

Outputs = dict[str, Any]


def logits(
    pooled_output: tf.Tensor, weights: tf.Variable, bias: tf.Variable
) -> tf.Tensor:
    """Return float [..., units] for the pooled output [..., H]."""
    return tf.matmul(pooled_output, weights, transpose_b=True) + bias


class ModelWithHead(base.BuiltModel):
    """A model that computes something from an encoder's outputs.

    A head's `call` takes inputs, `training` and `dropout_seed` as that of the
    encoder, and begins with `encode`.
    """

    reads_pooler: ClassVar[bool] = True
    exit_layers: tuple[int, ...] = ()
    _exit_heads: Mapping[str, tuple[tf.Variable, ...]] = MappingProxyType({})

    def __init__(self, encoder: AlbertModel, name: str, dropout: float = 0.0):
        super().__init__(name)
        self.encoder = encoder
        self.dropout = dropout

    def add_output(self, scope: str, units: int) -> None:
        """Create output_weights [units, H], output_bias [units] in a scope."""
        self.output_weights, self.output_bias = self._linear(scope, units)

    def _linear(
        self, scope: str, units: int, stddev: float = _INITIALIZER_RANGE
    ) -> tuple[tf.Variable, ...]:
        weights = self.add_weight(
            name=f"{scope}output_weights",
            shape=[units, self.encoder.pooled_size],
            initializer=layers.truncated_normal(stddev),
        )
        bias = self.add_weight(
            name=f"{scope}output_bias", shape=[units], initializer="zeros"
        )
        return weights, bias

    def add_exits(self, depths: Sequence[int], *, own_heads: bool) -> None:
        """Have the model answer at these depths, too, while it is trained.

        With `own_heads` each has weights of its own, `exit_N/output_weights`.
        """
        self.exit_layers = tuple(depths)
        if own_heads:
            units = self.output_bias.shape[0]
            self._exit_heads = {
                str(n): self._linear(f"{EXIT}{n}/", units) for n in depths
            }

    def output_of(self, depth: int | None) -> tuple[tf.Variable, ...]:
        """Return weights and bias for a depth; None: that of the encoder."""
        shared = self.output_weights, self.output_bias
        return self._exit_heads.get(str(depth or self.encoder.depth), shared)

    def with_exits(
        self,
        answer: Callable[[Outputs, int], Outputs],
        encoded: Outputs,
        inputs: Mapping[str, tf.Tensor],
        training: bool,
    ) -> Outputs:
        """Return `answer(encoded, depth)`; in training `exits` with it.

        These are what is answered at each of `exit_layers`, in order. `answer`
        reads `sequence_output` or `pooled_output`.
        """
        encoder = self.encoder
        outputs = answer(encoded, encoder.depth)
        if not (training and self.exit_layers):
            return outputs
        inputs = encoder.fill_defaults(inputs)
        outputs["exits"] = []
        for depth in self.exit_layers:
            last = depth * encoder.config.inner_group_num - 1
            x = encoded["all_encoder_layers"][last]
            states = {"sequence_output": x}
            if self.reads_pooler and encoder.pooler is not None:
                pooled = pooling.pool(encoder.pooling, x, inputs)
                states["pooled_output"] = encoder.pooler(pooled, training)
            outputs["exits"].append(answer(states, depth))
        return outputs

    def token_scores(
        self, sequence_output: tf.Tensor, depth: int | None = None
    ) -> tf.Tensor:
        """Return float32 [B, S, units] for the encoder's output [B, S, H]."""
        weights, bias = self.output_of(depth)
        x = tf.cast(sequence_output, tf.float32)
        return tf.einsum("BSH,CH->BSC", x, weights) + bias

    def encode(
        self,
        inputs: Mapping[str, tf.Tensor],
        training: bool,
        dropout_seed: tf.Tensor | None,
        output_positions: tf.Tensor | None = None,
    ) -> dict[str, Any]:
        """Return the encoder's outputs, see `AlbertModel.call`."""
        return self.encoder(
            {k: inputs[k] for k in model_inputs.ENCODER if k in inputs},
            training=training,
            dropout_seed=dropout_seed,
            output_positions=output_positions,
        )

    def head_dropout(
        self, training: bool, dropout_seed: tf.Tensor | None
    ) -> seeds.DropoutSeeds:
        """Return the head's dropout; it does nothing outside of training."""
        if not (training and self.dropout):
            return seeds.NO_DROPOUT
        seed = seeds.fold_in(dropout_seed, _DROPOUT_STREAM)
        return seeds.DropoutSeeds(seed)
