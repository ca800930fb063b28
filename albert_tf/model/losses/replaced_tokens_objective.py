"""The objective of replaced-token detection.

Source: ELECTRA, Clark et al., arXiv 2003.10555, sections 2 and 3.2.
"""

import dataclasses
from typing import Any

import tensorflow as tf

from albert_tf.model import seeds
from albert_tf.model.heads import replaced_tokens
from albert_tf.model.losses import (
    objectives,
    pretraining_objective,
    token_replacement,
)
from albert_tf.model.losses.objectives import Batch, Tensors

# Separates the generator's dropout from the rest.
_GENERATOR_STREAM = 2**29


def make(
    replaced_token_factor: float = 50.0, **options: Any
) -> objectives.Objective:
    """Return the objective that `ReplacedTokenDetector` is trained for.

    `masked_lm_loss` and `masked_lm_accuracy` are the generator's;
    `replaced_token_loss` and `replaced_token_accuracy` those of the encoder
    (ELECTRA's discriminator) over all tokens but padding.
    `replaced_token_share` is the rate of replaced tokens: an encoder that calls
    every token original has an accuracy of 1 minus this rate.

    Args:
        replaced_token_factor: λ of ELECTRA, appendix A.
        options: See `pretraining_objective.make`.
    """
    replaced = objectives.LossTerm(
        "replaced_token",
        replaced_token_factor,
        _non_padding_weights,
        _sample_values,
        metrics=("accuracy", "share"),
    )
    objective = pretraining_objective.make(**options, extra_terms=[replaced])
    return dataclasses.replace(objective, forward=_forward)


def _non_padding_weights(batch: Batch) -> tf.Tensor:
    """Return 1 for tokens and 0 for padding, float32 [B, S]."""
    # In packed rows padding has instance id 0.
    tokens = batch.get("instance_ids", batch.get("input_mask")) > 0
    return (
        tf.cast(tokens, tf.float32) * objectives.real_examples(batch)[:, None]
    )


def _sample_values(outputs: Tensors, batch: Batch) -> Tensors:
    """Return the value of each token, float32 [B, S]; see `make`."""
    replaced = batch["replaced"]
    labels = tf.cast(replaced, tf.float32)
    logits = outputs["replaced_token_logits"]  # [B, S]
    return {
        "replaced_token_loss": tf.nn.sigmoid_cross_entropy_with_logits(
            labels, logits
        ),
        "replaced_token_accuracy": tf.cast(
            (logits > 0) == replaced, tf.float32
        ),
        "replaced_token_share": labels,
    }


def _forward(
    model: replaced_tokens.ReplacedTokenDetector,
    batch: Batch,
    dropout_seed: tf.Tensor | None,
) -> tuple[Tensors, Batch]:
    """Run the generator, put its words into the text, and run the encoder.

    The batch that is returned has `replaced`, bool [B, S].
    """
    batch = pretraining_objective.with_attention_mask(batch)
    generator_seed = None
    if dropout_seed is not None:
        generator_seed = seeds.fold_in(dropout_seed, _GENERATOR_STREAM)
    proposed = objectives.run(model.generator, batch, generator_seed)
    word_logits = proposed["masked_lm_logits"]  # [B, P, V]
    ids, replaced = token_replacement.replace(batch, word_logits)
    outputs = objectives.run(model, {**batch, "input_ids": ids}, dropout_seed)
    outputs["masked_lm_logits"] = word_logits
    return outputs, {**batch, "replaced": replaced}
