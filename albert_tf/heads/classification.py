"""Classification of one or two texts.

Source: ALBERT appendix A.4; in the original, classifier_utils.create_model.
"""

from collections.abc import Mapping

import tensorflow as tf
import tf_keras as keras

from albert_tf import modeling, objectives

# Fixed in the original, whatever the config's `initializer_range` is.
INITIALIZER_RANGE = 0.02
# "Classifier DR" in the paper's Table 14.
DROPOUT = 0.1
# Separates the seed of the classifier's dropout from those of the encoder.
_DROPOUT_STREAM = 2**30


class AlbertClassifier(keras.Model):
    """An encoder with one linear layer on its pooled output."""

    def __init__(self, encoder: modeling.AlbertModel, num_labels: int):
        """Add a new classifier to an encoder.

        Args:
            encoder: A finished encoder; its weights are trained along.
            num_labels: Number of classes.
        """
        super().__init__(name="albert_classifier")
        self.encoder = encoder
        self.output_weights = self.add_weight(
            name="output_weights",
            shape=[num_labels, encoder.config.hidden_size],
            initializer=modeling.truncated_normal(INITIALIZER_RANGE),
        )
        self.output_bias = self.add_weight(
            name="output_bias", shape=[num_labels], initializer="zeros"
        )

    def call(
        self,
        inputs: Mapping[str, tf.Tensor],
        training: bool = False,
        dropout_seed: tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        """Classify a batch.

        Args:
            inputs: What `modeling.AlbertModel` takes.
            training: Whether to apply dropout.
            dropout_seed: See `modeling.AlbertModel`.

        Returns:
            `logits` float [B, num_labels].
        """
        outputs = self.encoder(
            inputs, training=training, dropout_seed=dropout_seed
        )
        pooled = outputs["pooled_output"]
        if training:
            dropout = modeling.Dropout(
                modeling.derive_seed(dropout_seed, _DROPOUT_STREAM)
            )
            pooled = dropout(pooled, DROPOUT)
        return {"logits": self.logits(pooled)}

    def logits(self, pooled_output: tf.Tensor) -> tf.Tensor:
        """Return float [B, num_labels] for the pooled output [B, H]."""
        logits = tf.matmul(pooled_output, self.output_weights, transpose_b=True)
        return logits + self.output_bias


def _compute(
    model: AlbertClassifier,
    batch: Mapping[str, tf.Tensor],
    dropout_seed: tf.Tensor | None,
) -> dict[str, objectives.Ratio]:
    outputs = model(
        batch, training=dropout_seed is not None, dropout_seed=dropout_seed
    )
    real = tf.cast(batch["is_real_example"], tf.float32)
    arguments = outputs["logits"], batch["label_ids"], real
    return {
        "classification_loss": objectives.cross_entropy(*arguments),
        "accuracy": objectives.accuracy(*arguments),
    }


OBJECTIVE = objectives.Objective(
    losses=("classification_loss",), metrics=("accuracy",), compute=_compute
)
