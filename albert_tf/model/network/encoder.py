"""The ALBERT encoder.

Every variable carries the name that it has in the original release
(`bert/encoder/transformer/group_0/inner_group_0/attention_1/self/query/kernel`),
so released checkpoints are restored by name and the optimizer's exclusion rules
mean what they mean there. Variables exist as soon as a model is constructed.

A layer is attention, then feed-forward. In the paper and in released models
there are `num_hidden_layers` of them; an `inner_group_num` above 1 puts that
many in the place of each.

Dimensions in comments and einsum strings:
    B batch, S sequence (attending), T sequence (attended to), P chosen
    positions, R rows of any kind, E embedding, H hidden, I intermediate,
    N heads, D size of one head, V vocabulary, C classes, K instances of a row.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
import tf_keras as keras

from albert_tf.common import errors
from albert_tf.model import base, seeds
from albert_tf.model.checkpoints import sentence_modules
from albert_tf.model.config import PRECISIONS, AlbertConfig
from albert_tf.model.execution import last_layer, layer_stack, weights
from albert_tf.model.network import (
    attention,
    attention_bias,
    embeddings,
    feed_forward,
    layers,
    pooling,
)

# The precision that each of Keras' global policies asks for.
_POLICY_PRECISIONS = {"float32": "float32", "mixed_bfloat16": "bfloat16"}


@dataclasses.dataclass(frozen=True)
class TransformerLayer(weights.Layer):
    """Attention, then feed-forward; either may be part of other layers, too."""

    attention: attention.Attention
    feed_forward: feed_forward.FeedForward

    def __call__(
        self,
        x: tf.Tensor,
        biases: Sequence[tf.Tensor],
        seed: tf.Tensor | None = None,
        memory: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Return float [B, S, H].

        Args:
            x: float [B, S, H].
            seed: Of dropout, int32 [2]; None outside of training.
            memory: float [B, T, H], what x attends to; x by default.
        """
        # A seed is given in training only.
        dropout, training = seeds.DropoutSeeds(seed), seed is not None
        x = self.attention(x, biases, memory, dropout, training=training)
        return self.feed_forward(x, dropout, training=training)


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertModel(base.BuiltModel):
    """The ALBERT encoder.

    Example:
        config = AlbertConfig.from_json_file("albert_config.json")
        encoder = AlbertModel(config)
        outputs = encoder(dict(input_ids=ids))   # ids: int32 [batch, seq_len]
        outputs["pooled_output"]                 # float32 [batch, hidden]

    Inputs: `input_ids` int32 [B, S]; optionally `input_mask` int32 [B, S], 1
    for real tokens and 0 for padding (default: all real), or [B, S, T], 1 where
    S attends to T; `segment_ids` int32 [B, S] (default: all 0); `position_ids`
    int32 [B, S], below S (default: 0 to S - 1). Padding positions get values
    too; nothing attends to them. The model also takes `input_ids` alone, and
    Hugging Face's names `attention_mask` and `token_type_ids`.

    Outputs: `word_embedding_output` and `embedding_output` float32 [B, S, E]
    ([B, S, H] with `config.project_words_first`); `all_encoder_layers`, a list
    of float [B, S, H], one for each layer, in the encoder's `precision`
    (the last [B, P, H] with `output_positions`); `sequence_output`, its last
    entry; `pooled_output` float32 [B, H].

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
        with_pooler: bool = True,
    ):
        """Create the encoder and all its variables, in float32.

        Args:
            scope: First part of every variable name.
            precision: What is computed in: one of `config.PRECISIONS`. Norms
                and softmax are in float32 always. None follows Keras' global
                policy: float32, or mixed_bfloat16 for bfloat16.
            recompute: Gradient checkpointing: less memory in training for
                more time; see `layer_stack.apply`.
            loop_layers: Whether the layers are a loop in training; see
                `layer_stack.apply_in_loop`. `all_encoder_layers` then holds
                only the last.
            with_pooler: Without one, there is no `pooled_output`.
        """
        super().__init__(name=scope)
        self.config = config
        self.scope = scope
        self.precision = _choose_precision(precision)
        self.recompute = recompute
        self.loop_layers = loop_layers
        self.with_pooler = with_pooler
        # How many of `num_hidden_layers` are applied; may be set to fewer, or
        # to more where all are the same.
        self.depth = config.num_hidden_layers
        self._add_embeddings()
        self._add_layers()
        self.pooling, self.pooled_size = config.pooling, config.hidden_size
        self.pooler = None
        if with_pooler:
            self.pooler = pooling.Pooler(
                f"{scope}/pooler/dense",
                config.pooled_width,
                config.hidden_size,
                config,
            )

    def give_vectors(self, text_pooling: str, size: int = 0) -> None:
        """Make `pooled_output` the vector of the text, see `VectorPooler`.

        `size` is its width; 0: that of the encoder, by the identity at first.
        """
        config, width = self.config, self.config.hidden_size
        self.pooling, self.pooled_size = text_pooling, size or width
        self.pooler = pooling.VectorPooler(
            sentence_modules.SCOPE, width, self.pooled_size, config
        )
        if self.pooled_size == width:
            self.pooler.kernel.assign(tf.eye(width))

    def _add_embeddings(self) -> None:
        config, scope = self.config, self.scope
        self.embeddings = embeddings.Embeddings(config, f"{scope}/embeddings")
        self.embedding_mapping = None
        if config.maps_embeddings:
            self.embedding_mapping = layers.Dense(
                f"{scope}/encoder/embedding_hidden_mapping_in",
                config.embedding_size,
                config.hidden_size,
                config,
            )

    def _add_layers(self) -> None:
        config = self.config
        # [group][inner group]; empty for a group that no layer uses.
        self.attentions: list[list[attention.Attention]] = []
        self.feed_forwards: list[list[feed_forward.FeedForward]] = []
        # Attention and feed-forward have groups of their own: of two layers
        # that share attention only, {0} and {0, 1}.
        attention_groups, ffn_groups = map(
            set, zip(*config.layer_groups, strict=True)
        )
        for group in range(max(attention_groups | ffn_groups) + 1):
            scope = f"{self.scope}/encoder/transformer/group_{group}"
            paths = [
                f"{scope}/inner_group_{inner}"
                for inner in range(config.inner_group_num)
            ]
            self.attentions.append(
                [
                    attention.Attention(config, path)
                    for path in paths
                    if group in attention_groups
                ]
            )
            self.feed_forwards.append(
                [
                    feed_forward.FeedForward(config, path)
                    for path in paths
                    if group in ffn_groups
                ]
            )
        self.bucket_biases = attention_bias.add_bucket_table(
            self, config, f"{self.scope}/encoder"
        )
        if self.loop_layers and len(set(self.transformer_layers)) > 1:
            raise errors.UserError(
                "`loop_layers=True` is for models whose layers share all "
                f"weights. This one has {config.sharing}; do not set it."
            )

    @functools.cached_property
    def _layers_of_groups(
        self,
    ) -> dict[tuple[int, int], list[TransformerLayer]]:
        """The layers in the place of one, by the pair in `layer_groups`."""
        return {
            (group, ffn_group): [
                TransformerLayer(*parts)
                for parts in zip(
                    self.attentions[group],
                    self.feed_forwards[ffn_group],
                    strict=True,
                )
            ]
            for group, ffn_group in self.config.layer_groups
        }

    @property
    def transformer_layers(self) -> list[TransformerLayer]:
        """All layers in order of application (ALBERT §3.1).

        Layers that share all parameters are the same object.
        """
        groups = self.config.layer_groups
        groups += groups[-1:] * (self.depth - len(groups))
        return [
            layer
            for pair in groups[: self.depth]
            for layer in self._layers_of_groups[pair]
        ]

    def call(
        self,
        inputs: Mapping[str, tf.Tensor],
        training: bool = False,
        dropout_seed: tf.Tensor | None = None,
        output_positions: tf.Tensor | None = None,
    ) -> dict[str, Any]:
        """Encode a batch of sequences, see the class.

        A sequence that is longer than the position table is refused where its
        length is known when the graph is built; others fail inside TensorFlow.

        Args:
            training: Whether to apply dropout, and to compute with
                `execution.training_ops`, which differs by rounding only.
            dropout_seed: int32 [2]; the same seed gives the same dropout. By
                default one is drawn from TensorFlow's global generator. Not
                read without `training`.
            output_positions: int32 [B, P], the only positions at which the
                last layer's output is returned, [B, P, H] then. The first is
                that of [CLS], 0; otherwise `pooled_output` is not defined.
        """
        inputs = self.fill_defaults(inputs)
        seed = seeds.fold_in(dropout_seed, 0) if training else None
        words, embedded, x = self.embed(inputs, seed)
        encoded, pooled = self._apply_layers(x, inputs, seed, output_positions)
        outputs = {
            "word_embedding_output": words,
            "embedding_output": embedded,
            "all_encoder_layers": encoded,
            "sequence_output": encoded[-1],
        }
        if self.pooler is not None:
            outputs["pooled_output"] = self.pooler(pooled, training)
        return outputs

    def embed(
        self, inputs: Mapping[str, tf.Tensor], seed: tf.Tensor | None
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Return words, embeddings, and what the first layer reads.

        Args:
            inputs: What `fill_defaults` returns.
            seed: Of dropout, int32 [2]; None outside of training.
        """
        dropout, training = seeds.DropoutSeeds(seed), seed is not None
        # Sum of embeddings, norm, dropout: [B, S, E].
        words, embedded = self.embeddings(inputs, dropout, training)
        x = tf.cast(embedded, self.precision)
        if self.embedding_mapping is not None:
            # To [B, S, H], ALBERT §3.1.
            x = self.embedding_mapping(x, training)
        return words, embedded, x

    def _apply_layers(
        self,
        x: tf.Tensor,
        inputs: Mapping[str, tf.Tensor],
        seed: tf.Tensor | None,
        output_positions: tf.Tensor | None,
    ) -> tuple[list[tf.Tensor], tf.Tensor]:
        """Return the output of each layer, and what the pooler reads."""
        stack = self.transformer_layers
        biases = attention_bias.make(self.config, inputs, self.bucket_biases)
        loops = self.loop_layers and seed is not None
        # The other poolings need all outputs; a loop treats all layers alike.
        gathers_first = (
            last_layer.needs_fewer(output_positions, inputs["input_ids"])
            and self.pooling == "cls"
            and not loops
        )
        if loops:
            output = layer_stack.apply_in_loop(
                stack, x, biases, seed, recompute=self.recompute
            )
            encoded = [output]
        else:
            encoded = layer_stack.apply(
                stack,
                x,
                biases,
                seed,
                output_positions if gathers_first else None,
                recompute=self.recompute,
            )
        pooled = pooling.pool(self.pooling, encoded[-1], inputs)
        if output_positions is not None and not gathers_first:
            encoded[-1] = last_layer.gather(encoded[-1], output_positions)
        return encoded, pooled

    def fill_defaults(
        self, inputs: Mapping[str, tf.Tensor]
    ) -> dict[str, tf.Tensor]:
        """Return inputs with mask and segments, see the class."""
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


def _choose_precision(precision: str | None) -> str:
    """Return the precision, by default the one of Keras' global policy."""
    if precision in PRECISIONS:
        return precision
    if precision is not None:
        raise errors.UserError(
            f"precision={precision!r} is not known. Allowed are "
            f"{', '.join(PRECISIONS)}."
        )
    name = keras.mixed_precision.global_policy().name
    if name not in _POLICY_PRECISIONS:
        raise errors.UserError(
            f"Keras' global policy is {name!r}. Allowed are "
            f"{', '.join(_POLICY_PRECISIONS)}. Set one of them, or choose with "
            "AlbertModel(config, precision=...), one of "
            f"{', '.join(PRECISIONS)}; float16 needs loss scaling."
        )
    return _POLICY_PRECISIONS[name]
