"""Objectives of heads that mark an answer: SQuAD 1.1 and SQuAD 2.0.

Source: in the original, squad_utils.v1_model_fn_builder and
squad_utils.v2_model_fn_builder.
"""

from collections.abc import Callable

import tensorflow as tf

from albert_tf.model.losses import cross_entropy, objectives


def _at(log_probs: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
    """Return -log_probs [B, S] at positions [B]."""
    return -tf.gather(log_probs, positions, batch_dims=1)


def _v1_values(
    outputs: objectives.Tensors, batch: objectives.Batch
) -> objectives.Tensors:
    return {
        f"{edge}_loss": cross_entropy.compute(
            outputs[f"{edge}_logits"], batch[f"{edge}_positions"]
        )
        for edge in ("start", "end")
    }


def _v2_values(
    outputs: objectives.Tensors, batch: objectives.Batch
) -> objectives.Tensors:
    return {
        "start_loss": _at(outputs["start_log_probs"], batch["start_positions"]),
        "end_loss": _at(outputs["end_log_probs"], batch["end_positions"]),
        "answer_loss": tf.nn.sigmoid_cross_entropy_with_logits(
            labels=tf.cast(batch["is_impossible"], tf.float32),
            logits=outputs["cls_logits"],
        ),
    }


def _make(
    names: tuple[str, ...],
    values: Callable[
        [objectives.Tensors, objectives.Batch], objectives.Tensors
    ],
) -> objectives.Objective:
    return objectives.Objective(
        losses=dict.fromkeys(names, 0.5),
        metrics=(),
        sample_weights=lambda b: dict.fromkeys(
            names, objectives.real_examples(b)
        ),
        of_outputs=values,
    )


V1 = _make(("start_loss", "end_loss"), _v1_values)
V2 = _make(("start_loss", "end_loss", "answer_loss"), _v2_values)
