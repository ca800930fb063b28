"""The encoder as a program for exports: weights for good, no padding.

What it computes is defined by `network`; the tests compare both.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import tensorflow as tf

from albert_tf.model import model_inputs
from albert_tf.model.execution import plain, weights
from albert_tf.model.execution.unpadding import Unpadding
from albert_tf.model.network import attention_bias, encoder, pooling
from albert_tf.model.network.attention import Attention
from albert_tf.model.network.feed_forward import FeedForward

# Larger weights are not made constants: TensorFlow keeps several copies of a
# constant in memory. The kernels of albert-base have 14 MB, of large 25.
MAX_CONSTANT_BYTES = 64 * 2**20

_INPUTS = ("input_ids", "input_mask", "segment_ids")

Part = Attention | FeedForward
Layers = Sequence[tuple[Attention, FeedForward]]


class PartWeights(NamedTuple):
    """The weights of attention or feed-forward.

    The kernel of attention, [H, 3 H], is those of query, key and value side by
    side, that of the query divided by √D; so is its bias.
    """

    kernel: tf.Tensor
    bias: tf.Tensor
    output_kernel: tf.Tensor
    output_bias: tf.Tensor
    gamma: tf.Tensor
    beta: tf.Tensor


Weights = dict[Part, PartWeights]


class Shared(NamedTuple):
    """What all layers of a pass share."""

    biases: list[tf.Tensor]
    unpadding: Unpadding
    weights: Weights | None = None  # None: `_apply` reads them.


class ServedEncoder:
    """An encoder that is not trained any more.

    Frozen weights are converted to the encoder's precision for good: they take
    less memory, and are not converted in every pass. If all layers share them,
    they are constants of a loop: oneDNN arranges a constant for its products
    once, not in every call, and in a loop once for all layers. Albert-base in
    bfloat16 on a CPU: 27 instead of 48 ms for 1 x 16 tokens, 135 instead of 152
    for 1 x 128; 200 MiB more. Together with TensorFlow's own softmax and GELU,
    which compute in float32 internally, 8 x 128 takes 992 instead of 1,126 ms.

    In float32 constants were 5 % faster from 128 tokens on, and two to three
    times slower with 8 and 64: do not freeze there.
    """

    def __init__(self, model: encoder.AlbertModel, *, freeze: bool = False):
        """Prepare an encoder for serving.

        It can neither be trained nor restored after freezing, which changes
        word table, mapping and pooler in the encoder itself.
        """
        self._model = model
        self._layers = [
            (layer.attention, layer.feed_forward)
            for layer in model.transformer_layers
        ]
        self._frozen: dict[Part, list[Callable[[], tf.Tensor]]] = {}
        self._has_constants = False
        if freeze:
            self._freeze()
        # One function, so that all signatures of an export share it.
        spec = tf.TensorSpec([None, None], tf.int32)
        self._function = tf.function(
            self._run,
            input_signature=[dict.fromkeys((*_INPUTS, "kept"), spec)],
            autograph=False,
        )

    def _freeze(self) -> None:
        """Convert all weights to the precision; make constants if they fit."""
        model, dtype = self._model, tf.as_dtype(self._model.precision)
        parts = dict.fromkeys(part for pair in self._layers for part in pair)
        values = {part: _read(part, dtype) for part in parts}
        size = sum(
            dtype.size * int(tf.size(value))
            for part_values in values.values()
            for value in part_values
        )
        self._has_constants = size <= MAX_CONSTANT_BYTES
        self._frozen = {
            part: [self._frozen_value(value) for value in part_values]
            for part, part_values in values.items()
        }
        encoder_weights = [(model.embeddings, "word_embeddings")]
        for dense in (model.embedding_mapping, model.pooler):
            if dense is not None:
                encoder_weights += [(dense, "kernel"), (dense, "bias")]
        for layer, name in encoder_weights:
            value = tf.cast(getattr(layer, name), dtype)
            setattr(layer, name, tf.Variable(value, trainable=False))

    def _frozen_value(self, value: tf.Tensor) -> Callable[[], tf.Tensor]:
        # A bias stays a variable: TensorFlow would drop a constant one that is
        # 0, and then not fuse what remains.
        if self._has_constants and value.shape.rank == 2:
            return weights.constant_of(value)
        return tf.Variable(value, trainable=False).read_value

    def __call__(
        self, inputs: Mapping[str, tf.Tensor], *, unpad: bool = False
    ) -> dict[str, tf.Tensor]:
        """Return `sequence_output` and `pooled_output`, see `AlbertModel`.

        Args:
            inputs: `input_ids`, and perhaps `input_mask` and `segment_ids`,
                int32 [B, S] each.
            unpad: Whether to compute nothing at padding; `sequence_output` is 0
                there.
        """
        if not (unpad or self._frozen):
            return self._model(inputs)
        return self._compute(inputs, unpad)

    def _compute(
        self, inputs: Mapping[str, tf.Tensor], unpad: bool
    ) -> dict[str, tf.Tensor]:
        inputs = model_inputs.standardize(inputs, _INPUTS)
        inputs = self._model.fill_defaults(inputs)
        mask = inputs["input_mask"]
        kept = mask if unpad else tf.ones_like(mask)
        return self._function({**inputs, "kept": kept})

    def _run(self, inputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        model, config = self._model, self._model.config
        unpadding = Unpadding(inputs["kept"], config.num_attention_heads)
        x = self._embed(inputs, unpadding)
        biases = attention_bias.make(config, inputs, model.bucket_biases)
        shared = Shared(biases, unpadding)
        if self._has_constants and len(set(self._layers)) == 1:
            x = self._loop(x, shared, len(self._layers))
        else:
            x = self._apply(self._layers, x, shared)
        x = unpadding.pad(x)
        outputs = {"sequence_output": x}
        if model.pooler is not None:
            pooled = model.pooler(pooling.pool(model.pooling, x, inputs))
            outputs["pooled_output"] = pooled
        return outputs

    def _embed(
        self, inputs: Mapping[str, tf.Tensor], unpadding: Unpadding
    ) -> tf.Tensor:
        """Return what the first layer reads, [R, H]."""
        model = self._model
        _, embedded = model.embeddings(inputs)
        x = unpadding.unpad(tf.cast(embedded, model.precision))
        if model.embedding_mapping is not None:
            x = model.embedding_mapping(x)
        return x

    def _loop(
        self, x: tf.Tensor, shared: Shared, times: int | tf.Tensor
    ) -> tf.Tensor:
        """Apply the layer that all share, its constants in a loop's body."""

        def body(index: tf.Tensor, x: tf.Tensor) -> tuple[tf.Tensor, ...]:
            return index + 1, self._apply(self._layers[:1], x, shared)

        return tf.while_loop(
            lambda index, _: index < times,
            body,
            (tf.constant(0), x),
            parallel_iterations=1,
        )[1]

    def _apply(self, layers: Layers, x: tf.Tensor, shared: Shared) -> tf.Tensor:
        """Apply layers to rows [R, H]; weights are read once, or given."""
        parts = shared.weights or self._read_all(layers, x.dtype)
        config = self._model.config
        epsilon = config.layer_norm_eps
        for attention, feed_forward in layers:
            x = _attend(x, parts[attention], attention, shared)
            x = _feed_forward(
                x, parts[feed_forward], epsilon, config.hidden_act
            )
        return x

    def _read_all(self, layers: Layers, dtype: tf.DType) -> Weights:
        parts = dict.fromkeys(part for pair in layers for part in pair)
        return {part: self._weights(part, dtype) for part in parts}

    def _weights(self, part: Part, dtype: tf.DType) -> PartWeights:
        if part in self._frozen:
            return PartWeights(*(value() for value in self._frozen[part]))
        return _read(part, dtype)


def _attend(
    x: tf.Tensor, part: PartWeights, attention: Attention, shared: Shared
) -> tf.Tensor:
    """Do what `Attention` does, for rows [R, H]."""
    projected = plain.linear(x, part.kernel, part.bias)
    query, key, value = shared.unpadding.split(projected)
    scores = tf.matmul(query, key, transpose_b=True)  # [B, N, S, T]
    # The queries are divided by √D already.
    unscaled = query / plain.scale_of(query)
    for bias in attention.layer_biases(unscaled, shared.biases):
        scores += tf.cast(bias, scores.dtype)
    context = shared.unpadding.merge(tf.matmul(tf.nn.softmax(scores), value))
    y = plain.linear(context, part.output_kernel, part.output_bias)
    epsilon = attention.layer_norm.epsilon
    return plain.layer_norm(x + y, part.gamma, part.beta, epsilon)


def _feed_forward(
    x: tf.Tensor, part: PartWeights, epsilon: float, act: str
) -> tf.Tensor:
    """Do what `FeedForward` does, for rows [R, H]."""
    hidden = plain.linear(x, part.kernel, part.bias)
    # This GELU is fused with the product before it.
    hidden = (
        tf.nn.gelu(hidden, approximate=True)
        if act == "gelu"
        else plain.activation(act)(hidden)
    )
    y = plain.linear(hidden, part.output_kernel, part.output_bias)
    return plain.layer_norm(x + y, part.gamma, part.beta, epsilon)


def _read(part: Part, dtype: tf.DType) -> PartWeights:
    """Return the weights of a part, those of attention side by side."""
    if isinstance(part, Attention):
        query, key, value = part.query, part.key, part.value
        scale = (query.kernel.shape[1] // part.heads) ** -0.5
        kernel = [query.kernel * scale, key.kernel, value.kernel]
        bias = [query.bias * scale, key.bias, value.bias]
        kernel, bias = tf.concat(kernel, 1), tf.concat(bias, 0)
    else:
        kernel, bias = part.intermediate.kernel_and_bias(dtype)
    norm = part.layer_norm
    return PartWeights(
        tf.cast(kernel, dtype),
        tf.cast(bias, dtype),
        *part.output_dense.kernel_and_bias(dtype),
        tf.convert_to_tensor(norm.gamma),
        tf.convert_to_tensor(norm.beta),
    )
