"""How far the states of a student's tokens are from those of its teacher.

Both read the same tokens. The teacher is asked in every update: its states of a
text are some hundred times as large as the text's vector, too large to keep.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from albert_tf.model.execution import plain
from albert_tf.model.losses import objectives

_MAX_HEADS = 12
_NO_TOKEN = -1e9  # Added to the products with padding.


@dataclasses.dataclass(frozen=True)
class EncodedBatch:
    """A model with its head, and its encoder's outputs for a batch."""

    model: Any
    outputs: Mapping[str, Any]


def _hidden_loss(
    student: EncodedBatch, teacher: EncodedBatch, mask: tf.Tensor
) -> tf.Tensor:
    """Return 1 minus the cosine of the last layer's states.

    The student's get its projection first, as its vectors do.

    Source: Sanh et al., arXiv 1910.01108, section 3.
    """
    states = [
        tf.math.l2_normalize(
            encoded.model.project(encoded.outputs["sequence_output"]), -1
        )
        for encoded in (student, teacher)
    ]
    distances = 1.0 - tf.reduce_sum(states[0] * states[1], -1)
    return objectives.token_mean(distances, mask)


def _relation_loss(
    student: EncodedBatch, teacher: EncodedBatch, mask: tf.Tensor
) -> tf.Tensor:
    """Return the divergence from the teacher's relations in the last layer.

    Those of queries, keys and values each are softmax(XXᵀ/√D), in as many heads
    as divide both widths, at most `_MAX_HEADS`.

    Source: Wang et al., arXiv 2012.15828, section 3.1.
    """
    both = student, teacher
    widths = math.gcd(
        *(encoded.model.encoder.config.hidden_size for encoded in both)
    )
    heads = max(n for n in range(1, _MAX_HEADS + 1) if widths % n == 0)
    bias = (1.0 - mask)[:, None, None] * _NO_TOKEN
    pairs = zip(*(_log_relations(x, heads, bias) for x in both), strict=True)
    divergences = [
        tf.reduce_sum(
            tf.exp(teacher_log_probs) * (teacher_log_probs - student_log_probs),
            -1,
        )
        for student_log_probs, teacher_log_probs in pairs
    ]
    token_losses = tf.add_n(divergences) / len(divergences)  # [B, N, S]
    return objectives.token_mean(tf.reduce_mean(token_losses, 1), mask)


# By name: from student, teacher and mask, float32 [B, S], to float32 [B].
LOSSES: Mapping[
    str, Callable[[EncodedBatch, EncodedBatch, tf.Tensor], tf.Tensor]
] = {"hidden_loss": _hidden_loss, "relation_loss": _relation_loss}


def _log_relations(
    encoded: EncodedBatch, heads: int, bias: tf.Tensor
) -> list[tf.Tensor]:
    """Return those of queries, keys and values, float32 [B, N, S, S]."""
    encoder, outputs = encoded.model.encoder, encoded.outputs
    attention = encoder.transformer_layers[-1].attention
    x = tf.cast(outputs["embedding_output"], encoder.precision)
    if encoder.embedding_mapping is not None:
        x = encoder.embedding_mapping(x)
    # What the last layer reads.
    x = [x, *outputs["all_encoder_layers"]][-2]
    split = functools.partial(plain.split_heads, heads=heads, like=x)
    relations = []
    for layer in (attention.query, attention.key, attention.value):
        vectors = tf.cast(split(layer(x)), tf.float32)
        scores = tf.matmul(vectors, vectors, transpose_b=True)
        scores /= tf.sqrt(float(vectors.shape[-1]))
        relations.append(tf.nn.log_softmax(scores + bias))
    return relations
