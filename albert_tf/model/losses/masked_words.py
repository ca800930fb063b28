"""Masked pieces of a batch from which something else is learned, too.

Source: Devlin et al., arXiv 1810.04805 (BERT), section 3.1.
"""

from collections.abc import Mapping

import tensorflow as tf

from albert_tf.model import seeds
from albert_tf.model.heads import pretraining
from albert_tf.model.losses import cross_entropy, objectives
from albert_tf.text import tokenization

_SHARE = 0.15  # Of the pieces of a text; at least one is predicted.
_MASK, _RANDOM = 0.8, 0.9  # Shares of [MASK], and of this and other pieces.
# Separates draws and dropout from those of the batch without masks.
_STREAM = 2**28


def loss(
    model: pretraining.AlbertPretrainer,
    inputs: Mapping[str, tf.Tensor],
    dropout_seed: tf.Tensor | None,
    tokenizer: tokenization.AnyTokenizer,
) -> tf.Tensor:
    """Return the mean cross-entropy of predicted pieces, float32 [B].

    It is 0 for a text without pieces.

    Args:
        model: The encoder with its masked LM head.
        inputs: Those of the encoder, int32 [B, S].
        dropout_seed: int32 [2]; the masks follow from it, too.
    """
    seed = seeds.fold_in(dropout_seed, _STREAM)
    positions, weights = choose(inputs, seeds.fold_in(seed, 1), tokenizer)
    ids = inputs["input_ids"]
    labels = tf.gather(ids, positions, batch_dims=1)
    shape = tf.shape(labels)
    draws = tf.random.stateless_uniform(shape, seeds.fold_in(seed, 2))
    others = tf.random.stateless_uniform(
        shape, seeds.fold_in(seed, 3), 0, tokenizer.vocab_size, tf.int32
    )
    pieces = tf.where(draws < _RANDOM, others, labels)
    pieces = tf.where(draws < _MASK, tokenizer.mask_id, pieces)
    pieces = tf.where(weights > 0, pieces, labels)
    rows = tf.broadcast_to(tf.range(shape[0])[:, None], shape)
    places = tf.stack([rows, positions], -1)
    masked = {
        "input_ids": tf.tensor_scatter_nd_update(ids, places, pieces),
        "masked_lm_positions": positions,
    }
    outputs = model({**inputs, **masked}, training=True, dropout_seed=seed)
    losses = cross_entropy.compute(outputs["masked_lm_logits"], labels)
    return objectives.token_mean(losses, weights)


def count(length: int) -> int:
    """Return how many pieces of a text of so many tokens may be predicted."""
    return max(1, round(_SHARE * length))


def choose(
    inputs: Mapping[str, tf.Tensor],
    seed: tf.Tensor,
    tokenizer: tokenization.AnyTokenizer,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return positions int32 [B, P] of pieces to predict, and weights float32.

    A weight is 0 where a text has fewer.
    """
    ids = inputs["input_ids"]
    is_piece = inputs["input_mask"] > 0
    for special in tokenizer.cls_id, tokenizer.sep_id:
        is_piece &= ids != special
    numbers = tf.reduce_sum(tf.cast(is_piece, tf.float32), -1)
    counts = tf.minimum(numbers, tf.maximum(1.0, tf.round(_SHARE * numbers)))
    length = tf.cast(tf.shape(ids)[1], tf.float32)
    most = tf.cast(tf.maximum(1.0, tf.round(_SHARE * length)), tf.int32)
    draws = tf.random.stateless_uniform(tf.shape(ids), seed)
    positions = tf.math.top_k(tf.where(is_piece, draws, -1.0), most).indices
    return positions, tf.sequence_mask(counts, most, tf.float32)
