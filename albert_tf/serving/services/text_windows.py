"""Long texts in windows, as TensorFlow operations; see `overlaps`.

Letter dimensions: Q texts or questions, W windows of all of them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import tensorflow as tf

from albert_tf.finetuning import overlaps
from albert_tf.serving.services import service
from albert_tf.serving.services.service import Tensors

_NUM_SPECIAL = 3  # [CLS], [SEP] of the question, [SEP].
_WITHOUT_QUESTION = -1  # Pieces; not even its marker is there.
# Windows that go through the network together. A long text has hundreds; so
# the memory does not grow with it.
_AT_ONCE = 16


class WindowTensors(NamedTuple):
    """All windows of some questions, in order; each has a piece at least."""

    question: tf.Tensor  # int32 [W], row of the question.
    begin: tf.Tensor  # int32 [W], number of the first piece of the context.
    length: tf.Tensor  # int32 [W], pieces of the context in the window.
    first: tf.Tensor  # int32 [W], position of the first in the sequence.


def require_short(texts: tf.Tensor) -> tf.Tensor:
    """Do what `overlaps.require_short` does; return the texts."""
    length = tf.strings.length(texts, unit="UTF8_CHAR")
    check = tf.debugging.assert_less_equal(
        length, overlaps.LONGEST_TEXT, overlaps.TOO_LONG
    )
    with tf.control_dependencies([check]):
        return tf.identity(texts)


def make_windows(
    query_lengths: tf.Tensor,
    context_lengths: tf.Tensor,
    max_seq_length: int,
    doc_stride: int,
) -> WindowTensors:
    """Do what `overlaps.split` does, for many questions.

    Args:
        query_lengths: int32 [Q], pieces of the questions.
        context_lengths: int32 [Q], pieces of their contexts.
        max_seq_length: Tokens of a sequence, special ones included.
        doc_stride: Pieces from the start of one window to that of the next.
    """
    limit = max_seq_length - _NUM_SPECIAL - query_lengths
    stride = tf.minimum(limit, doc_stride)
    # One window, and one for each further stride, complete or not.
    count = 1 - tf.minimum(limit - context_lengths, 0) // stride
    count = tf.where(context_lengths > 0, count, 0)
    question = tf.repeat(tf.range(tf.size(count)), count)
    begin = tf.ragged.range(count).flat_values * tf.gather(stride, question)
    remaining = tf.gather(context_lengths, question) - begin
    length = tf.minimum(tf.gather(limit, question), remaining)
    return WindowTensors(
        question, begin, length, tf.gather(query_lengths, question) + 2
    )


def cut(windows: WindowTensors, contexts: tf.RaggedTensor) -> tf.RaggedTensor:
    """Return pieces of windows, int32 [W, (pieces)], of int32 [Q, (pieces)]."""
    first = tf.cast(contexts.row_starts(), tf.int32)
    begin = windows.begin + tf.gather(first, windows.question)
    numbers = tf.ragged.range(begin, begin + windows.length)
    values = tf.gather(contexts.flat_values, numbers.flat_values)
    return numbers.with_flat_values(values)


def sees_best(windows: WindowTensors, contexts: tf.RaggedTensor) -> tf.Tensor:
    """Do what `overlaps.max_context` does, for many questions.

    Returns:
        bool [W, longest], one column at least.
    """
    # Pieces of all contexts in a row, and one for what is in no window.
    rows = tf.cast(contexts.row_starts(), tf.int32)
    total = tf.size(contexts.flat_values)
    offset = tf.range(tf.reduce_max(tf.concat([[1], windows.length], 0)))
    length = windows.length[:, None]
    begin = windows.begin + tf.gather(rows, windows.question)
    is_real = offset < length
    piece = tf.where(is_real, begin[:, None] + offset, total)
    side = tf.cast(tf.minimum(offset, length - 1 - offset), tf.float64)
    score = side + 0.01 * tf.cast(length, tf.float64)
    best = tf.math.unsorted_segment_max(score, piece, total + 1)
    is_best = tf.gather(best, piece) == score
    number = tf.range(tf.size(windows.length))[:, None]
    rank = tf.where(is_best, number, tf.size(number))
    owner = tf.math.unsorted_segment_min(rank, piece, total + 1)
    return is_real & (tf.gather(owner, piece) == number)


def ask(
    served: service.Service,
    pieces: tf.RaggedTensor,
    doc_stride: int,
    logits: tf.TensorSpec,
    tokens: Callable[..., Tensors] | None = None,
) -> tuple[WindowTensors, tf.Tensor]:
    """Return the windows of texts, and what the model says about each.

    A text without pieces has one window.

    Args:
        pieces: int32 [texts, (pieces)].
        doc_stride: Pieces from the start of one window to that of the next.
        logits: Of `tokens`, for some windows.
        tokens: What is asked. Default: `served.tokens`.
    """
    counts = tf.cast(pieces.row_lengths(), tf.int32)
    new_windows = make_windows(
        tf.fill(tf.shape(counts), _WITHOUT_QUESTION),
        tf.maximum(counts, 1),
        served.max_seq_length,
        doc_stride,
    )
    length = tf.minimum(
        new_windows.length, tf.gather(counts, new_windows.question)
    )
    new_windows = new_windows._replace(length=length)
    inputs, _ = served.pack(cut(new_windows, pieces))
    rows = [inputs[name] for name in service.IDS]
    return new_windows, ask_in_parts(
        tokens or served.tokens, rows, {"logits": logits}
    )["logits"]


def ask_in_parts(
    model: Callable[..., Tensors],
    inputs: Sequence[tf.Tensor],
    parts: Mapping[str, tf.TensorSpec],
) -> Tensors:
    """Return some outputs of a model for all rows, which it gets part by part.

    Args:
        parts: The outputs, [rows, ...], by name.
    """
    total = tf.shape(inputs[0])[0]
    count = tf.maximum(1, -(-total // _AT_ONCE))
    arrays = {
        name: tf.TensorArray(
            spec.dtype, count, infer_shape=False, element_shape=spec.shape
        )
        for name, spec in parts.items()
    }

    def step(
        number: tf.Tensor, arrays: dict[str, tf.TensorArray]
    ) -> tuple[tf.Tensor, dict[str, tf.TensorArray]]:
        begin = number * _AT_ONCE
        outputs = model(*(rows[begin : begin + _AT_ONCE] for rows in inputs))
        return number + 1, {
            name: array.write(number, outputs[name])
            for name, array in arrays.items()
        }

    _, arrays = tf.while_loop(
        lambda number, _: number < count,
        step,
        (0, arrays),
        parallel_iterations=1,
    )
    return {name: array.concat() for name, array in arrays.items()}
