"""The pieces that a generator puts into a text, drawn from its logits."""

import functools

import tensorflow as tf

from albert_tf.model import model_inputs
from albert_tf.model.losses.objectives import Batch


def replace(batch: Batch, logits: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Replace masked tokens by pieces drawn from the generator's logits.

    Logits are float [B, P, V]. No gradient flows through the draw (ELECTRA §2).
    In evaluation it follows from the text alone, in training from the seed,
    too. Returned are ids int32 [B, S], and where they are not the original
    ones, bool [B, S].
    """
    uniforms = _uniform(
        batch.get(model_inputs.SEED, tf.constant([0, 0])),
        batch["input_ids"],
        batch["masked_lm_positions"],
    )
    pieces = _sample(tf.stop_gradient(logits), uniforms)
    scatter = functools.partial(
        _scatter,
        batch["input_ids"],
        batch["masked_lm_positions"],
        batch["masked_lm_weights"] > 0,
    )
    ids, originals = scatter(pieces), scatter(batch["masked_lm_ids"])
    return ids, ids != originals


def _scatter(
    ids: tf.Tensor, positions: tf.Tensor, is_real: tf.Tensor, values: tf.Tensor
) -> tf.Tensor:
    """Return ids [B, S] with `values` [B, P] at `positions` [B, P]."""
    length = tf.shape(ids)[1]
    # Padding of the positions goes to a column of its own, which is cut off.
    columns = tf.where(is_real, positions, length)
    rows = tf.range(tf.shape(ids)[0])[:, None] + tf.zeros_like(columns)
    padded = tf.pad(ids, [[0, 0], [0, 1]])
    indices = tf.stack([rows, columns], -1)
    return tf.tensor_scatter_nd_update(padded, indices, values)[:, :length]


def _sample(logits: tf.Tensor, uniforms: tf.Tensor) -> tf.Tensor:
    """Draw from softmax(logits): [B, P, V] and uniform [B, P] to int32 [B, P].

    The first class up to which the probabilities add up to more than the
    number.
    """
    total = tf.cumsum(tf.nn.softmax(logits), -1)
    thresholds = uniforms[..., None] * total[..., -1:]
    num_passed = tf.reduce_sum(tf.cast(total <= thresholds, tf.int32), -1)
    return tf.minimum(num_passed, tf.shape(logits)[-1] - 1)


def _uniform(
    seed: tf.Tensor, ids: tf.Tensor, positions: tf.Tensor
) -> tf.Tensor:
    """Return a number in [0, 1) for each position of each text, float32 [B, P].

    It follows from seed, text and position alone, so that it does not depend on
    how examples are divided into batches. Bits are mixed as in MurmurHash3.
    The seed is int32 [2], ids are int32 [B, S], positions int32 [B, P].
    """
    indices = tf.range(tf.shape(ids)[1])
    hashes = _mix(tf.cast(ids, tf.uint32) + _mix(tf.cast(indices, tf.uint32)))
    text_hash = tf.reduce_sum(tf.cast(hashes, tf.int64), 1, keepdims=True)
    low = tf.bitwise.bitwise_and(text_hash, 0xFFFFFFFF)
    key = _mix(tf.cast(low, tf.uint32) + tf.cast(seed[0], tf.uint32))
    key = _mix(key + tf.cast(seed[1], tf.uint32))  # [B, 1]
    bits = _mix(key + _mix(tf.cast(positions, tf.uint32)))
    # 24 bits, so that float32 holds them exactly.
    top = tf.cast(tf.bitwise.right_shift(bits, 8), tf.float32)
    return top * 2.0**-24


def _mix(x: tf.Tensor) -> tf.Tensor:
    """Mix the bits of each number, uint32 [...].

    A permutation in which each input bit changes about half of the output bits.
    """
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        x = tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, shift))
        x *= tf.constant(factor, tf.uint32)
    return x
