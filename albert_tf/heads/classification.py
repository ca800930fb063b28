"""One linear layer on the pooled output: classes, a number, or a choice.

Source: ALBERT appendix A.4; in the original, classifier_utils.create_model and
race_utils.create_model.
"""

from collections.abc import Mapping

import tensorflow as tf
import tf_keras as keras

from albert_tf import modeling, objectives

# Fixed in the original, whatever the config's `initializer_range` is.
INITIALIZER_RANGE = 0.02
# "Classifier DR" in the paper's Table 14.
DROPOUT = 0.1
# Separates the seed of the head's dropout from those of the encoder.
_DROPOUT_STREAM = 2**30


class AlbertClassifier(keras.Model):
    """An encoder with one linear layer on its pooled output.

    With one label it is a regression: the logit is the predicted number, on the
    scale of the labels, neither squashed nor clipped.
    """

    def __init__(
        self,
        encoder: modeling.AlbertModel,
        num_labels: int,
        dropout: float = DROPOUT,
    ):
        """Add a new classifier to an encoder.

        Args:
            encoder: A finished encoder; its weights are trained along.
            num_labels: Number of classes; 1 for a regression.
            dropout: Share of the pooled output that is dropped in training.
        """
        super().__init__(name="albert_classifier")
        self.encoder = encoder
        self._dropout = dropout
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
            pooled = head_dropout(dropout_seed)(pooled, self._dropout)
        return {"logits": self.logits(pooled)}

    def logits(self, pooled_output: tf.Tensor) -> tf.Tensor:
        """Return float [B, num_labels] for the pooled output [B, H]."""
        logits = tf.matmul(pooled_output, self.output_weights, transpose_b=True)
        return logits + self.output_bias


def head_dropout(dropout_seed: tf.Tensor | None) -> modeling.Dropout:
    """Return the dropout of a head, with draws apart from the encoder's."""
    return modeling.Dropout(modeling.derive_seed(dropout_seed, _DROPOUT_STREAM))


class AlbertMultipleChoice(keras.Model):
    """Scores every choice of a question by itself, as RACE needs it.

    The choices of one question are encoded one by one, each with the passage;
    one linear layer gives each a score.
    """

    def __init__(self, encoder: modeling.AlbertModel, dropout: float = DROPOUT):
        """Add a new scorer to an encoder; see `AlbertClassifier`."""
        super().__init__(name="albert_multiple_choice")
        # Its variables have no scope, as in the original.
        self.scorer = AlbertClassifier(encoder, 1, dropout)

    @property
    def encoder(self) -> modeling.AlbertModel:
        """The encoder below the head."""
        return self.scorer.encoder

    def call(
        self,
        inputs: Mapping[str, tf.Tensor],
        training: bool = False,
        dropout_seed: tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        """Score the choices of a batch of questions.

        Args:
            inputs: `input_ids`, and optionally `input_mask` and `segment_ids`,
                int32 [B, choices, S].
            training: Whether to apply dropout.
            dropout_seed: See `modeling.AlbertModel`.

        Returns:
            `logits` float [B, choices].
        """
        shape = tf.shape(inputs["input_ids"])
        rows = {
            name: tf.reshape(inputs[name], [-1, shape[2]])
            for name in ("input_ids", "input_mask", "segment_ids")
            if name in inputs
        }
        scores = self.scorer(rows, training=training, dropout_seed=dropout_seed)
        return {"logits": tf.reshape(scores["logits"], shape[:2])}


def _weights(batch: objectives.Batch) -> objectives.Tensors:
    real = objectives.real_examples(batch)
    return {"classification_loss": real, "accuracy": real}


def _values(
    model: keras.Model,
    batch: objectives.Batch,
    dropout_seed: tf.Tensor | None,
) -> objectives.Tensors:
    outputs = model(
        batch, training=dropout_seed is not None, dropout_seed=dropout_seed
    )
    arguments = outputs["logits"], batch["label_ids"]
    return {
        "classification_loss": objectives.cross_entropy(*arguments),
        "accuracy": objectives.hits(*arguments),
    }


# Of classifiers, and of multiple choice.
OBJECTIVE = objectives.Objective(
    losses={"classification_loss": 1.0},
    metrics=("accuracy",),
    weights=_weights,
    values=_values,
)


def _squared_error(
    model: AlbertClassifier,
    batch: objectives.Batch,
    dropout_seed: tf.Tensor | None,
) -> objectives.Tensors:
    outputs = model(
        batch, training=dropout_seed is not None, dropout_seed=dropout_seed
    )
    number = tf.cast(outputs["logits"][:, 0], tf.float32)
    return {"regression_loss": tf.square(number - batch["label_ids"])}


# `label_ids` are float32 [B], on their own scale.
REGRESSION_OBJECTIVE = objectives.Objective(
    losses={"regression_loss": 1.0},
    metrics=(),
    weights=lambda b: {"regression_loss": objectives.real_examples(b)},
    values=_squared_error,
)
