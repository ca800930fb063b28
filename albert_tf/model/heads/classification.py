"""One linear layer on the pooled output: classes, or a number.

Source: ALBERT appendix A.4; in the original, classifier_utils.create_model.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras
from absl import logging

from albert_tf.model.heads import model_with_head
from albert_tf.model.network.encoder import AlbertModel

# "Classifier DR" in the paper's Table 14.
DROPOUT = 0.1


def warn_of_rounding(mean: float, deviation: float) -> None:
    """Warn if float32 does not tell numbers with this mean apart."""
    step = float(np.spacing(np.float32(abs(mean))))
    if step > deviation / 100:
        logging.warning(
            "Near %g float32 holds every %gth number. All exports are in it "
            "but `score` of a SavedModel. Train on differences from the mean.",
            mean,
            step,
        )


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertClassifier(model_with_head.ModelWithHead):
    """An encoder with one linear layer on its pooled output.

    With one label it is a regression: the logit is the predicted number, on the
    scale of the labels, neither squashed nor clipped.
    """

    def __init__(
        self,
        encoder: AlbertModel,
        num_labels: int,
        dropout: float = DROPOUT,
        mean: float = 0.0,
        deviation: float = 1.0,
        vectors: tuple[str, int] = ("", 0),
    ):
        """Add a new classifier to an encoder.

        Args:
            num_labels: 1 for a regression.
            dropout: Share of the pooled output that is dropped in training.
            mean: Of the numbers of a regression: added to the layer's output.
            deviation: Theirs, too; before that, multiplied with it.
            vectors: Pooling and width of the vectors that the head reads, see
                `AlbertModel.give_vectors`; "" for the encoder's pooler.
        """
        super().__init__(encoder, "albert_classifier", dropout)
        self.vectors = tuple(vectors)
        if vectors[0]:
            encoder.give_vectors(*vectors)
        self.num_labels = num_labels
        self.mean, self.deviation = mean, deviation
        self.add_output("", num_labels)

    def call(
        self,
        inputs: Mapping[str, tf.Tensor],
        training: bool = False,
        dropout_seed: tf.Tensor | None = None,
    ) -> dict[str, Any]:
        """Return `logits` float [B, num_labels]; with a mean float64.

        With one label, inputs may be int32 [B, n, S], n sequences for each
        example; the logits are then [B, n]. See `with_exits` for training.
        """
        ids = tf.convert_to_tensor(inputs["input_ids"])
        if ids.shape.rank == 3:
            shape = tf.shape(ids)
            rows = {k: tf.reshape(v, [-1, shape[2]]) for k, v in inputs.items()}
            outputs = self.call(rows, training, dropout_seed)
            return tf.nest.map_structure(
                lambda logits: tf.reshape(logits, shape[:2]), outputs
            )
        cls = tf.zeros_like(ids[:, :1])
        outputs = self.encode(inputs, training, dropout_seed, cls)
        dropout = self.head_dropout(training, dropout_seed)

        def answer(states: dict[str, Any], depth: int) -> dict[str, Any]:
            pooled = dropout(states["pooled_output"], self.dropout)
            return {"logits": self.logits(pooled, depth)}

        return self.with_exits(answer, outputs, inputs, training)

    def logits(
        self,
        pooled_output: tf.Tensor,
        depth: int | None = None,
        dtype: tf.DType = tf.float64,
    ) -> tf.Tensor:
        """Return float [B, num_labels] for the pooled output [B, H].

        Args:
            dtype: Of numbers with a mean. float32 holds seven digits.
        """
        logits = model_with_head.logits(pooled_output, *self.output_of(depth))
        if not self.has_scale:
            return logits
        return tf.cast(logits, dtype) * self.deviation + self.mean

    @property
    def has_scale(self) -> bool:
        return (self.mean, self.deviation) != (0.0, 1.0)
