"""The score of each choice of a question, as RACE needs it.

Source: ALBERT appendix A.4; in the original, race_utils.create_model.
"""

from collections.abc import Mapping

import tensorflow as tf
import tf_keras as keras

from albert_tf.model import base
from albert_tf.model.heads import classification, head
from albert_tf.model.losses import label_objectives, objectives
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.tasks.race.task import RaceTask

# The logit of a padding choice.
PADDING_LOGIT = -1e30


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertMultipleChoice(base.BuiltModel):
    """Scores every choice of a question on its own.

    Each choice is encoded with the passage and the question; one linear layer
    gives its score.
    """

    def __init__(
        self, encoder: AlbertModel, dropout: float = classification.DROPOUT
    ):
        super().__init__("albert_multiple_choice")
        # Its variables have no scope, as in the original.
        self.scorer = classification.AlbertClassifier(encoder, 1, dropout)
        self.dropout = dropout

    @property
    def encoder(self) -> AlbertModel:
        return self.scorer.encoder

    def call(
        self,
        inputs: Mapping[str, tf.Tensor],
        training: bool = False,
        dropout_seed: tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        """Return `logits` float32 [B, choices] of a batch of questions.

        Inputs are `input_ids`, and optionally `input_mask` and `segment_ids`,
        int32 [B, choices, S]. A choice whose mask is all 0 is padding; it is
        never chosen.
        """
        scores = self.scorer(
            inputs, training=training, dropout_seed=dropout_seed
        )
        mask = inputs.get("input_mask")
        return {"logits": _mask_padding(scores["logits"], mask)}

    def logits(
        self, pooled_output: tf.Tensor, input_mask: tf.Tensor
    ) -> tf.Tensor:
        """Return `logits` for the encoder's output of each choice.

        Args:
            pooled_output: float [B, choices, H].
            input_mask: int32 [B, choices, S], see `call`.
        """
        rows = tf.reshape(pooled_output, [-1, pooled_output.shape[-1]])
        logits = tf.reshape(self.scorer.logits(rows), tf.shape(input_mask)[:2])
        return _mask_padding(logits, input_mask)


def _mask_padding(logits: tf.Tensor, input_mask: tf.Tensor | None) -> tf.Tensor:
    """Return float32 logits, those of padding choices at PADDING_LOGIT."""
    logits = tf.cast(logits, tf.float32)
    if input_mask is None:
        return logits
    real = tf.reduce_any(input_mask > 0, -1)
    return tf.where(real, logits, PADDING_LOGIT)


# Its weights are those of a classifier with one label.
HEADS: tuple[head.Head, ...] = ()


def make(task: RaceTask, encoder: AlbertModel) -> keras.Model:
    return AlbertMultipleChoice(encoder, task.options.dropout_prob)


def objective(task: RaceTask) -> objectives.Objective:
    del task  # The same for all.
    return label_objectives.CLASSIFICATION
