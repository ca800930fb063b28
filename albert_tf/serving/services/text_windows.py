"""Long texts in windows; see `finetuning.windows` and `finetuning.tagging`."""

from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf

from albert_tf.finetuning import windows
from albert_tf.serving.services import answer_ops, service
from albert_tf.serving.services.service import Tensors

_WITHOUT_QUESTION = -1  # Pieces; not even its marker is there.
# Windows that go through the network together. A long text has hundreds; so
# the memory does not grow with it.
_AT_ONCE = 16


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
    return found, ask_in_parts(what.tokens, rows, {"logits": logits})["logits"]


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


def pool(
    logits: tf.Tensor, text: tf.Tensor, count: tf.Tensor, how: str
) -> tf.Tensor:
    """Do what `windows.pool` does, given the text of each window, int32."""
    if how == windows.MAX:
        return tf.math.unsorted_segment_max(logits, text, count)
    return tf.math.unsorted_segment_mean(logits, text, count)
