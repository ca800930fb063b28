"""How layers are applied in a row: one by one, recomputed, or in a loop.

Layers may share weights. So the weights are read (and cast) once in a pass;
each layer becomes a function of its input, the biases and the tensors of its
weights, and inside this function the tensors stand in for the variables
(`weights.substituted`). Such a function can be computed again for its gradient,
or be the body of a loop. The seed of each layer is that of the one before,
folded with 1 (see `seeds`); it is None outside of training.
"""

from collections.abc import Callable, Sequence

import tensorflow as tf

from albert_tf.model import seeds
from albert_tf.model.execution import last_layer, weights

# What attends, [B, S, H], its biases, and what it attends to if that differs.
LayerInputs = tuple[tf.Tensor, Sequence[tf.Tensor], list[tf.Tensor]]


def apply(
    layers: Sequence[weights.Layer],
    x: tf.Tensor,
    biases: Sequence[tf.Tensor],
    seed: tf.Tensor | None,
    output_positions: tf.Tensor | None = None,
    *,
    recompute: bool,
) -> list[tf.Tensor]:
    """Return the output of each layer, float [B, S, H].

    Args:
        x: float [B, S, H].
        seed: Of dropout, int32 [2]; None outside of training.
        output_positions: int32 [B, P], the only positions at which the last
            layer's output is computed, [B, P, H] then; None for all.
        recompute: Whether training keeps only the input of each layer and
            computes the layer again for its gradient: gradient checkpointing
            (Chen et al., arXiv 1604.06174). Of albert-base in bfloat16, 8 x 128
            takes 1,454 MiB instead of 1,492 and 27 % more time; RACE, 8 x 256,
            1,369 MiB instead of 1,613.
    """

    def make_inputs(x: tf.Tensor, is_last: bool) -> LayerInputs:
        if output_positions is None or not is_last:
            return x, biases, []
        return (
            last_layer.gather(x, output_positions),
            last_layer.gather_biases(biases, output_positions),
            [x],
        )

    return apply_with_inputs(layers, x, make_inputs, seed, recompute=recompute)


def apply_in_loop(
    layers: Sequence[weights.Layer],
    x: tf.Tensor,
    biases: Sequence[tf.Tensor],
    seed: tf.Tensor,
    *,
    recompute: bool,
) -> tf.Tensor:
    """Return what the last layer of `apply` does in training, with a loop.

    All layers are the same one. The program is smaller: large compiles for a
    TPU in 93 s instead of 369. Base then needs more memory, 1.91 GiB instead of
    1.41.
    """
    layer, times = layers[0], len(layers)
    shared = weights.WeightsOfPass([layer], x.dtype, fan_out=False)
    tensors = [biases, shared.take(layer), []]

    def body(
        index: tf.Tensor, x: tf.Tensor, seed: tf.Tensor
    ) -> tuple[tf.Tensor, ...]:
        seed = seeds.fold_in(seed, 1)
        x = _apply_one(layer, x, tensors, seed, recompute=recompute)
        return index + 1, x, seed

    _, x, _ = tf.while_loop(
        lambda index, *_: index < times,
        body,
        (tf.constant(0), x, seed),
        parallel_iterations=1,
        # XLA needs a bound to keep what the gradient reads.
        maximum_iterations=times,
    )
    return x


def apply_with_inputs(
    layers: Sequence[weights.Layer],
    x: tf.Tensor,
    make_inputs: Callable[[tf.Tensor, bool], LayerInputs],
    seed: tf.Tensor | None,
    *,
    recompute: bool,
) -> list[tf.Tensor]:
    """Return the output of each layer, float [B, S, H].

    Args:
        make_inputs: From the output of the layer before (at first x), and
            whether the layer is the last, to its inputs.
        seed, recompute: See `apply`.
    """
    recompute = recompute and seed is not None
    shared = weights.WeightsOfPass(layers, x.dtype, fan_out=recompute)
    outputs = []
    for number, layer in enumerate(layers, 1):
        seed = None if seed is None else seeds.fold_in(seed, 1)
        x, biases, memory = make_inputs(x, number == len(layers))
        tensors = [biases, shared.take(layer), memory]
        x = _apply_one(layer, x, tensors, seed, recompute=recompute)
        outputs.append(x)
    return outputs


def _apply_one(
    layer: weights.Layer,
    x: tf.Tensor,
    tensors: Sequence[Sequence[tf.Tensor]],
    seed: tf.Tensor | None,
    *,
    recompute: bool,
) -> tf.Tensor:
    """Return the output of a layer for x, float [B, S, H].

    The tensors are the biases, the weights, and the memory if there is one.
    They are arguments of the recomputed function, because `tf.recompute_grad`
    gives no gradients to other tensors.
    """
    variables = weights.variables(layer)

    def compute(x: tf.Tensor, *flat: tf.Tensor) -> tf.Tensor:
        biases, stand_ins, memory = tf.nest.pack_sequence_as(tensors, flat)
        with weights.substituted(variables, stand_ins):
            return layer(x, biases, seed, *memory)

    run = tf.recompute_grad(compute) if recompute else compute
    return run(x, *tf.nest.flatten(tensors))
