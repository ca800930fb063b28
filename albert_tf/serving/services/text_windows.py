"""Long texts in windows; see `finetuning.windows` and `finetuning.tagging`."""

import tensorflow as tf

from albert_tf.finetuning import windows
from albert_tf.serving.services import answer_ops, in_parts, service

_WITHOUT_QUESTION = -1  # Pieces; not even its marker is there.


def ask(
    what: service.Service,
    pieces: tf.RaggedTensor,
    doc_stride: int,
    logits: tf.TensorSpec,
) -> tuple[answer_ops.WindowTensors, tf.Tensor]:
    """Return the windows of texts, and what the model says about each.

    A text without pieces has one window.

    Args:
        pieces: int32 [texts, (pieces)].
        doc_stride: Pieces from the start of one window to that of the next.
        logits: Of `what.tokens`, for some windows.
    """
    counts = tf.cast(pieces.row_lengths(), tf.int32)
    found = answer_ops.make_windows(
        tf.fill(tf.shape(counts), _WITHOUT_QUESTION),
        tf.maximum(counts, 1),
        what.max_seq_length,
        doc_stride,
    )
    length = tf.minimum(found.length, tf.gather(counts, found.question))
    found = found._replace(length=length)
    inputs, _ = what.pack(answer_ops.cut(found, pieces))
    rows = [inputs[name] for name in service.IDS]
    return found, in_parts.ask(what.tokens, rows, {"logits": logits})["logits"]


def pool(
    logits: tf.Tensor, text: tf.Tensor, count: tf.Tensor, how: str
) -> tf.Tensor:
    """Do what `windows.pool` does.

    Args:
        logits: float32 [windows, labels].
        text: int32 [windows], the number of each window's text.
        count: Texts.
    """
    if how == windows.MAX:
        return tf.math.unsorted_segment_max(logits, text, count)
    return tf.math.unsorted_segment_mean(logits, text, count)
