"""The objective of pretraining: masked LM and, usually, two segments.

Source: ALBERT §3.1; in the original, run_pretraining.get_masked_lm_output and
run_pretraining.get_sentence_order_output.
"""

import functools

import tensorflow as tf

from albert_tf.data import layouts
from albert_tf.model import model_options
from albert_tf.model.heads import pretraining
from albert_tf.model.losses import cross_entropy, objectives


def make(
    sentence_objective: str = "sop",
    masked_lm_factor: float = 1.0,
    sentence_factor: float = 1.0,
) -> objectives.Objective:
    """Return the objective that `AlbertPretrainer` is trained for.

    Args:
        sentence_objective: sop (label 1: segments are swapped), nsp (label 1:
            the second segment is from another document) or none (masked LM
            only).
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
        sample_weights=functools.partial(_weights, sentence),
        values=functools.partial(_values, sentence),
        # Original release, run_pretraining.get_masked_lm_output.
        epsilons={"masked_lm_loss": 1e-5},
    )


def _weights(sentence: str, batch: objectives.Batch) -> objectives.Tensors:
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


def _values(
    sentence: str,
    model: pretraining.AlbertPretrainer,
    batch: objectives.Batch,
    dropout_seed: tf.Tensor | None,
) -> objectives.Tensors:
    batch = with_attention_mask(batch)
    outputs = objectives.outputs(model, batch, dropout_seed)
    found = cross_entropy.loss_and_accuracy(
        "masked_lm", outputs["masked_lm_logits"], batch["masked_lm_ids"]
    )
    return found | sentence_values(sentence, outputs, batch)


def with_attention_mask(batch: objectives.Batch) -> objectives.Batch:
    """Return a batch whose `input_mask` says what each token may attend to.

    In rows of several instances each attends only to itself: the mask is int32
    [B, S, S] then. Records have no such mask: it would be larger than they are.
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
    return cross_entropy.loss_and_accuracy(sentence, logits, labels)


OBJECTIVE = make()
