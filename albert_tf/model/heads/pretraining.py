"""Pretraining heads: masked LM and sentence order.

Source: ALBERT §3.1; in the original, run_pretraining.get_masked_lm_output and
run_pretraining.get_sentence_order_output.
"""

import functools
from collections.abc import Mapping

import tensorflow as tf
import tf_keras as keras

from albert_tf.data import layouts
from albert_tf.model import (
    fused_ops,
    layers,
    model_inputs,
    model_options,
    modeling,
    objectives,
)
from albert_tf.model.heads import head


class SentenceHead(head.Head):
    """A head that predicts, beside other things, the order of two segments.

    Attributes:
        sentence_order: Whether it does.
    """

    def _add_sentence_order(self, sentence_order: bool) -> None:
        self.sentence_order = sentence_order
        if not sentence_order:
            return
        config = self.encoder.config
        self.order_weights = self.add_weight(
            name="cls/seq_relationship/output_weights",
            shape=[2, config.hidden_size],
            initializer=layers.truncated_normal(config.initializer_range),
        )
        self.order_bias = self.add_weight(
            name="cls/seq_relationship/output_bias",
            shape=[2],
            initializer="zeros",
        )

    def sentence_order_logits(self, pooled_output: tf.Tensor) -> tf.Tensor:
        """Return float32 [..., 2] for the pooled output [..., H]."""
        logits = tf.matmul(pooled_output, self.order_weights, transpose_b=True)
        return logits + self.order_bias

    def _sentence_outputs(
        self, pooled_output: tf.Tensor, first: tf.Tensor | None
    ) -> dict[str, tf.Tensor]:
        """Return `sentence_order_logits`, see `AlbertPretrainer.call_head`.

        Args:
            pooled_output: Of the encoder.
            first: In rows of several instances the encoder's output at the
                first token of each, float [B, K, H]; else None.
        """
        if not self.sentence_order:
            return {}
        if first is not None:
            pooled_output = self._pool_instances(first)
        logits = self.sentence_order_logits(pooled_output)
        return {"sentence_order_logits": logits}

    def _pool_instances(self, first: tf.Tensor) -> tf.Tensor:
        """Return float32 [B, K, H] for float [B, K, H].

        Raises:
            ValueError: The pooler reads more than the first token.
        """
        if self.encoder.config.pooling != "cls":
            raise ValueError("Rows of several instances need pooling='cls'.")
        width = first.shape[-1]
        pooled = self.encoder.pooler(tf.reshape(first, [-1, width]))
        return tf.reshape(pooled, tf.shape(first))


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertPretrainer(SentenceHead):
    """An encoder with the masked LM head and the sentence-order head."""

    input_keys = (
        *model_inputs.ENCODER,
        "masked_lm_positions",
        "cls_positions",
    )

    def __init__(
        self,
        encoder: modeling.AlbertModel,
        sentence_order: bool = True,
        scope: str = "cls",
    ):
        """Add the heads, with new variables, to an encoder.

        Args:
            encoder: A finished encoder; its weights are trained along.
            sentence_order: Whether there is a sentence-order head. Some public
                checkpoints lack it.
            scope: First part of the names of the masked LM head's variables.
                Those of the sentence-order head begin with cls always.
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
            f"{scope}/predictions/transform/LayerNorm", width
        )
        self.output_bias = self.add_weight(
            name=f"{scope}/predictions/output_bias",
            shape=[config.vocab_size],
            initializer="zeros",
        )
        self._add_sentence_order(sentence_order)

    def output_positions(self, inputs: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Return the first token of each instance, then the masked pieces."""
        masked = tf.convert_to_tensor(inputs["masked_lm_positions"])
        first = inputs.get("cls_positions", tf.zeros_like(masked[:, :1]))
        return tf.concat([first, masked], 1)

    def call_head(
        self,
        outputs: Mapping[str, tf.Tensor],
        inputs: Mapping[str, tf.Tensor],
        dropout: layers.Dropout,
    ) -> dict[str, tf.Tensor]:
        """Return the logits of both heads.

        Args:
            outputs: Of the encoder, at `output_positions` or at all.
            inputs: With `masked_lm_positions` int32 [B, P], padded with 0. Rows
                of several instances have `cls_positions` int32 [B, K], where
                each begins, padded with 0.
            dropout: Not used.

        Returns:
            `masked_lm_logits` float [B, P, V] and, with a sentence-order head,
            `sentence_order_logits` float [B, 2], or [B, K, 2] for rows of
            several instances; index 1 means that the segments were swapped.
        """
        x = outputs["sequence_output"]
        if "output_positions" not in outputs:
            x = tf.gather(x, self.output_positions(inputs), batch_dims=1)
        count, first = 1, None
        if "cls_positions" in inputs:
            count = tf.shape(inputs["cls_positions"])[1]
            first = x[:, :count]
        return {
            "masked_lm_logits": self.word_logits(x[:, count:]),
            **self._sentence_outputs(outputs["pooled_output"], first),
        }

    def masked_lm_logits(
        self, sequence_output: tf.Tensor, positions: tf.Tensor
    ) -> tf.Tensor:
        """Return float [B, P, V] from sequence [B, S, H], positions [B, P]."""
        return self.word_logits(
            tf.gather(sequence_output, positions, batch_dims=1)
        )

    def word_logits(self, x: tf.Tensor) -> tf.Tensor:
        """Return float [B, P, V] for the encoder's output [B, P, H]."""
        shape = tf.shape(x)[:2]
        activation = fused_ops.PLAIN.activation(self.encoder.config.hidden_act)
        x = self.transform_norm(activation(self.transform(x)))
        # In float32: a softmax over so many classes needs the precision.
        rows = tf.reshape(tf.cast(x, tf.float32), [-1, x.shape[-1]])
        logits = self.encoder.embeddings.score_words(rows) + self.output_bias
        shape = tf.concat([shape, tf.shape(logits)[1:]], 0)
        return tf.reshape(logits, shape)


def make_objective(
    sentence_objective: str = "sop",
    masked_lm_factor: float = 1.0,
    sentence_factor: float = 1.0,
) -> objectives.Objective:
    """Return the objective that `AlbertPretrainer` is trained for.

    Args:
        sentence_objective: sop (label 1: segments are swapped), nsp (label 1:
            the second segment is from another document) or none (masked LM
            only).
        masked_lm_factor: Factor of the masked LM loss.
        sentence_factor: Factor of the sentence loss.
    """
    sentence = model_options.SENTENCE_OBJECTIVES[sentence_objective]
    losses = {"masked_lm_loss": masked_lm_factor}
    metrics = ["masked_lm_accuracy"]
    if sentence:
        losses[f"{sentence}_loss"] = sentence_factor
        metrics.append(f"{sentence}_accuracy")
    return objectives.Objective(
        losses=losses,
        metrics=tuple(metrics),
        sample_weights=functools.partial(_sample_weights, sentence),
        sample_values=functools.partial(_sample_values, sentence),
        # Keeps the loss finite for a batch without any prediction. Original
        # release, run_pretraining.get_masked_lm_output.
        epsilons={"masked_lm_loss": 1e-5},
    )


def _sample_weights(
    sentence: str, batch: objectives.Batch
) -> objectives.Tensors:
    real = objectives.real_examples(batch)  # [B]
    masked = batch["masked_lm_weights"] * real[:, None]  # [B, P]
    found = {"masked_lm_loss": masked, "masked_lm_accuracy": masked}
    if sentence:
        # [B, 1], or [B, K] for rows of several instances.
        has_label = batch["next_sentence_labels"] != layouts.NO_LABEL
        labelled = real[:, None] * tf.cast(has_label, tf.float32)
        found |= {
            f"{sentence}_loss": labelled,
            f"{sentence}_accuracy": labelled,
        }
    return found


def _sample_values(
    sentence: str,
    model: AlbertPretrainer,
    batch: objectives.Batch,
    dropout_seed: tf.Tensor | None,
) -> objectives.Tensors:
    batch = with_attention_mask(batch)
    outputs = objectives.outputs(model, batch, dropout_seed)
    found = loss_and_accuracy(
        "masked_lm", outputs["masked_lm_logits"], batch["masked_lm_ids"]
    )
    return found | sentence_values(sentence, outputs, batch)


def with_attention_mask(batch: objectives.Batch) -> objectives.Batch:
    """Return a batch whose `input_mask` says what each token may attend to.

    In rows of several instances each attends only to itself: the mask is int32
    [B, S, S] then.
    """
    ids = batch.get("instance_ids")
    if ids is None:
        return batch
    same = ids[:, :, None] == ids[:, None]
    return {**batch, "input_mask": tf.cast(same, tf.int32)}


def sentence_values(
    sentence: str, outputs: objectives.Tensors, batch: objectives.Batch
) -> objectives.Tensors:
    """Return loss and accuracy of the objective over two segments.

    Args:
        sentence: Its name in losses and metrics; empty if there is none.
        outputs: Of a `SentenceHead`.
        batch: Its labels.
    """
    if not sentence:
        return {}
    # The records keep BERT's name, whatever the labels mean.
    labels = batch["next_sentence_labels"]
    # Any class will do where there is no label: its weight is 0.
    labels = tf.where(labels == layouts.NO_LABEL, 0, labels)
    logits = tf.reshape(
        outputs["sentence_order_logits"], [-1, labels.shape[1], 2]
    )
    return loss_and_accuracy(sentence, logits, labels)


def loss_and_accuracy(
    name: str, logits: tf.Tensor, labels: tf.Tensor
) -> objectives.Tensors:
    """Return `NAME_loss` and `NAME_accuracy` of each entry, float32 [...]."""
    return {
        f"{name}_loss": objectives.cross_entropy(logits, labels),
        f"{name}_accuracy": objectives.correct(logits, labels),
    }


OBJECTIVE = make_objective()
