"""What is added to attention scores: for padding, and for distance.

Without a bias for the distance, a model must find out from its position
embeddings which tokens are neighbours, and small models spend a good part of a
short pretraining on that (docs/recipes.md).
"""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf
import tf_keras as keras

from albert_tf.model.config import AlbertConfig
from albert_tf.model.network import layers

# Added to the scores of padded keys. Finite, so that a row without any real key
# still gives numbers. Original release, modeling.attention.
MASK_BIAS = -10000.0
# What the steepest heads subtract for a token next to this one.
_MAX_SLOPE = 0.5
# How much steeper a pair of heads is than the next pair.
_SLOPE_RATIO = 4.0
# Of T5: buckets of distances, and the distance from which on they are the last.
NUM_BUCKETS, MAX_DISTANCE = 32, 128
# How much steeper a head's slope is in the direction it does not look in.
_BACKWARD_FACTOR = 4.0


def make(
    config: AlbertConfig,
    inputs: Mapping[str, tf.Tensor],
    table: tf.Variable | None = None,
    *,
    is_causal: bool = False,
) -> list[tf.Tensor]:
    """Return the biases of the attention scores [B, N, S, T] of all layers.

    Args:
        inputs: `input_mask` int32 [B, T], or [B, S, T]; `segment_ids` [B, S];
            perhaps `position_ids`.
        table: With buckets: float32 [`NUM_BUCKETS`, N].
        is_causal: Whether nothing is attended to that comes later.

    Returns:
        float32 [B, 1, 1, T] or [B, 1, S, T] of the mask. With alibi or buckets
        another one. With relative two others, from which each layer makes one
        of its own, see `relative`: the offsets of positions, and whether
        segments are the same.
    """
    # Not [:, None, None, :]: LiteRT has no operation for that.
    mask = tf.expand_dims(inputs["input_mask"], 1)
    if mask.shape.rank != 4:
        mask = tf.expand_dims(mask, 1)
    biases = [(1.0 - tf.cast(mask, tf.float32)) * MASK_BIAS]
    if config.position_bias == "alibi":
        heads, length = config.num_attention_heads, tf.shape(mask)[-1]
        biases.append(alibi_bias(heads, length, inputs.get("position_ids")))
    positions = inputs.get("position_ids", tf.range(tf.shape(mask)[-1]))
    if config.position_bias == "buckets":
        biases.append(
            bucket_bias(tf.convert_to_tensor(table), positions, is_causal)
        )
    if config.position_bias == "relative":
        positions = tf.cast(tf.expand_dims(positions, -2), tf.float32)
        offsets = tf.expand_dims(positions, -1) - tf.expand_dims(positions, -2)
        biases.append(offsets)  # [1, S, S] or [B, 1, S, S].
        segments = inputs["segment_ids"][:, None]
        same = tf.equal(
            tf.expand_dims(segments, 3), tf.expand_dims(segments, 2)
        )
        biases.append(tf.cast(same, tf.float32))
    return biases


def add_bucket_table(
    model: keras.Model, config: AlbertConfig, scope: str
) -> tf.Variable | None:
    """Create the table of `bucket_bias` in a model whose config has buckets."""
    if config.position_bias != "buckets":
        return None
    return model.add_weight(
        name=f"{scope}/relative_attention_bias",
        shape=[NUM_BUCKETS, config.num_attention_heads],
        initializer=layers.truncated_normal(config.initializer_range),
    )


def bucket_bias(
    table: tf.Tensor, positions: tf.Tensor, is_causal: bool
) -> tf.Tensor:
    """Return the table's bias for each distance, float32 [..., N, S, S].

    Args:
        table: float32 [`NUM_BUCKETS`, N].
        positions: int32 [S] or [B, S].
    """
    distances = tf.expand_dims(positions, -2) - tf.expand_dims(positions, -1)
    all_distances = np.arange(-MAX_DISTANCE, MAX_DISTANCE + 1)
    bucket_of = tf.constant(bucket_ids(all_distances, is_causal), tf.int32)
    clipped = tf.clip_by_value(distances, -MAX_DISTANCE, MAX_DISTANCE)
    bias = tf.gather(table, tf.gather(bucket_of, clipped + MAX_DISTANCE))
    rank = bias.shape.rank
    return tf.transpose(bias, [*range(rank - 3), rank - 1, rank - 3, rank - 2])


def bucket_ids(distances: np.ndarray, is_causal: bool) -> np.ndarray:
    """Return bucket indices for attended minus attending position.

    Small distances have buckets of their own, larger ones share them by their
    logarithm, from `MAX_DISTANCE` on the last.

    Source: T5, Raffel et al., arXiv 1910.10683, section 2.1; the released
    program's _relative_position_bucket.
    """
    count = NUM_BUCKETS if is_causal else NUM_BUCKETS // 2
    first = np.where(distances > 0, 0 if is_causal else count, 0)
    size = np.maximum(-distances, 0) if is_causal else np.abs(distances)
    exact = count // 2
    ratio = np.maximum(size, 1).astype(np.float32) / np.float32(exact)
    log_share = np.log(ratio) / np.float32(np.log(MAX_DISTANCE / exact))
    large = exact + (log_share * np.float32(count - exact)).astype(np.int64)
    return first + np.where(size < exact, size, np.minimum(large, count - 1))


def alibi_bias(
    heads: int, length: int | tf.Tensor, position_ids: tf.Tensor | None = None
) -> tf.Tensor:
    """Return what is added to attention scores, float32 [N, S, S].

    It falls linearly with the distance and is not trained. Heads come in
    pairs: the first of a pair looks left, where its bias is -slope per token,
    and has -4 slope per token to the right; the second looks right. The slopes
    of the pairs are 1/2, 1/8, 1/32 and so on.

    The first token, [CLS], attends to all tokens without a bias: it stands for
    the whole text.

    Source: Press et al., arXiv 2108.12409 (ALiBi), which is for decoders. That
    heads of an encoder look in one direction is proposed in the discussion of
    its repository; the slopes are ours.

    Args:
        position_ids: int32 [B, S], for rows of several texts: each token with
            position 0 is the first of a text. The result is [B, N, S, S] then.
    """
    positions = tf.range(length)
    # [S, S]: how far the attended token is to the right of the attending one.
    offset = tf.cast(positions - tf.expand_dims(positions, 1), tf.float32)
    left_costs = tf.maximum(-offset, _BACKWARD_FACTOR * offset)
    right_costs = tf.maximum(offset, -_BACKWARD_FACTOR * offset)
    bias = -tf.stack(
        [
            _MAX_SLOPE
            / _SLOPE_RATIO ** (head // 2)
            * (right_costs if head % 2 else left_costs)
            for head in range(heads)
        ]
    )
    if position_ids is None:
        return bias * _is_not_first(positions)
    return bias * tf.expand_dims(_is_not_first(position_ids), 1)


def _is_not_first(positions: tf.Tensor) -> tf.Tensor:
    """Return 0 for position 0, else 1: int32 [..., S] to float [..., S, 1]."""
    return tf.expand_dims(tf.cast(tf.minimum(positions, 1), tf.float32), -1)
