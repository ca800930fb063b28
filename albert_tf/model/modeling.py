"""The ALBERT encoder: embeddings, attention, feed-forward, pooler.

Every variable carries the name that it has in the original release
(`bert/encoder/transformer/group_0/inner_group_0/attention_1/self/query/kernel`),
so released checkpoints are restored by name and the optimizer's exclusion rules
mean what they mean there. Variables exist as soon as a model is constructed.

Dimensions in comments and einsum strings:
    B batch, S sequence (attending), T sequence (attended to), E embedding,
    H hidden, I intermediate, N heads, D size of one head, V vocabulary.
"""

import collections
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
import tf_keras as keras

from albert_tf.common import errors
from albert_tf.model import (
    base,
    fused_ops,
    layers,
    lean_ops,
    pooling,
    position_bias,
    row_layouts,
)
from albert_tf.model.config import PRECISIONS, AlbertConfig

__all__ = ["PRECISIONS", "AlbertConfig", "AlbertModel"]

# Added to the scores of padded keys. Finite, so that a row without any real key
# still gives numbers. Original release, modeling.attention.
MASKED_SCORE = -10000.0

# What `convert_for_serving` makes constants: TensorFlow keeps several copies of
# a constant in memory. The kernels of albert-base have 14 MB, of large 25.
MOST_CONSTANT_BYTES = 64 * 2**20


class Embeddings(keras.layers.Layer):
    """Sum of word, segment and position embeddings, normalized, [B, S, E].

    With `config.project_words_first` words are projected before the sum, which
    is [B, S, H] then.

    Source: ALBERT §3.1, factorized embedding; in the original,
    modeling.embedding_lookup and modeling.embedding_postprocessor.
    """

    def __init__(self, config: AlbertConfig, scope: str):
        super().__init__(name="embeddings", dtype="float32")
        self._config = config
        narrow, width = config.embedding_size, config.embedding_width
        self.word_embeddings = self._table(
            f"{scope}/word_embeddings", config.vocab_size, narrow
        )
        self.word_projection = None
        if config.project_words_first:
            self.word_projection = self._table(
                f"{scope}/word_embeddings_2", narrow, width
            )
        self.token_type_embeddings = self._table(
            f"{scope}/token_type_embeddings", config.type_vocab_size, width
        )
        self.position_embeddings = self._table(
            f"{scope}/position_embeddings",
            config.max_position_embeddings,
            width,
        )
        self.layer_norm = layers.LayerNorm(f"{scope}/LayerNorm", width)

    def _table(self, name: str, rows: int, columns: int) -> tf.Variable:
        return self.add_weight(
            name=name,
            shape=[rows, columns],
            initializer=layers.truncated_normal(self._config.initializer_range),
        )

    def convert_weights(self, dtype: tf.DType) -> None:
        """Convert the table of words; the others are small."""
        table = tf.cast(self.word_embeddings, dtype)
        self.word_embeddings = layers.constant_variable(table)

    def call(
        self,
        inputs: Mapping[str, tf.Tensor],
        dropout: layers.Dropout = layers.NO_DROPOUT,
        ops: fused_ops.Ops = fused_ops.PLAIN,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the words alone and the sum, both [B, S, E] or [B, S, H]."""
        length = tf.shape(inputs["input_ids"])[1]
        # Looked up in a tensor: a variable in which rows are looked up directly
        # is copied by TensorFlow whenever the optimizer reads or writes it.
        table = tf.convert_to_tensor(self.word_embeddings)
        words = tf.cast(tf.gather(table, inputs["input_ids"]), tf.float32)
        if self.word_projection is not None:
            words = tf.einsum("bse,eh->bsh", words, self.word_projection)
        # Rows, not a product with one-hot vectors: how the gradient is clipped
        # depends on it, see docs/design.md.
        x = words + tf.gather(self.token_type_embeddings, inputs["segment_ids"])
        positions = self.position_embeddings[:length]
        if "position_ids" in inputs:
            # Gathered from the slice, so that the table's gradient is dense, as
            # it is without `position_ids`.
            positions = tf.gather(positions, inputs["position_ids"])
        x += positions
        x = self.layer_norm(x, ops)
        return words, dropout(x, self._config.hidden_dropout_prob)

    def score_words(self, x: tf.Tensor) -> tf.Tensor:
        """Return the products of x with the embeddings of all words.

        Args:
            x: float32 [R, E], or [R, H] with `config.project_words_first`.

        Returns:
            float32 [R, V].
        """
        if self.word_projection is not None:
            x = tf.matmul(x, self.word_projection, transpose_b=True)
        table = tf.cast(self.word_embeddings, tf.float32)
        return tf.matmul(x, table, transpose_b=True)


class Weights(NamedTuple):
    """The weights of a sublayer in the form that it computes with.

    Attributes:
        kernel: [H, 3 H] or [H, I]. Attention: the kernels of query, key and
            value side by side, that of the query scaled (see
            `Attention._input_weights`).
        bias: [3 H] or [I]; that of the query is scaled too.
        output_kernel: [H, H] or [I, H].
        output_bias: [H].
        gamma: float32 [H].
        beta: float32 [H].
    """

    kernel: tf.Tensor
    bias: tf.Tensor
    output_kernel: tf.Tensor
    output_bias: tf.Tensor
    gamma: tf.Tensor
    beta: tf.Tensor


class Rows(NamedTuple):
    """Which rows a layer computes, and what they attend to.

    Attributes:
        biases: float32, added to the attention scores: [B, 1, 1, T] or
            [B, 1, S, T], and perhaps [N, S, T] or [B, N, S, T].
        layout: If given, input and output of layers are [R, H].
        positions: int32 [B, P], the only ones that attend to others, and whose
            output is computed; None for all. Not with a layout.
    """

    biases: Sequence[tf.Tensor]
    layout: row_layouts.RowLayout | None = None
    positions: tf.Tensor | None = None

    def at(self, positions: tf.Tensor) -> "Rows":
        """Return the same with some positions [B, P] only."""
        biases = [_bias_at(bias, positions) for bias in self.biases]
        return Rows(biases, positions=positions)


class Sublayer(keras.layers.Layer):
    """What attention and feed-forward have in common, [B, S, H] to [B, S, H].

    Both end with a linear layer, dropout, the residual and a norm (post-norm,
    as BERT).

    Layers that share parameters apply the same object several times in a pass.
    `prepare` converts the weights once, and every application in the pass gets
    them as the argument `weights` of its `call`. Without the argument, `call`
    prepares them itself.
    """

    output_dense: layers.Dense
    layer_norm: layers.LayerNorm

    def __init__(self, config: AlbertConfig, name: str):
        super().__init__(name=name, autocast=False, dtype="float32")
        self._config = config
        self._converted: list[Callable[[], tf.Tensor]] = []

    def _input_weights(self) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        """Return kernels and biases of the first linear layer, in columns."""
        raise NotImplementedError

    def prepare(self, dtype: tf.DType) -> Weights:
        """Return the weights in the dtype that is computed in."""
        if self._converted:
            return Weights(*(value() for value in self._converted))
        kernels, biases = self._input_weights()
        return Weights(
            tf.concat([tf.cast(kernel, dtype) for kernel in kernels], 1),
            tf.concat([tf.cast(bias, dtype) for bias in biases], 0),
            tf.cast(self.output_dense.kernel, dtype),
            tf.cast(self.output_dense.bias, dtype),
            tf.convert_to_tensor(self.layer_norm.gamma),
            tf.convert_to_tensor(self.layer_norm.beta),
        )

    def convert_weights(self, dtype: tf.DType, *, as_constants: bool) -> None:
        """See `AlbertModel.convert_for_serving`."""
        # A bias stays a variable: TensorFlow would drop a constant one that is
        # 0, and then not fuse what remains.
        self._converted = [
            layers.make_constant(value)
            if as_constants and value.shape.rank == 2
            else functools.partial(
                tf.convert_to_tensor, layers.constant_variable(value)
            )
            for value in self.prepare(dtype)
        ]

    def _finish(
        self,
        x: tf.Tensor,
        hidden: tf.Tensor,
        weights: Weights,
        dropout: layers.Dropout,
        ops: fused_ops.Ops,
        linear: Callable[..., tf.Tensor] | None = None,
    ) -> tf.Tensor:
        """Apply output layer, dropout, residual and norm."""
        linear = linear or _linear_of(ops)
        y = linear(hidden, weights.output_kernel, weights.output_bias)
        y = dropout(y, self._config.hidden_dropout_prob)
        return ops.layer_norm(x + y, weights.gamma, weights.beta)


class Attention(Sublayer):
    """Multi-head self-attention.

    Source: original release, modeling.attention_ffn_block, first half.
    """

    def __init__(self, config: AlbertConfig, scope: str):
        super().__init__(config, "attention_1")
        width = config.hidden_size
        self._head_size = width // config.num_attention_heads
        path = f"{scope}/attention_1"
        # Three kernels, not one: LAMB scales the step of each by its own norm.
        self.query = layers.Dense(f"{path}/self/query", width, width, config)
        self.key = layers.Dense(f"{path}/self/key", width, width, config)
        self.value = layers.Dense(f"{path}/self/value", width, width, config)
        self.output_dense = layers.Dense(
            f"{path}/output/dense", width, width, config
        )
        self.layer_norm = layers.LayerNorm(f"{scope}/LayerNorm", width)

    def _input_weights(self) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        # Attention scores are divided by √D. Scaling the query's weights does
        # that with fewer multiplications.
        scale = self._head_size**-0.5
        others = self.key, self.value
        return (
            [self.query.kernel * scale, *(o.kernel for o in others)],
            [self.query.bias * scale, *(o.bias for o in others)],
        )

    def call(
        self,
        x: tf.Tensor,
        rows: Rows,
        weights: Weights | None = None,
        dropout: layers.Dropout = layers.NO_DROPOUT,
        ops: fused_ops.Ops = fused_ops.PLAIN,
    ) -> tf.Tensor:
        """Return float [B, S, H].

        Args:
            x: float [B, S, H], or [R, H] with a layout; so is what is returned,
                but [B, P, H] with positions.
            rows: Which rows there are.
            weights: See `Sublayer`.
            dropout: Dropout of probabilities and output.
            ops: Version of softmax and norm.
        """
        weights = weights or self.prepare(x.dtype)
        layout = rows.layout
        if rows.positions is None:
            query, key, value = self._project(x, weights, ops, layout)
        else:
            chosen = tf.gather(x, rows.positions, batch_dims=1)  # [B, P, H]
            query, key, value = self._project_apart(chosen, x, weights, ops)
            x = chosen
        rate = self._config.attention_probs_dropout_prob
        if ops is fused_ops.FUSED and not (layout or dropout.drops(rate)):
            context = lean_ops.attend(query, key, value, *rows.biases)
            return self._finish(x, context, weights, dropout, ops)
        # The query is scaled already, see _input_weights.
        scores = tf.matmul(query, key, transpose_b=True)  # [B, N, S, T]
        probabilities = dropout(ops.softmax(scores, *rows.biases), rate)
        context = tf.matmul(probabilities, value)
        if layout:
            context = layout.merge(context)
        else:
            context = tf.transpose(context, [0, 2, 1, 3])
            context = tf.reshape(context, tf.shape(x))
        return self._finish(x, context, weights, dropout, ops)

    def _project(
        self,
        x: tf.Tensor,
        weights: Weights,
        ops: fused_ops.Ops,
        layout: row_layouts.RowLayout | None,
    ) -> list[tf.Tensor]:
        """Return query, key and value, each [B, N, S, D]."""
        projected = _linear_of(ops)(x, weights.kernel, weights.bias)
        if layout:
            return layout.split(projected)
        return self._split_heads(projected, x, 3)

    def _project_apart(
        self,
        chosen: tf.Tensor,
        x: tf.Tensor,
        weights: Weights,
        ops: fused_ops.Ops,
    ) -> list[tf.Tensor]:
        """Return query [B, N, P, D] of chosen, key, value [B, N, S, D] of x."""
        linear = _linear_of(ops)
        sizes = [x.shape[-1], 2 * x.shape[-1]]
        kernel, other_kernels = tf.split(weights.kernel, sizes, 1)
        bias, other_biases = tf.split(weights.bias, sizes)
        query = linear(chosen, kernel, bias)
        key_and_value = linear(x, other_kernels, other_biases)
        return [
            *self._split_heads(query, chosen, 1),
            *self._split_heads(key_and_value, x, 2),
        ]

    def _split_heads(
        self, projected: tf.Tensor, x: tf.Tensor, count: int
    ) -> list[tf.Tensor]:
        """Return `count` tensors [B, N, S, D] from [B, S, count H].

        Args:
            projected: A linear layer's result for x.
            x: [B, S, H].
            count: Tensors that are side by side in `projected`.
        """
        sizes = [count, self._config.num_attention_heads, self._head_size]
        # The shape of x, not of projected: tf2onnx gets that one wrong.
        shape = tf.concat([tf.shape(x)[:2], sizes], 0)
        split = tf.reshape(projected, shape)
        return tf.unstack(tf.transpose(split, [2, 0, 3, 1, 4]))


class FeedForward(Sublayer):
    """Two linear layers with an activation in between, at every position.

    Source: original release, modeling.attention_ffn_block, second half.
    """

    def __init__(self, config: AlbertConfig, scope: str):
        super().__init__(config, "ffn_1")
        width, intermediate = config.hidden_size, config.intermediate_size
        path = f"{scope}/ffn_1/intermediate"
        self.intermediate = layers.Dense(
            f"{path}/dense", width, intermediate, config
        )
        self.output_dense = layers.Dense(
            f"{path}/output/dense", intermediate, width, config
        )
        self.layer_norm = layers.LayerNorm(f"{scope}/LayerNorm_1", width)

    def _input_weights(self) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        return [self.intermediate.kernel], [self.intermediate.bias]

    def call(
        self,
        x: tf.Tensor,
        weights: Weights | None = None,
        dropout: layers.Dropout = layers.NO_DROPOUT,
        ops: fused_ops.Ops = fused_ops.PLAIN,
    ) -> tf.Tensor:
        """Return float [B, S, H]; for the arguments see `Attention`."""
        weights = weights or self.prepare(x.dtype)
        if ops is fused_ops.FUSED and self._config.hidden_act == "gelu":
            hidden = lean_ops.linear(x, weights.kernel, weights.bias)
            return self._finish(
                x, hidden, weights, dropout, ops, lean_ops.gelu_linear
            )
        activation = ops.activation(self._config.hidden_act)
        hidden = layers.linear(x, weights.kernel, weights.bias, activation)
        return self._finish(x, hidden, weights, dropout, ops)


def _bias_at(bias: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
    """Return a bias of attention scores for some attending positions.

    Args:
        bias: float32 [..., S, T], or [..., 1, T] for all alike.
        positions: int32 [B, P].

    Returns:
        float32 [B, ..., P, T], or the bias if it is for all alike.
    """
    if bias.shape[-2] == 1:
        return bias
    if bias.shape.rank == 4:
        return tf.gather(bias, positions, axis=2, batch_dims=1)
    found = tf.gather(bias, positions, axis=1)  # [N, B, P, T]
    return tf.transpose(found, [1, 0, 2, 3])


def _linear_of(ops: fused_ops.Ops) -> Callable[..., tf.Tensor]:
    return lean_ops.linear if ops is fused_ops.FUSED else layers.linear


class Pooler(layers.Dense):
    """A linear layer with tanh on what `pooling.pool` returns."""

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Return float32 [B, H] for float [B, `config.pooled_width`]."""
        return tf.tanh(tf.cast(super().call(x), tf.float32))


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertModel(base.AlbertBase):
    """The ALBERT encoder.

    Example:
        config = AlbertConfig.from_json_file("albert_config.json")
        encoder = AlbertModel(config)
        outputs = encoder(dict(input_ids=ids))   # ids: int32 [batch, seq_len]
        outputs["pooled_output"]                 # float32 [batch, hidden]

    Source: ALBERT §3.1; in the original, modeling.AlbertModel.
    """

    def __init__(
        self,
        config: AlbertConfig,
        scope: str = "bert",
        *,
        precision: str | None = None,
        recompute: bool = False,
        loop_layers: bool = False,
    ):
        """Create the encoder and all its variables, in float32.

        Args:
            config: Shape of the encoder.
            scope: First part of every variable name.
            precision: What is computed in: one of `PRECISIONS`. Norms and
                softmax are in float32 always. None follows Keras' global
                policy: float32, or mixed_bfloat16 for bfloat16.
            recompute: Whether training keeps only the inputs of each block and
                computes the block again for its gradient: less memory, a third
                more time (Chen et al., arXiv 1604.06174).
            loop_layers: Whether the layers are a loop in training, instead of
                one after the other in the graph: a smaller program, but more
                memory. `all_encoder_layers` then holds only the last.

        Raises:
            errors.UserError: The precision or the policy is not known, or
                `loop_layers` is set and layers have weights of their own.
        """
        super().__init__(name=scope)
        self.config = config
        self.scope = scope
        self.precision = precision or _precision_of_policy()
        _check_precision(self.precision)
        self.recompute = recompute
        self.loop_layers = loop_layers
        # What `convert_for_serving` makes.
        self._served: Callable[..., dict[str, Any]] | None = None
        self._has_constants = False
        width = config.hidden_size
        self.embeddings = Embeddings(config, f"{scope}/embeddings")
        self.embedding_mapping = self._make_mapping()
        # By the numbers in `config.layer_groups`, then by inner group; empty
        # for a number that no layer uses.
        self.attentions: list[list[Attention]] = []
        self.feed_forwards: list[list[FeedForward]] = []
        self._add_groups(f"{scope}/encoder/transformer")
        if loop_layers:
            self._check_loop()
        self.pooler = Pooler(
            f"{scope}/pooler/dense", config.pooled_width, width, config
        )

    def _make_mapping(self) -> layers.Dense | None:
        if not self.config.maps_embeddings:
            return None
        return layers.Dense(
            f"{self.scope}/encoder/embedding_hidden_mapping_in",
            self.config.embedding_size,
            self.config.hidden_size,
            self.config,
        )

    def _check_loop(self) -> None:
        if len(set(self._blocks())) > 1:
            raise errors.UserError(
                "is for models whose layers share all weights. This one has "
                f"{self.config.num_hidden_groups} groups of "
                f"{self.config.inner_group_num} blocks; do not set it.",
                "loop_layers",
                True,
            )

    def _add_groups(self, scope: str) -> None:
        config = self.config
        attentions, feed_forwards = map(
            set, zip(*config.layer_groups, strict=True)
        )
        for group in range(max(attentions | feed_forwards) + 1):
            paths = [
                f"{scope}/group_{group}/inner_group_{inner}"
                for inner in range(config.inner_group_num)
            ]
            self.attentions.append(
                [Attention(config, p) for p in paths if group in attentions]
            )
            self.feed_forwards.append(
                [
                    FeedForward(config, p)
                    for p in paths
                    if group in feed_forwards
                ]
            )

    def _blocks(self) -> list[tuple[Attention, FeedForward]]:
        """Return the blocks of all layers, in order of application."""
        return [
            block
            for group, ffn_group in self.config.layer_groups
            for block in zip(
                self.attentions[group],
                self.feed_forwards[ffn_group],
                strict=True,
            )
        ]

    @property
    def sublayers(self) -> list[Sublayer]:
        """Every attention and feed-forward once, however often applied."""
        blocks = itertools.chain.from_iterable(self._blocks())
        return list(dict.fromkeys(blocks))

    def call(
        self,
        inputs: Mapping[str, tf.Tensor],
        training: bool = False,
        dropout_seed: tf.Tensor | None = None,
        skip_padding: bool = False,
        output_positions: tf.Tensor | None = None,
    ) -> dict[str, Any]:
        """Encode a batch of sequences.

        Args:
            inputs: `input_ids` int32 [B, S]; optionally `input_mask` int32
                [B, S], 1 for real tokens and 0 for padding (default: all real),
                or [B, S, T], 1 where S attends to T; `segment_ids` int32 [B, S]
                (default: all 0); `position_ids` int32 [B, S], below S (default:
                0 to S - 1). Padding positions get values too; nothing attends
                to them. The model itself also takes `input_ids` alone, and
                Hugging Face's names `attention_mask` and `token_type_ids`.
            training: Whether to apply dropout.
            dropout_seed: int32 [2]; the same seed gives the same dropout. By
                default one is drawn from TensorFlow's global generator.
            skip_padding: Whether to compute nothing at padding, see
                `row_layouts`. The outputs of the layers are 0 there. Not for
                training, nor with a mask [B, S, T].
            output_positions: int32 [B, P], the only positions at which the
                last layer's output is wanted. The first is that of [CLS], 0;
                otherwise `pooled_output` is not defined. The last layer then
                computes little else, which saves a good part of the time of a
                model of few layers; but it computes all with another pooling
                than cls, with `skip_padding`, in training with `loop_layers`,
                and after `convert_for_serving`.

        Returns:
            `word_embedding_output` and `embedding_output` float32 [B, S, E]
            ([B, S, H] with `config.project_words_first`);
            `all_encoder_layers`, a list of float [B, S, H] with one entry for
            each inner block of each layer; `sequence_output`, its last entry;
            `pooled_output` float32 [B, H]. The outputs of the layers have the
            encoder's `precision`. With `output_positions` also these;
            `sequence_output` and the last of `all_encoder_layers` are
            [B, P, H] then.

        Raises:
            errors.UserError: The sequence is longer than the position table
                (only for shapes that are known when the graph is built; others
                fail inside TensorFlow).
        """
        inputs = self._complete(inputs)
        mask = inputs["input_mask"]
        if self._served:
            has_row = mask if skip_padding else tf.ones_like(mask)
            outputs = self._served({**inputs, "has_row": has_row})
            return _at_positions(outputs, output_positions)
        layout = self._layout(mask) if skip_padding else None
        ops = fused_ops.FUSED if training else fused_ops.PLAIN
        seed = layers.derive_seed(dropout_seed, 0) if training else None
        if not self._can_narrow(output_positions, inputs, training, layout):
            outputs = self._outputs(inputs, seed, ops, layout)
            return _at_positions(outputs, output_positions)
        outputs = self._outputs(inputs, seed, ops, None, output_positions)
        return {**outputs, "output_positions": output_positions}

    def _can_narrow(
        self,
        positions: tf.Tensor | None,
        inputs: Mapping[str, tf.Tensor],
        training: bool,
        layout: row_layouts.RowLayout | None,
    ) -> bool:
        """Return whether the last layer is computed at some positions only."""
        if positions is None or layout or self.config.pooling != "cls":
            return False
        if self.loop_layers and training:
            return False
        wanted, length = positions.shape[1], inputs["input_ids"].shape[1]
        return length is None or (wanted is not None and wanted < length)

    def _serve(self, inputs: Mapping[str, tf.Tensor]) -> dict[str, Any]:
        layout = self._layout(inputs["has_row"])
        return self._outputs(inputs, None, fused_ops.SERVING, layout)

    def _layout(self, has_row: tf.Tensor) -> row_layouts.RowLayout:
        heads = self.config.num_attention_heads
        return row_layouts.RowLayout(has_row, heads)

    def _outputs(
        self,
        inputs: Mapping[str, tf.Tensor],
        seed: tf.Tensor | None,
        ops: fused_ops.Ops,
        layout: row_layouts.RowLayout | None,
        positions: tf.Tensor | None = None,
    ) -> dict[str, Any]:
        """Return what `call` does."""
        words, embedded = self.embeddings(inputs, layers.Dropout(seed), ops)
        x = tf.cast(embedded, self.precision)
        if layout:
            x = layout.pack(x)
        if self.embedding_mapping is not None:
            x = self.embedding_mapping(x)
        rows = Rows(self._attention_biases(inputs), layout)
        outputs = self._encode(x, rows, seed, ops, positions)
        if layout:
            outputs = [layout.unpack(x) for x in outputs]
        pooled = pooling.pool(self.config.pooling, outputs[-1], inputs)
        return {
            "word_embedding_output": words,
            "embedding_output": embedded,
            "all_encoder_layers": outputs,
            "sequence_output": outputs[-1],
            "pooled_output": self.pooler(pooled),
        }

    def _encode(
        self,
        x: tf.Tensor,
        rows: Rows,
        seed: tf.Tensor | None,
        ops: fused_ops.Ops,
        positions: tf.Tensor | None,
    ) -> list[tf.Tensor]:
        """Apply all blocks to x [B, S, H]; return the output of each.

        With a layout x and outputs are [R, H]. With positions the last output
        is [B, P, H].
        """
        blocks = self._blocks()
        if self._has_constants and len(set(blocks)) == 1:
            function = self._make_block(*blocks[0], rows, None, ops)
            return [self._loop(function, x)]
        training = seed is not None
        fork = training and not self.loop_layers  # A loop adds up by itself.
        uses = _Uses(blocks, x.dtype, fork=fork)

        def apply(
            block: tuple[Attention, FeedForward],
            rows: Rows,
            x: tf.Tensor,
            seed: tf.Tensor | None,
        ) -> tuple[tf.Tensor, tf.Tensor | None]:
            if seed is not None:
                seed = layers.derive_seed(seed, 1)
            function = self._make_block(*block, rows, seed, ops)
            tensors = [*uses.take(block[0]), *uses.take(block[1])]
            return function(x, *tensors), seed

        if self.loop_layers and training:
            body = functools.partial(apply, blocks[0], rows)
            return [_repeat(body, x, seed, len(blocks))]
        outputs = []
        for number, block in enumerate(blocks, 1):
            if positions is not None and number == len(blocks):
                rows = rows.at(positions)
            x, seed = apply(block, rows, x, seed)
            outputs.append(x)
        return outputs

    def _attention_biases(
        self, inputs: Mapping[str, tf.Tensor]
    ) -> list[tf.Tensor]:
        """Return what is added to the scores of all layers, see `Attention`."""
        # Not [:, None, None, :]: LiteRT has no operation for that.
        mask = tf.expand_dims(inputs["input_mask"], 1)
        if mask.shape.rank != 4:
            mask = tf.expand_dims(mask, 1)
        biases = [(1.0 - tf.cast(mask, tf.float32)) * MASKED_SCORE]
        if self.config.position_bias == "alibi":
            heads, length = self.config.num_attention_heads, tf.shape(mask)[-1]
            positions = inputs.get("position_ids")
            biases.append(position_bias.alibi(heads, length, positions))
        return biases

    def _loop(self, block: Callable[..., tf.Tensor], x: tf.Tensor) -> tf.Tensor:
        """Apply the only block as often as there are layers.

        Its kernels are constants, which only the body of the loop has. oneDNN
        arranges a constant for its products once, not in every call, and in a
        loop it does so once for all layers.
        """

        def body(number: tf.Tensor, x: tf.Tensor) -> tuple[tf.Tensor, ...]:
            weights = [s.prepare(x.dtype) for s in self.sublayers]
            return number + 1, block(x, *itertools.chain(*weights))

        times = len(self._blocks())
        start = tf.constant(0), x
        return tf.while_loop(
            lambda number, _: number < times,
            body,
            start,
            parallel_iterations=1,
        )[1]

    def _make_block(
        self,
        attention: Attention,
        ffn: FeedForward,
        rows: Rows,
        seed: tf.Tensor | None,
        ops: fused_ops.Ops,
    ) -> Callable[..., tf.Tensor]:
        """Return a block as a function of x and of its weights' tensors.

        They are arguments because `tf.recompute_grad` gives no gradients to
        other tensors that a function uses.
        """
        count = len(Weights._fields)

        def block(x: tf.Tensor, *tensors: tf.Tensor) -> tf.Tensor:
            # Created here, so that a second computation draws the same.
            dropout = layers.Dropout(seed)
            weights, ffn_weights = tensors[:count], tensors[count:]
            x = attention(x, rows, Weights(*weights), dropout, ops)
            return ffn(x, Weights(*ffn_weights), dropout, ops)

        training = seed is not None
        return (
            tf.recompute_grad(block) if self.recompute and training else block
        )

    def convert_for_serving(self) -> None:
        """Convert the weights to the encoder's precision for good.

        For serving below float32: they take less memory, and are not converted
        in every pass. (In float32 constant kernels were 5 % faster from 128
        rows on, and two to three times slower with 8 and 64.) The encoder can
        neither be trained nor restored afterwards.
        """
        dtype = tf.as_dtype(self.precision)
        size = sum(
            dtype.size * int(tf.size(weight))
            for sublayer in self.sublayers
            for weight in sublayer.prepare(dtype)
        )
        self._has_constants = size <= MOST_CONSTANT_BYTES
        for sublayer in self.sublayers:
            sublayer.convert_weights(dtype, as_constants=self._has_constants)
        for part in (self.embeddings, self.embedding_mapping, self.pooler):
            if part is not None:
                part.convert_weights(dtype)
        # One function, so that all signatures of an export share it.
        spec = tf.TensorSpec([None, None], tf.int32)
        names = "input_ids", "input_mask", "segment_ids", "has_row"
        self._served = tf.function(
            self._serve,
            input_signature=[dict.fromkeys(names, spec)],
            autograph=False,
        )

    def _complete(
        self, inputs: Mapping[str, tf.Tensor]
    ) -> dict[str, tf.Tensor]:
        ids = tf.convert_to_tensor(inputs["input_ids"])
        longest = self.config.max_position_embeddings
        if ids.shape[1] is not None and ids.shape[1] > longest:
            raise errors.UserError(
                f"input_ids are {ids.shape[1]} tokens long, but the position "
                f"table has {longest} rows. Cut the input, or use a config "
                "with more max_position_embeddings."
            )
        return {
            **inputs,
            "input_ids": ids,
            "input_mask": inputs.get("input_mask", tf.ones_like(ids)),
            "segment_ids": inputs.get("segment_ids", tf.zeros_like(ids)),
        }


def _at_positions(
    outputs: dict[str, Any], positions: tf.Tensor | None
) -> dict[str, Any]:
    """Return the encoder's outputs, the last layer's at some positions only."""
    if positions is None:
        return outputs
    chosen = tf.gather(outputs["sequence_output"], positions, batch_dims=1)
    *others, _ = outputs["all_encoder_layers"]
    return {
        **outputs,
        "all_encoder_layers": [*others, chosen],
        "sequence_output": chosen,
        "output_positions": positions,
    }


class _Uses:
    """Weights of sublayers, prepared once for all uses in a pass.

    Args:
        blocks: All blocks in order of application.
        dtype: What is computed in.
        fork: Whether gradients are needed, see `lean_ops.fork`.
    """

    def __init__(
        self,
        blocks: list[tuple[Attention, FeedForward]],
        dtype: tf.DType,
        *,
        fork: bool,
    ):
        self._left = collections.Counter(itertools.chain(*blocks))
        self._weights = {s: s.prepare(dtype) for s in self._left}
        self._fork = fork

    def take(self, sublayer: Sublayer) -> Weights:
        """Return the weights for one use."""
        weights = self._weights[sublayer]
        self._left[sublayer] -= 1
        if not (self._fork and self._left[sublayer] > 0):
            return weights
        tensors = lean_ops.fork(*weights)
        count = len(weights)
        self._weights[sublayer] = Weights(*tensors[count:])
        return Weights(*tensors[:count])


def _repeat(
    apply: Callable[[tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]],
    x: tf.Tensor,
    seed: tf.Tensor,
    times: int,
) -> tf.Tensor:
    """Apply a function of x and seed several times, in a loop of the graph."""
    _, x, _ = tf.while_loop(
        lambda number, *_: number < times,
        lambda number, *state: (number + 1, *apply(*state)),
        (tf.constant(0), x, seed),
        parallel_iterations=1,
        # XLA needs a bound to keep what the gradient reads.
        maximum_iterations=times,
    )
    return x


def _precision_of_policy() -> str:
    """Return the precision that Keras' global policy asks for.

    Raises:
        errors.UserError: This project does not have such a precision.
    """
    name = keras.mixed_precision.global_policy().name
    known = {"float32": "float32", "mixed_bfloat16": "bfloat16"}
    if name not in known:
        raise errors.UserError(
            f"Keras' global policy is {name!r}. Allowed are "
            f"{', '.join(known)}. Set one of them, or choose with "
            "AlbertModel(config, precision=...), one of "
            f"{', '.join(PRECISIONS)}; float16 needs loss scaling."
        )
    return known[name]


def _check_precision(precision: str) -> None:
    if precision not in PRECISIONS:
        raise errors.UserError(
            f"precision={precision!r} is not known. Allowed are "
            f"{', '.join(PRECISIONS)}."
        )
