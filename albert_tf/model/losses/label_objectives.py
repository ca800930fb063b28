"""Objectives of classifiers, of tokens too, regressions, multiple choice."""

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


def _token_weights(batch: objectives.Batch) -> objectives.Tensors:
    labels = tf.cast(batch["label_ids"] > 0, tf.float32)
    learnt = labels * objectives.real_examples(batch)[:, None]
    return {"classification_loss": learnt, "accuracy": learnt}


def _token_values(
    model: keras.Model,
    batch: objectives.Batch,
    dropout_seed: tf.Tensor | None,
) -> objectives.Tensors:
    logits = objectives.outputs(model, batch, dropout_seed)["logits"]
    labels = tf.maximum(batch["label_ids"] - 1, 0)
    return {
        "classification_loss": cross_entropy.compute(logits, labels),
        "accuracy": cross_entropy.correct(logits, labels),
    }


# `label_ids` are int32 [B, S], from 1; tokens with 0 do not count.
TOKENS = objectives.Objective(
    losses={"classification_loss": 1.0},
    metrics=("accuracy",),
    sample_weights=_token_weights,
    values=_token_values,
)
