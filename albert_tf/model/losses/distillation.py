"""Distillation: objectives of a student that learns a teacher's outputs.

A batch holds the teacher's outputs as `teacher_NAME`, for each NAME of the
student's outputs that are learned, or `teacher_scores`.

Source: Hinton et al., arXiv 1503.02531, section 2; of vectors Reimers and
Gurevych, arXiv 2004.09813, and Zhang et al., arXiv 2412.19048 (Jasper).
"""

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import tensorflow as tf

from albert_tf.data import layouts
from albert_tf.model.losses import (
    embedding_objectives,
    masked_words,
    objectives,
    token_states,
)
from albert_tf.model.losses.objectives import Batch, Tensors

VECTOR = embedding_objectives.VECTOR
SCORES = "scores"  # Of a text with others, by a model that reads both.
# Outputs that are logits of classes or choices, of tokens, and of one label.
_CLASS_OUTPUT = "logits"
_BINARY_OUTPUT = "cls_logits"
SOFT = (_CLASS_OUTPUT, *layouts.TOKEN_OUTPUTS, _BINARY_OUTPUT)
_LOSS = "teacher_loss"
_MASKED_LOSS = "masked_words_loss"
# Of a token that cannot be the answer; e to this power is 0.
MASKED = -1e9
# How far two similarities are to be apart, and what counts as a tie.
_MARGIN, _TIE = 0.015, 1e-6


def soft_labels(
    hard: objectives.Objective,
    names: Collection[str],
    weight: float,
    temperature: float,
) -> objectives.Objective:
    """Return the objective that learns from labels and from a teacher.

    Args:
        hard: The objective of the labels.
        names: The outputs to learn, of `SOFT`.
        weight: Share of the teacher in the loss; that of the labels is the
            rest.
        temperature: What logits are divided by before both softmaxes. The loss
            is multiplied by its square, as in the source, so that its
            gradients keep their size. A regression has none.
    """

    def loss(outputs: Tensors, batch: Batch) -> tf.Tensor:
        losses = [
            _divergence(name, outputs[name], batch, temperature)
            for name in names
        ]
        return tf.add_n(losses) / len(losses)

    return _beside(hard, weight, loss)


def margins(
    hard: objectives.Objective,
    weight: float,
    temperature: float,
    prefix_sizes: Sequence[int] = (),
) -> objectives.Objective:
    """Return the objective that learns triplets and a teacher's margins.

    The loss is the squared difference of two margins, the score of the second
    text less that of the third one. A student's score is the cosine divided by
    the temperature, as in `hard`. The mean over vectors and prefixes counts.

    Source: Hofstätter et al., arXiv 2010.02666, section 3.1 (MarginMSE).
    """

    def loss(outputs: Tensors, batch: Batch) -> tf.Tensor:
        vectors = outputs[VECTOR]
        scores = batch[f"{layouts.TEACHER}{SCORES}"]
        losses = []
        for size in (*prefix_sizes, vectors.shape[-1]):
            prefix = tf.math.l2_normalize(vectors[..., :size], -1)
            cosines = tf.reduce_sum(prefix[:, :1] * prefix[:, 1:], -1)
            gaps = cosines / temperature - scores
            losses.append(tf.square(gaps[:, 0] - gaps[:, 1]))
        return tf.add_n(losses) / len(losses)

    return _beside(hard, weight, loss)


def _beside(
    hard: objectives.Objective,
    weight: float,
    loss: Callable[[Tensors, Batch], tf.Tensor],
) -> objectives.Objective:
    """Return the objective of labels and of a teacher's loss, float32 [B]."""

    def sample_values(outputs: Tensors, batch: Batch) -> Tensors:
        values = hard.sample_values(outputs, batch)
        return {**values, _LOSS: loss(outputs, batch)}

    def weights(batch: Batch) -> Tensors:
        real = objectives.real_examples(batch)
        return {**hard.sample_weights(batch), _LOSS: real}

    losses = {name: f * (1.0 - weight) for name, f in hard.losses.items()}
    return dataclasses.replace(
        hard,
        losses={**losses, _LOSS: weight},
        sample_weights=weights,
        sample_values=sample_values,
        forward=_forward,
    )


def _forward(
    model: Any, batch: Batch, dropout_seed: tf.Tensor | None
) -> tuple[Tensors, Batch]:
    """Run a model; it does not know what the teacher said."""
    inputs = without_teacher(batch)
    return objectives.run(model, inputs, dropout_seed), batch


def without_teacher(batch: Batch) -> dict[str, tf.Tensor]:
    """Return what a batch has beside the teacher's outputs."""
    return {k: v for k, v in batch.items() if not k.startswith(layouts.TEACHER)}


def _divergence(
    name: str, student: tf.Tensor, batch: Batch, temperature: float
) -> tf.Tensor:
    """Return how far a student is from the teacher, float32 [B]."""
    teacher = batch[f"{layouts.TEACHER}{name}"]
    student = tf.cast(student, tf.float32)
    if name == _CLASS_OUTPUT and teacher.shape[-1] == 1:  # A regression.
        return tf.square(student[:, 0] - teacher[:, 0])
    if student.shape.rank == 3:  # Tags; the batch may be cut.
        teacher = teacher[:, : tf.shape(student)[1]]
    if name == _BINARY_OUTPUT:
        zeros = tf.zeros_like(teacher)
        teacher = tf.stack([zeros, teacher], -1)
        student = tf.stack([zeros, student], -1)
    elif name in layouts.TOKEN_OUTPUTS:
        masked = tf.cast(batch["p_mask"], tf.float32) * MASKED
        teacher, student = teacher + masked, student + masked
    teacher_log_probs = tf.nn.log_softmax(teacher / temperature)
    student_log_probs = tf.nn.log_softmax(student / temperature)
    divergence = tf.reduce_sum(
        tf.exp(teacher_log_probs) * (teacher_log_probs - student_log_probs), -1
    )
    if divergence.shape.rank == 2:  # Tags: the mean over the words.
        words = tf.cast(batch["label_ids"] > 0, tf.float32)
        divergence = objectives.token_mean(divergence, words)
    return divergence * temperature**2


def vectors(
    pair_weights: Mapping[str, float],
    prefix_sizes: Sequence[int] = (),
    *,
    state_weights: Mapping[str, float] | None = None,
    teacher_model: Any = None,
    masked_weight: float = 0.0,
    tokenizer: Any = None,
) -> objectives.Objective:
    """Return the objective of learning a teacher's vectors, of length 1.

    Its losses are 1 minus the cosine of both vectors of a text, and those of
    pairs of texts. Of several replicas, or microbatches, each compares within
    its own part of the batch.

    Args:
        pair_weights: Factors of `PAIR_LOSSES`.
        prefix_sizes: See `embedding_objectives.over_prefixes`, of the losses of
            pairs alone.
        state_weights: Factors of further losses, of `token_states.LOSSES`.
        teacher_model: Computes the teacher's states; see `token_states`.
        masked_weight: Factor of the loss of masked words, for a model with
            `words`.
        tokenizer: That of the model.
    """
    states = state_weights or {}
    forward = _asking(teacher_model, [*states]) if states else _forward
    others = dict(states)
    if masked_weight:
        forward = _masking(forward, tokenizer)
        others[_MASKED_LOSS] = masked_weight
    pairs = _of_pairs(pair_weights, prefix_sizes)

    def sample_values(outputs: Tensors, batch: Batch) -> Tensors:
        teacher = batch[f"{layouts.TEACHER}{VECTOR}"]
        return {
            "vector_loss": 1.0 - tf.reduce_sum(outputs[VECTOR] * teacher, -1),
            **pairs.sample_values(outputs, batch),
            **{name: outputs[name] for name in others},
        }

    return objectives.per_example(
        {"vector_loss": 1.0, **pairs.losses, **others},
        sample_values,
        forward=forward,
    )


def _asking(teacher_model: Any, losses: Sequence[str]) -> objectives.Forward:
    """Return what runs the teacher, too, and gives losses of both's states."""

    def forward(
        model: Any, batch: Batch, dropout_seed: tf.Tensor | None
    ) -> tuple[Tensors, Batch]:
        inputs = without_teacher(batch)
        encoded = model.encode(inputs, dropout_seed is not None, dropout_seed)
        teacher_outputs = tf.nest.map_structure(
            tf.stop_gradient, teacher_model.encode(inputs, False, None)
        )
        student = token_states.EncodedBatch(model, encoded)
        teacher = token_states.EncodedBatch(teacher_model, teacher_outputs)
        mask = inputs["input_mask"]
        real_tokens = tf.cast(mask, tf.float32)
        outputs = {VECTOR: model.vectors(encoded["sequence_output"], mask)}
        for name in losses:
            loss = token_states.LOSSES[name]
            outputs[name] = loss(student, teacher, real_tokens)
        return outputs, batch

    return forward


def _masking(forward: objectives.Forward, tokenizer: Any) -> objectives.Forward:
    """Return what runs the model on a masked copy of the batch, too."""

    def masking(
        model: Any, batch: Batch, dropout_seed: tf.Tensor | None
    ) -> tuple[Tensors, Batch]:
        outputs, batch = forward(model, batch, dropout_seed)
        inputs = without_teacher(batch)
        loss = masked_words.loss(model.words, inputs, dropout_seed, tokenizer)
        return {**outputs, _MASKED_LOSS: loss}, batch

    return masking


def _of_pairs(
    weights: Mapping[str, float], prefix_sizes: Sequence[int]
) -> objectives.Objective:
    def values(outputs: Tensors, batch: Batch) -> Tensors:
        both = outputs[VECTOR], batch[f"{layouts.TEACHER}{VECTOR}"]
        cosines = [tf.matmul(x, x, transpose_b=True) for x in both]
        real = objectives.real_examples(batch)
        return {name: PAIR_LOSSES[name](*cosines, real) for name in weights}

    return embedding_objectives.over_prefixes(
        objectives.per_example(weights, values), prefix_sizes
    )


def _similarity_loss(
    student: tf.Tensor, teacher: tf.Tensor, real: tf.Tensor
) -> tf.Tensor:
    """Return the mean squared difference of the cosines with all texts."""
    sums = tf.reduce_sum(tf.square(student - teacher) * real, -1)
    return tf.math.divide_no_nan(sums, tf.reduce_sum(real))


def _order_loss(
    student: tf.Tensor, teacher: tf.Tensor, real: tf.Tensor
) -> tf.Tensor:
    """Return how far pairs of texts are from the order of the teacher's.

    Source: Zhang et al., relative similarity distillation loss. Of all pairs of
    pairs there, only those of text i and of text i + 1 of the batch: B³, not
    B⁴. As batches are drawn at random, the loss is the same on average.
    """
    is_other = real * (1.0 - tf.eye(tf.shape(real)[0]))
    counts = is_other[:, :, None] * _next(is_other * real[:, None])
    difference = teacher[:, :, None] - _next(teacher)
    counts *= tf.cast(tf.abs(difference) > _TIE, tf.float32)
    gaps = tf.sign(difference) * (student[:, :, None] - _next(student))
    sums = tf.reduce_sum(tf.nn.relu(_MARGIN - gaps) * counts, [1, 2])
    return tf.math.divide_no_nan(sums, tf.reduce_sum(counts, [1, 2]))


def _next(pairs: tf.Tensor) -> tf.Tensor:
    """Return [B, 1, B]: the row behind each of [B, B], for the last row 0."""
    return tf.roll(pairs, -1, 0)[:, None]


# (student, teacher, real) to float32 [B]: of the cosines of all texts of a
# batch, [B, B] both, and `objectives.real_examples`.
PAIR_LOSSES: Mapping[str, Callable[..., tf.Tensor]] = {
    "similarity_loss": _similarity_loss,
    "order_loss": _order_loss,
}
