"""The objective of replaced-token detection.

Source: ELECTRA, Clark et al., arXiv 2003.10555, sections 2 and 3.2.
"""

import functools

import tensorflow as tf

from albert_tf.model import model_options, seeds
from albert_tf.model.heads import replaced_tokens
from albert_tf.model.losses import (
    cross_entropy,
    objectives,
    pretraining_objective,
    token_replacement,
)

# Separates the generator's dropout from the rest.
_GENERATOR_STREAM = 2**29
_METRICS = "replaced_token_accuracy", "replaced_token_share"


def make(
    sentence_objective: str = "sop",
    masked_lm_factor: float = 1.0,
    sentence_factor: float = 1.0,
    replaced_token_factor: float = 50.0,
) -> objectives.Objective:
    """Return the objective that `ReplacedTokenDetector` is trained for.

    `masked_lm_loss` and `masked_lm_accuracy` are the generator's;
    `replaced_token_loss` and `replaced_token_accuracy` the encoder's, over all
    real tokens. `replaced_token_share` is the share of tokens that were
    replaced: an encoder that calls every token original has an accuracy of 1
    minus the share.

    Args:
        replaced_token_factor: λ of ELECTRA, appendix A.
    """
    masked = pretraining_objective.make(
        sentence_objective, masked_lm_factor, sentence_factor
    )
    sentence = model_options.SENTENCE_OBJECTIVES[sentence_objective]
    return objectives.Objective(
        losses={**masked.losses, "replaced_token_loss": replaced_token_factor},
        metrics=(*masked.metrics, *_METRICS),
        sample_weights=functools.partial(_weights, masked),
        values=functools.partial(_values, sentence),
        epsilons=masked.epsilons,
    )


def _weights(
    masked: objectives.Objective, batch: objectives.Batch
) -> objectives.Tensors:
    real = objectives.real_examples(batch)[:, None]  # [B, 1]
    # Rows of several instances have their numbers, 0 for padding.
    tokens = batch.get("instance_ids", batch.get("input_mask")) > 0
    tokens = tf.cast(tokens, tf.float32) * real  # [B, S]
    names = "replaced_token_loss", *_METRICS
    return masked.sample_weights(batch) | dict.fromkeys(names, tokens)


def _values(
    sentence: str,
    model: replaced_tokens.ReplacedTokenDetector,
    batch: objectives.Batch,
    dropout_seed: tf.Tensor | None,
) -> objectives.Tensors:
    """Run the generator, put its words into the text, and run the encoder."""
    batch = pretraining_objective.with_attention_mask(batch)
    generator_seed = None
    if dropout_seed is not None:
        generator_seed = seeds.fold_in(dropout_seed, _GENERATOR_STREAM)
    proposed = objectives.outputs(model.generator, batch, generator_seed)
    word_logits = proposed["masked_lm_logits"]  # [B, P, V]
    found = cross_entropy.loss_and_accuracy(
        "masked_lm", word_logits, batch["masked_lm_ids"]
    )
    ids, replaced = token_replacement.replace(batch, word_logits)
    outputs = objectives.outputs(
        model, {**batch, "input_ids": ids}, dropout_seed
    )
    labels = tf.cast(replaced, tf.float32)
    logits = outputs["replaced_token_logits"]  # [B, S]
    found |= {
        "replaced_token_loss": tf.nn.sigmoid_cross_entropy_with_logits(
            labels, logits
        ),
        "replaced_token_accuracy": tf.cast(
            (logits > 0) == replaced, tf.float32
        ),
        "replaced_token_share": labels,
    }
    return found | pretraining_objective.sentence_values(
        sentence, outputs, batch
    )
