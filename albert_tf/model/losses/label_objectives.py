"""Objectives of classifiers, regressions and multiple choice."""

import tensorflow as tf
import tf_keras as keras

from albert_tf.model.losses import cross_entropy, objectives


def _class_weights(batch: objectives.Batch) -> objectives.Tensors:
    real = objectives.real_examples(batch)
    return {"classification_loss": real, "accuracy": real}


def _class_values(
    model: keras.Model,
    batch: objectives.Batch,
    dropout_seed: tf.Tensor | None,
) -> objectives.Tensors:
    logits = objectives.outputs(model, batch, dropout_seed)["logits"]
    labels = batch["label_ids"]
    return {
        "classification_loss": cross_entropy.compute(logits, labels),
        "accuracy": cross_entropy.correct(logits, labels),
    }


# Of classifiers, and of multiple choice.
CLASSIFICATION = objectives.Objective(
    losses={"classification_loss": 1.0},
    metrics=("accuracy",),
    sample_weights=_class_weights,
    values=_class_values,
)


def _squared_error(
    model: keras.Model,
    batch: objectives.Batch,
    dropout_seed: tf.Tensor | None,
) -> objectives.Tensors:
    logits = objectives.outputs(model, batch, dropout_seed)["logits"]
    number = tf.cast(logits[:, 0], tf.float32)
    return {"regression_loss": tf.square(number - batch["label_ids"])}


# `label_ids` are float32 [B], on their own scale.
REGRESSION = objectives.Objective(
    losses={"regression_loss": 1.0},
    metrics=(),
    sample_weights=lambda batch: {
        "regression_loss": objectives.real_examples(batch)
    },
    values=_squared_error,
)
