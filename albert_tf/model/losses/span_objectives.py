"""Objectives of heads that mark an answer: SQuAD 1.1 and SQuAD 2.0.

Source: in the original, squad_utils.v1_model_fn_builder and
squad_utils.v2_model_fn_builder.
"""

import tensorflow as tf

from albert_tf.model.losses import cross_entropy, objectives
from albert_tf.model.losses.objectives import Batch, Tensors


def _at(log_probs: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
    """Return -log_probs [B, S] at positions [B]."""
    return -tf.gather(log_probs, positions, batch_dims=1)


def _v1_values(outputs: Tensors, batch: Batch) -> Tensors:
    return {
        f"{edge}_loss": cross_entropy.compute(
            outputs[f"{edge}_logits"], batch[f"{edge}_positions"]
        )
        for edge in ("start", "end")
    }


def _v2_values(outputs: Tensors, batch: Batch) -> Tensors:
    return {
        "start_loss": _at(outputs["start_log_probs"], batch["start_positions"]),
        "end_loss": _at(outputs["end_log_probs"], batch["end_positions"]),
        "answer_loss": tf.nn.sigmoid_cross_entropy_with_logits(
            labels=tf.cast(batch["is_impossible"], tf.float32),
            logits=outputs["cls_logits"],
        ),
    }


V1 = objectives.of_examples({"start_loss": 0.5, "end_loss": 0.5}, _v1_values)
V2 = objectives.of_examples(
    {"start_loss": 0.5, "end_loss": 0.5, "answer_loss": 0.5}, _v2_values
)
