"""The objective of pretraining: masked LM and, usually, two segments.

Source: ALBERT §3.1; in the original, run_pretraining.get_masked_lm_output and
run_pretraining.get_sentence_order_output.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from albert_tf.data import arrangements, layouts, marks
from albert_tf.model.losses import cross_entropy, objectives
from albert_tf.model.losses.objectives import Batch, Tensors


def make(
    sentence_objective: str = "sop",
    masked_lm_factor: float = 1.0,
    sentence_factor: float = 1.0,
    token_objective: str = "none",
    token_factor: float = 1.0,
    extra_terms: Sequence[objectives.LossTerm] = (),
) -> objectives.Objective:
    """Return the objective of `AlbertPretrainer` and `PermutationPretrainer`.

    Args:
        sentence_objective: Tasks of `arrangements`, with commas, or none
            (masked LM only).
        token_objective: The same for tasks about tokens.
        extra_terms: Further losses.
    """
    masked_words = objectives.LossTerm(
        "masked_lm",
        masked_lm_factor,
        lambda batch: (
            batch["masked_lm_weights"]
            * objectives.real_examples(batch)[:, None]
        ),
        lambda outputs, batch: cross_entropy.loss_and_accuracy(
            "masked_lm", outputs["masked_lm_logits"], batch["masked_lm_ids"]
        ),
        # Original release, run_pretraining.get_masked_lm_output.
        epsilon=1e-5,
    )
    tasks = arrangements.parse(sentence_objective)
    token_tasks = arrangements.parse_tokens(token_objective)
    terms = [
        masked_words,
        *(
            _sentence_term(task, sentence_factor, index)
            for index, task in enumerate(tasks)
        ),
        *(_token_term(task, token_factor) for task in token_tasks),
        *extra_terms,
    ]
    return objectives.combine(terms, _forward)


def _token_term(name: str, factor: float) -> objectives.LossTerm:
    """Return the loss of a label for each piece that starts a word.

    Masked pieces do not count.
    """

    def has_mark(batch: Batch, mark: int) -> tf.Tensor:
        return tf.bitwise.bitwise_and(batch["marks"], mark) > 0  # [B, S]

    def weights(batch: Batch) -> tf.Tensor:
        real = objectives.real_examples(batch)[:, None]
        return real * tf.cast(has_mark(batch, marks.WORD), tf.float32)

    def values(outputs: Tensors, batch: Batch) -> Tensors:
        labels = has_mark(batch, arrangements.TOKEN_TASKS[name])
        return cross_entropy.loss_and_accuracy(
            name, outputs[f"{name}_logits"], tf.cast(labels, tf.int32)
        )

    return objectives.LossTerm(name, factor, weights, values)


def _sentence_term(key: str, factor: float, index: int) -> objectives.LossTerm:
    """Return the loss of the label of each example's segments.

    Of several tasks an example has one, whose index is `sentence_task`.
    """
    task = arrangements.ARRANGEMENTS[key]
    head = "sentence_order" if key in arrangements.INSTANCE_TASKS else task.name

    def weights(batch: Batch) -> tf.Tensor:
        # [B, 1], or [B, K] for rows of several instances.
        has_label = batch["next_sentence_labels"] != layouts.NO_LABEL
        if "sentence_task" in batch:
            has_label &= batch["sentence_task"] == index
        real = objectives.real_examples(batch)[:, None]
        return real * tf.cast(has_label, tf.float32)

    def values(outputs: Tensors, batch: Batch) -> Tensors:
        # The records keep BERT's name, whatever the labels mean.
        labels = batch["next_sentence_labels"]
        # Any class will do where there is no label: its weight is 0.
        labels = tf.where(weights(batch) > 0, labels, 0)
        logits = outputs[f"{head}_logits"]
        logits = tf.reshape(logits, [-1, labels.shape[1], logits.shape[-1]])
        return cross_entropy.loss_and_accuracy(task.name, logits, labels)

    return objectives.LossTerm(task.name, factor, weights, values)


def _forward(
    model: Any, batch: Batch, dropout_seed: tf.Tensor | None
) -> tuple[Tensors, Batch]:
    batch = with_attention_mask(batch)
    return objectives.run(model, batch, dropout_seed), batch


def with_attention_mask(batch: Batch) -> Batch:
    """Return a batch whose `input_mask` says what each token may attend to.

    In rows of several instances each attends only to itself: the mask is int32
    [B, S, S] then. Records have no such mask: it would be larger than they are.
    """
    ids = batch.get("instance_ids")
    if ids is None:
        return batch
    same = ids[:, :, None] == ids[:, None]
    return {**batch, "input_mask": tf.cast(same, tf.int32)}
