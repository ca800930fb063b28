"""Span corruption: a decoder that writes what is missing in a text.

Its layers are those of the encoder, with an attention of their own to the
encoder's output in between. After pretraining only the encoder is kept.

Source: T5, Raffel et al., arXiv 1910.10683, sections 2.1 and 3.1.4.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence

import tensorflow as tf
import tf_keras as keras

from albert_tf.model import model_inputs, seeds
from albert_tf.model.execution import layer_stack, weights
from albert_tf.model.heads import model_with_head, pretraining
from albert_tf.model.network import attention, attention_bias, feed_forward
from albert_tf.model.network.encoder import AlbertModel

# First part of the names of what only the decoder has.
SCOPE = "decoder"
# Separates the decoder's dropout from the rest.
_DECODER_STREAM = 2**29


@dataclasses.dataclass(frozen=True)
class DecoderLayer(weights.Layer):
    """Attention to what comes before, then to a memory, then feed-forward."""

    self_attention: attention.Attention
    cross_attention: attention.Attention
    feed_forward: feed_forward.FeedForward

    def __call__(
        self,
        x: tf.Tensor,
        biases: Sequence[tf.Tensor],
        seed: tf.Tensor | None = None,
        memory: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """See `TransformerLayer`; the last of the biases is for the memory."""
        *biases, memory_bias = biases
        dropout, training = seeds.DropoutSeeds(seed), seed is not None
        x = self.self_attention(x, biases, None, dropout, training=training)
        x = self.cross_attention(
            x, [memory_bias], memory, dropout, training=training
        )
        return self.feed_forward(x, dropout, training=training)


@keras.saving.register_keras_serializable(package="albert_tf")
class SpanPretrainer(model_with_head.ModelWithHead):
    """An encoder, and a decoder that shares its layers and its words.

    DIFFERS: layers are ALBERT's, with norms behind, biases and scores divided
    by √D; positions are embedded; the head is that of masked words.
    """

    input_keys = (*model_inputs.ENCODER, "target_ids")

    def __init__(self, encoder: AlbertModel):
        super().__init__(encoder, "span_pretrainer")
        # The memory has no distance from what attends to it.
        self._cross_config = dataclasses.replace(
            encoder.config, position_bias="none"
        )
        # As many as the encoder has of its own.
        self.cross_attentions = [
            [
                attention.Attention(
                    self._cross_config, f"{SCOPE}/group_{group}/layer_{number}"
                )
                for number in range(len(attentions))
            ]
            for group, attentions in enumerate(encoder.attentions)
        ]
        self.bucket_biases = attention_bias.add_bucket_table(
            self, encoder.config, SCOPE
        )
        self.words = pretraining.AlbertPretrainer(
            encoder, sentence_order=False, scope=SCOPE
        )

    @functools.cached_property
    def decoder_layers(self) -> list[DecoderLayer]:
        """All layers in order of application."""
        encoder = self.encoder
        return [
            DecoderLayer(*parts)
            for group, ffn_group in encoder.config.layer_groups
            for parts in zip(
                encoder.attentions[group],
                self.cross_attentions[group],
                encoder.feed_forwards[ffn_group],
                strict=True,
            )
        ]

    def call(
        self,
        inputs: Mapping[str, tf.Tensor],
        training: bool = False,
        dropout_seed: tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        """Return `target_logits` float [B, P, V].

        Beside the encoder's inputs there are `target_ids` int32 [B, P], padded
        with 0; each is predicted from those before it.
        """
        encoder, targets = self.encoder, inputs["target_ids"]
        memory = self.encode(inputs, training, dropout_seed)["sequence_output"]
        seed = None
        if training:
            seed = seeds.fold_in(dropout_seed, _DECODER_STREAM)
        prefix = encoder.fill_defaults(
            {"input_ids": tf.pad(targets[:, :-1], [[0, 0], [1, 0]])}
        )
        *_, x = encoder.embed(prefix, seed)
        biases = self._biases(inputs, prefix)
        outputs = layer_stack.apply_with_inputs(
            self.decoder_layers,
            x,
            lambda x, is_last: (x, biases, [memory]),
            seed,
            recompute=encoder.recompute,
        )
        return {"target_logits": self.words.word_logits(outputs[-1], training)}

    def _biases(
        self, inputs: Mapping[str, tf.Tensor], prefix: Mapping[str, tf.Tensor]
    ) -> list[tf.Tensor]:
        """Return the biases of the causal self-attention, then the memory's."""
        length = tf.shape(prefix["input_ids"])[1]
        causal = tf.linalg.band_part(tf.ones([length, length], tf.int32), -1, 0)
        biases = attention_bias.make(
            self.encoder.config,
            {**prefix, "input_mask": causal[None]},
            self.bucket_biases,
            is_causal=True,
        )
        memory_biases = attention_bias.make(
            self._cross_config, self.encoder.fill_defaults(inputs)
        )
        return [*biases, *memory_biases]
