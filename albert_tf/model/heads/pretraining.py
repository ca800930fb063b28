"""The heads of pretraining: masked LM and, usually, sentence order.

Source: ALBERT §3.1; in the original, run_pretraining.get_masked_lm_output.
"""

from collections.abc import Mapping, Sequence

import tensorflow as tf
import tf_keras as keras

from albert_tf.model import model_inputs
from albert_tf.model.execution import plain
from albert_tf.model.heads import pretraining_tasks
from albert_tf.model.network import layers
from albert_tf.model.network.encoder import AlbertModel


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertPretrainer(pretraining_tasks.ModelWithTasks):
    """An encoder with the masked LM head and the sentence-order head."""

    input_keys = (*model_inputs.ENCODER, "masked_lm_positions", "cls_positions")

    def __init__(
        self,
        encoder: AlbertModel,
        sentence_order: bool = True,
        scope: str = "cls",
        tasks: Mapping[str, int] | None = None,
        token_tasks: Sequence[str] = (),
    ):
        """Add the heads, with new variables, to an encoder.

        Args:
            sentence_order: Whether there is a sentence-order head. Some public
                checkpoints lack it. Its variables begin with cls always.
            tasks: Names and numbers of classes of other tasks about segments.
            token_tasks: Names of tasks with two classes for each token.
        """
        super().__init__(encoder, "albert_pretrainer")
        self.scope = scope
        config, width = encoder.config, encoder.config.embedding_width
        self.transform = layers.Dense(
            f"{scope}/predictions/transform/dense",
            config.hidden_size,
            width,
            config,
        )
        self.transform_norm = layers.LayerNorm(
            f"{scope}/predictions/transform/LayerNorm",
            width,
            config.layer_norm_eps,
        )
        self.output_bias = self.add_weight(
            name=f"{scope}/predictions/output_bias",
            shape=[config.vocab_size],
            initializer="zeros",
        )
        self._add_tasks(sentence_order, tasks, token_tasks)

    def call(
        self,
        inputs: Mapping[str, tf.Tensor],
        training: bool = False,
        dropout_seed: tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        """Return the logits of both heads.

        Args:
            inputs: Those of the encoder, and `masked_lm_positions` int32
                [B, P], padded with 0. Rows of several instances have
                `cls_positions` int32 [B, K], where each begins, padded with 0.

        Returns:
            `masked_lm_logits` float [B, P, V] and, with a sentence-order head,
            `sentence_order_logits` float [B, 2], or [B, K, 2] for rows of
            several instances; `NAME_logits` of other tasks, with their classes.
        """
        masked = tf.convert_to_tensor(inputs["masked_lm_positions"])
        first = inputs.get("cls_positions", tf.zeros_like(masked[:, :1]))
        positions = tf.concat([first, masked], 1)
        outputs = self.encode(
            inputs,
            training,
            dropout_seed,
            None if self.token_tasks else positions,  # They read all.
        )
        x = outputs["sequence_output"]
        if self.token_tasks:
            x = tf.gather(x, positions, batch_dims=1)
        num_first, cls_vectors = 1, None
        if "cls_positions" in inputs:
            num_first = tf.shape(first)[1]
            cls_vectors = x[:, :num_first]
        return {
            "masked_lm_logits": self.word_logits(x[:, num_first:], training),
            **self._token_outputs(outputs["sequence_output"]),
            **self._sentence_outputs(
                outputs["pooled_output"], cls_vectors, training
            ),
        }

    def masked_lm_logits(
        self, sequence_output: tf.Tensor, positions: tf.Tensor
    ) -> tf.Tensor:
        """Return float [B, P, V] from [B, S, H] at positions int32 [B, P]."""
        x = tf.gather(sequence_output, positions, batch_dims=1)
        return self.word_logits(x)

    def word_logits(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Return float [B, P, V] for the encoder's output [B, P, H]."""
        shape = tf.shape(x)[:2]
        activation = plain.activation(self.encoder.config.hidden_act)
        x = activation(self.transform(x, training))
        x = self.transform_norm(x, training)
        # In float32: a softmax over so many classes needs the precision.
        rows = tf.reshape(tf.cast(x, tf.float32), [-1, x.shape[-1]])
        logits = self.encoder.embeddings.word_logits(rows) + self.output_bias
        shape = tf.concat([shape, tf.shape(logits)[1:]], 0)
        return tf.reshape(logits, shape)
