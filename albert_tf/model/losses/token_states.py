"""How far the states of a student's tokens are from those of its teacher.

Both read the same tokens. The teacher is asked in every update: its states of a
text are some hundred times as large as the text's vector, too large to keep.
"""

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf
import tf_keras as keras

from albert_tf.model.config import AlbertConfig
from albert_tf.model.execution import plain
from albert_tf.model.losses import distillation, objectives

_HEADS = 12
_NO_TOKEN = -1e9  # Added to the products with padding.
Teacher = Callable[[], keras.Model]


def hidden(teacher: Teacher, weight: float) -> distillation.TokenLoss:
    """Return the loss of the last layer's states: 1 minus their cosine.

    The student's get its projection first, as its vectors do.

    Source: Sanh et al., arXiv 1910.01108, section 3.
    """

    def values(
        model: Any, encoded: objectives.Tensors, batch: objectives.Batch
    ) -> tf.Tensor:
        wanted = _asked(teacher(), batch)["sequence_output"]
        states = [
            tf.math.l2_normalize(one.project(x), -1)
            for one, x in (
                (model, encoded["sequence_output"]),
                (teacher(), wanted),
            )
        ]
        distances = 1.0 - tf.reduce_sum(states[0] * states[1], -1)
        return _mean(distances, batch["input_mask"])

    return distillation.TokenLoss("hidden_loss", weight, values)


def relations(teacher: Teacher, weight: float) -> distillation.TokenLoss:
    """Return the loss of the relations in the last layer.

    Those of queries, keys and values each are softmax(XXᵀ/√D), in as many heads
    as divide both widths, at most `_HEADS`; the loss is the divergence from the
    teacher's.

    Source: Wang et al., arXiv 2012.15828, section 3.1.
    """

    def values(
        model: Any, encoded: objectives.Tensors, batch: objectives.Batch
    ) -> tf.Tensor:
        asked = teacher()
        heads = _common_heads(model.encoder.config, asked.encoder.config)
        mask = tf.cast(batch["input_mask"], tf.float32)
        bias = (1.0 - mask)[:, None, None] * _NO_TOKEN
        pairs = zip(
            _relations(model.encoder, encoded, heads, bias),
            _relations(asked.encoder, _asked(asked, batch), heads, bias),
            strict=True,
        )
        divergences = [
            tf.reduce_sum(tf.exp(wanted) * (wanted - found), -1)
            for found, wanted in pairs
        ]
        by_token = tf.add_n(divergences) / len(divergences)  # [B, N, S]
        return _mean(tf.reduce_mean(by_token, 1), batch["input_mask"])

    return distillation.TokenLoss("relation_loss", weight, values)


def _common_heads(config: AlbertConfig, other: AlbertConfig) -> int:
    widths = math.gcd(config.hidden_size, other.hidden_size)
    return max(n for n in range(1, _HEADS + 1) if widths % n == 0)


def _asked(teacher: Any, batch: objectives.Batch) -> Mapping[str, Any]:
    encoded: Mapping[str, Any] = teacher.encode(batch, False, None)
    return tf.nest.map_structure(tf.stop_gradient, encoded)


def _relations(
    encoder: Any, encoded: Mapping[str, Any], heads: int, bias: tf.Tensor
) -> list[tf.Tensor]:
    """Return log-relations of queries, keys, values, float32 [B, N, S, S]."""
    attention = encoder.transformer_layers[-1].attention
    x = tf.cast(encoded["embedding_output"], encoder.precision)
    if encoder.embedding_mapping is not None:
        x = encoder.embedding_mapping(x)
    # What the last layer reads.
    x = [x, *encoded["all_encoder_layers"]][-2]
    split = functools.partial(plain.split_heads, heads=heads, like=x)
    found = []
    for layer in (attention.query, attention.key, attention.value):
        vectors = tf.cast(split(layer(x)), tf.float32)
        scores = tf.matmul(vectors, vectors, transpose_b=True)
        scores /= tf.sqrt(float(vectors.shape[-1]))
        found.append(tf.nn.log_softmax(scores + bias))
    return found


def _mean(values: tf.Tensor, input_mask: tf.Tensor) -> tf.Tensor:
    """Return the mean over real tokens, float32 [B], of values [B, S]."""
    mask = tf.cast(input_mask, tf.float32)
    sums = tf.reduce_sum(values * mask, -1)
    return tf.math.divide_no_nan(sums, tf.reduce_sum(mask, -1))
