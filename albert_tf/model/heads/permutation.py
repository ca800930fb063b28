"""Permutation language modelling: two streams through one encoder.

The content stream is the encoder's own, with a mask that follows a random
order. The query stream, for the positions that are asked for, sees what comes
before them in this order, but not what stands there. After pretraining the
encoder is kept; it is used like any other.

Source: XLNet, Yang et al., arXiv 1906.08237, sections 2.3 and 2.4.
"""

from collections.abc import Mapping

import tensorflow as tf
import tf_keras as keras

from albert_tf.model import model_inputs, seeds
from albert_tf.model.execution import last_layer, layer_stack
from albert_tf.model.heads import model_with_head, pretraining
from albert_tf.model.network import attention_bias
from albert_tf.model.network.encoder import AlbertModel

# Scope of the head.
HEAD = "plm"
# Separates the dropout of the queries' embeddings from the rest.
_QUERY_STREAM = 2**28


@keras.saving.register_keras_serializable(package="albert_tf")
class PermutationPretrainer(model_with_head.ModelWithHead):
    """An encoder that predicts the pieces of a text in a random order.

    DIFFERS: a query starts from the embeddings of [MASK] at its position, with
    segment and norm, and not from a vector of its own; the head is that of
    masked words. There is no memory of the text before.
    """

    input_keys = (
        *model_inputs.ENCODER,
        "query_ids",
        "ranks",
        "horizons",
        "masked_lm_positions",
    )

    def __init__(self, encoder: AlbertModel):
        super().__init__(encoder, "permutation_pretrainer")
        self.words = pretraining.AlbertPretrainer(
            encoder, sentence_order=False, scope=HEAD
        )

    def call(
        self,
        inputs: Mapping[str, tf.Tensor],
        training: bool = False,
        dropout_seed: tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        """Return `masked_lm_logits` float [B, P, V].

        Args:
            inputs: Those of the encoder; `query_ids` int32 [B, S], [MASK] where
                a piece is asked for; `ranks` and `horizons` int32 [B, S]: a
                position sees those whose rank is below its horizon, and, if it
                is not asked for, itself; `masked_lm_positions` int32 [B, P],
                what is asked for, padded with 0.
        """
        encoder = self.encoder
        inputs = encoder.fill_defaults(inputs)
        seed = query_seed = None
        if training:
            seed = seeds.fold_in(dropout_seed, 0)
            query_seed = seeds.fold_in(seed, _QUERY_STREAM)
        positions = inputs["masked_lm_positions"]
        *_, content = encoder.embed(inputs, seed)
        query_inputs = {**inputs, "input_ids": inputs["query_ids"]}
        *_, queries = encoder.embed(query_inputs, query_seed)
        queries = last_layer.gather(queries, positions)
        length, biases = tf.shape(content)[1], self._biases(inputs, positions)

        # Both attend to the content that goes in; of the last layer only the
        # queries are needed.
        def make_inputs(x: tf.Tensor, is_last: bool) -> layer_stack.LayerInputs:
            memory = [x[:, :length]]
            if not is_last:
                return x, biases, memory
            return x[:, length:], [b[..., length:, :] for b in biases], memory

        outputs = layer_stack.apply_with_inputs(
            encoder.transformer_layers,
            tf.concat([content, queries], 1),
            make_inputs,
            seed,
            recompute=encoder.recompute,
        )
        return {
            "masked_lm_logits": self.words.word_logits(outputs[-1], training)
        }

    def _biases(
        self, inputs: Mapping[str, tf.Tensor], positions: tf.Tensor
    ) -> list[tf.Tensor]:
        """Return the biases of content [B, S], then queries [B, P]."""
        visible = inputs["ranks"][:, None] < inputs["horizons"][:, :, None]
        itself = tf.eye(tf.shape(visible)[1], dtype=tf.bool)
        rows = [visible | itself, last_layer.gather(visible, positions)]
        mask = tf.cast(tf.concat(rows, 1), tf.int32)
        mask_bias, *position_biases = attention_bias.make(
            self.encoder.config,
            {**inputs, "input_mask": mask},
            self.encoder.bucket_biases,
        )
        content = tf.range(tf.shape(visible)[1])
        content += tf.zeros_like(positions[:, :1])  # [B, S]
        rows = tf.concat([content, positions], 1)
        return [mask_bias, *last_layer.gather_biases(position_biases, rows)]
