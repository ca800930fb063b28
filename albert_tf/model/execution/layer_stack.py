"""How layers are applied in a row: one by one, recomputed, or in a loop.

Layers may share weights. So the weights are read (and cast) once in a pass;
each layer becomes a function of its input, the biases and the tensors of its
weights, and inside this function the tensors stand in for the variables
(`weights.substituted`). Such a function can be computed again for its gradient,
or be the body of a loop. The seed of each layer is that of the one before,
folded with 1 (see `seeds`); it is None outside of training.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import tensorflow as tf

from albert_tf.model import seeds
from albert_tf.model.execution import weights

if TYPE_CHECKING:
    from albert_tf.model.network.encoder import TransformerLayer


class LayerStack:
    """Applies layers one after the other.

    Args:
        recompute: Whether training keeps only the input of each layer and
            computes the layer again for its gradient: gradient checkpointing
            (Chen et al., arXiv 1604.06174). Of albert-base in bfloat16, 8 x 128
            takes 1,454 MiB instead of 1,492 and 27 % more time; RACE, 8 x 256,
            1,369 MiB instead of 1,613.
        loop: Whether training applies the only layer in a loop of the graph.
            The program is smaller: large compiles for a TPU in 93 s instead of
            369. Base then needs more memory, 1.91 GiB instead of 1.41.
    """

    def __init__(self, *, recompute: bool, loop: bool):
        self._recompute = recompute
        self._loop = loop

    def __call__(
        self,
        layers: Sequence[TransformerLayer],
        x: tf.Tensor,
        biases: Sequence[tf.Tensor],
        seed: tf.Tensor | None,
        positions: tf.Tensor | None = None,
    ) -> list[tf.Tensor]:
        """Return the output of each layer; of a loop only the last.

        Args:
            layers: In order of application.
            x: float [B, S, H].
            biases: Of the attention scores of all layers.
            seed: Of dropout, int32 [2]; None outside of training.
            positions: int32 [B, P], the only ones at which the last layer's
                output is computed; None for all. Not with a loop.
        """
        training = seed is not None
        if self._loop and training:
            return [self._loop_over_layers(layers, x, biases, seed)]
        recomputes = self._recompute and training
        shared = weights.SharedWeights(layers, x.dtype, fan_out=recomputes)
        outputs = []
        for number, layer in enumerate(layers, 1):
            seed = _next_seed(seed)
            at = positions if number == len(layers) else None
            function = self._function(layer, len(biases), seed, at)
            x = function(x, *biases, *shared.take(layer))
            outputs.append(x)
        return outputs

    def _loop_over_layers(
        self,
        layers: Sequence[TransformerLayer],
        x: tf.Tensor,
        biases: Sequence[tf.Tensor],
        seed: tf.Tensor | None,
    ) -> tf.Tensor:
        layer, times = layers[0], len(layers)
        shared = weights.SharedWeights([layer], x.dtype, fan_out=False)
        tensors = *biases, *shared.take(layer)

        def body(
            number: tf.Tensor, x: tf.Tensor, seed: tf.Tensor
        ) -> tuple[tf.Tensor | None, ...]:
            seed = _next_seed(seed)
            function = self._function(layer, len(biases), seed)
            return number + 1, function(x, *tensors), seed

        _, x, _ = tf.while_loop(
            lambda number, *_: number < times,
            body,
            (tf.constant(0), x, seed),
            parallel_iterations=1,
            # XLA needs a bound to keep what the gradient reads.
            maximum_iterations=times,
        )
        return x

    def _function(
        self,
        layer: TransformerLayer,
        bias_count: int,
        seed: tf.Tensor | None,
        positions: tf.Tensor | None = None,
    ) -> Callable[..., tf.Tensor]:
        """Return a layer as a function of x, biases and its weights' tensors.

        They are arguments because `tf.recompute_grad` gives no gradients to
        other tensors that a function uses.
        """
        variables = weights.variables(layer)

        def function(x: tf.Tensor, *tensors: tf.Tensor) -> tf.Tensor:
            biases = tensors[:bias_count]
            with weights.substituted(variables, tensors[bias_count:]):
                return layer(x, biases, seed, positions)

        if self._recompute and seed is not None:
            function = tf.recompute_grad(function)
        return function


def _next_seed(seed: tf.Tensor | None) -> tf.Tensor | None:
    return None if seed is None else seeds.fold_in(seed, 1)
