"""Windows over contexts, and answers from them, as TensorFlow operations.

`squad_features` and `squad_answers` do the same with arrays, for whole files;
their docstrings have the rules and their sources.

Letter dimensions: Q questions, W windows of all questions, S positions of a
sequence, K starts, L ends of each, N spans of all questions.
"""

from typing import NamedTuple

import tensorflow as tf

from albert_tf.finetuning.squad import squad_features
from albert_tf.text import text_ops

Tensors = dict[str, tf.Tensor]

_AT_ONCE = 64  # Spans whose texts are compared together; bounds the memory.
# The score for "no answer" of a question without a window; as `squad_answers`.
_NO_WINDOW = 1e6


class WindowTensors(NamedTuple):
    """All windows of some questions, in order; each has a piece at least."""

    question: tf.Tensor  # int32 [W], row of the question.
    begin: tf.Tensor  # int32 [W], number of the first piece of the context.
    length: tf.Tensor  # int32 [W], pieces of the context in the window.
    first: tf.Tensor  # int32 [W], position of the first in the sequence.


class Proposals(NamedTuple):
    """Starts and ends as positions of the sequence, the best starts first."""

    start: tf.Tensor  # int32 [W, K, 1].
    end: tf.Tensor  # int32 [W, 1 or K, L].
    start_score: tf.Tensor  # float32, as `start`.
    end_score: tf.Tensor  # float32, as `end`.


class SpanTensors(NamedTuple):
    """Possible answers, those of a question together."""

    row_splits: tf.Tensor  # int32 [Q + 1], where those of each question begin.
    start: tf.Tensor  # int32 [N], first byte in the context.
    end: tf.Tensor  # int32 [N], last byte plus 1.
    score: tf.Tensor  # float64 [N].


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
    limit = max_seq_length - squad_features.NUM_SPECIAL - query_lengths
    stride = tf.minimum(limit, doc_stride)
    # One window, and one for each further stride, complete or not.
    count = 1 - tf.minimum(limit - context_lengths, 0) // stride
    count = tf.where(context_lengths > 0, count, 0)
    question = tf.repeat(tf.range(tf.size(count)), count)
    begin = tf.ragged.range(count).flat_values * tf.gather(stride, question)
    rest = tf.gather(context_lengths, question) - begin
    length = tf.minimum(tf.gather(limit, question), rest)
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


def p_mask(windows: WindowTensors, length: tf.Tensor) -> tf.Tensor:
    """Return 1 where no answer may be, int32 [W, S]; `length` is S."""
    position = tf.range(length)
    first = windows.first[:, None]
    is_window = position >= first
    is_window &= position < first + windows.length[:, None]
    return tf.cast(~is_window & (position > 0), tf.int32)


def propose(outputs: Tensors, windows: WindowTensors, size: int) -> Proposals:
    """Propose starts and ends; `size` of each, if the model chose none."""
    if "start_logits" not in outputs:
        return propose_found(outputs)
    logits = outputs["start_logits"], outputs["end_logits"]
    return propose_each(*logits, windows, size)


def propose_each(
    start_logits: tf.Tensor,
    end_logits: tf.Tensor,
    windows: WindowTensors,
    size: int,
) -> Proposals:
    """Propose every best start with every best end, of float32 [W, S] each.

    For SQuAD 1.1.
    """
    length = tf.shape(start_logits)[1]
    stop = windows.first + windows.length + 1  # Behind the last marker.
    is_real = tf.range(length) < stop[:, None]
    start, end = (
        tf.math.top_k(
            tf.where(is_real, logits, logits.dtype.min),
            tf.minimum(size, length),
        )
        for logits in (start_logits, end_logits)
    )
    return Proposals(
        start.indices[..., None],
        end.indices[:, None],
        start.values[..., None],
        end.values[:, None],
    )


def propose_found(outputs: Tensors) -> Proposals:
    """Propose what `AlbertSquadV2.search` has found."""
    starts = tf.shape(outputs["start_top_index"])
    # Not -1 for the last: there may be no window.
    width = tf.shape(outputs["end_top_index"])[1] // starts[1]
    shape = tf.concat([starts, [width]], 0)
    return Proposals(
        outputs["start_top_index"][..., None],
        tf.reshape(outputs["end_top_index"], shape),
        outputs["start_top_log_probs"][..., None],
        tf.reshape(outputs["end_top_log_probs"], shape),
    )


def find_spans(
    windows: WindowTensors,
    starts: tf.RaggedTensor,
    ends: tf.RaggedTensor,
    proposals: Proposals,
    max_answer_length: int,
) -> SpanTensors:
    """Keep what is valid among proposals; see `squad_answers.rank`.

    Args:
        starts: int32 [Q, (pieces)], first byte of each piece of the contexts.
        ends: int32 [Q, (pieces)], last byte plus 1.
        max_answer_length: Pieces of the longest answer.

    Returns:
        In the order of proposals.
    """
    first, length = windows.first[:, None, None], windows.length[:, None, None]
    start, end = proposals.start - first, proposals.end - first
    valid = (start >= 0) & (start < length) & (end >= start) & (end < length)
    valid &= end - start < max_answer_length
    is_best = sees_best(windows, starts)
    piece = tf.clip_by_value(start[..., 0], 0, tf.shape(is_best)[1] - 1)
    valid &= tf.gather(is_best, piece, batch_dims=1)[..., None]

    def of_valid(values: tf.Tensor) -> tf.Tensor:
        return tf.boolean_mask(tf.broadcast_to(values, tf.shape(valid)), valid)

    rows = tf.cast(starts.row_starts(), tf.int32)
    shift = windows.begin + tf.gather(rows, windows.question)
    shift = shift[:, None, None]
    score = tf.cast(proposals.start_score, tf.float64)
    score += tf.cast(proposals.end_score, tf.float64)
    question = of_valid(windows.question[:, None, None])
    return SpanTensors(
        tf.searchsorted(question, tf.range(starts.nrows(tf.int32) + 1)),
        tf.gather(starts.flat_values, of_valid(start + shift)),
        tf.gather(ends.flat_values, of_valid(end + shift)),
        of_valid(score),
    )


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


def null_scores(
    cls_logits: tf.Tensor, windows: WindowTensors, count: tf.Tensor
) -> tf.Tensor:
    """Do what `squad_answers.null_scores` does: float32 [W] to [Q]."""
    lowest = tf.math.unsorted_segment_min(cls_logits, windows.question, count)
    return tf.minimum(lowest, _NO_WINDOW)


def n_best(
    contexts: tf.Tensor, spans: SpanTensors, size: int, empty_score: float
) -> Tensors:
    """Do what `squad_answers.n_best` does with ranked spans.

    Args:
        contexts: string [Q].
        empty_score: What an entry without text gets as score, the only one of a
            question without spans.

    Returns:
        [Q, size] each, the best first, then "" and 0: `n_best_answers` string,
        no two equal; `n_best_scores` float32, `n_best_probabilities` float32,
        `n_best_start` and `n_best_end` int32, the bytes of the answer in the
        context, 0 and 0 where it is "".
    """

    def of_one(row: tuple[tf.Tensor, ...]) -> Tensors:
        context, begin, stop = row
        order = begin + tf.argsort(
            spans.score[begin:stop], direction="DESCENDING", stable=True
        )
        start, end, score = (tf.gather(x, order) for x in spans[1:])
        return _n_best_of_one(context, start, end, score, size, empty_score)

    return tf.map_fn(
        of_one,
        (contexts, spans.row_splits[:-1], spans.row_splits[1:]),
        fn_output_signature={
            "n_best_answers": tf.TensorSpec([size], tf.string),
            "n_best_scores": tf.TensorSpec([size]),
            "n_best_probabilities": tf.TensorSpec([size]),
            "n_best_start": tf.TensorSpec([size], tf.int32),
            "n_best_end": tf.TensorSpec([size], tf.int32),
        },
    )


def _n_best_of_one(
    context: tf.Tensor,
    start: tf.Tensor,
    end: tf.Tensor,
    score: tf.Tensor,
    size: int,
    empty_score: float,
) -> Tensors:
    """Return the entries of one question; its spans are ranked."""
    # As in Python, nothing ends before the first character.
    character = tf.strings.substr(context, 0, 1, unit="UTF8_CHAR")
    end += tf.where(end == 0, tf.strings.length(character), 0)
    kept = _distinct(context, start, end, size)
    texts, starts = _texts(context, start, end, kept)
    scores = tf.gather(score, kept)
    empty = tf.constant([empty_score], tf.float64)
    scores = tf.concat([scores, empty], 0)[: tf.maximum(tf.size(kept), 1)]

    def padded(values: tf.Tensor) -> tf.Tensor:
        filling = tf.zeros([size], values.dtype)
        return tf.concat([values, filling], 0)[:size]

    return {
        "n_best_answers": padded(texts),
        "n_best_scores": padded(tf.cast(scores, tf.float32)),
        "n_best_probabilities": padded(
            tf.cast(tf.nn.softmax(scores), tf.float32)
        ),
        "n_best_start": padded(starts),
        "n_best_end": padded(starts + tf.strings.length(texts)),
    }


def _texts(
    context: tf.Tensor, start: tf.Tensor, end: tf.Tensor, index: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the texts of some spans without white space, and their starts."""
    start, end = tf.gather(start, index), tf.gather(end, index)
    found = tf.strings.substr(context, start, tf.maximum(end - start, 0))
    texts, lost = text_ops.strip(found)
    return texts, start + lost


def _distinct(
    context: tf.Tensor, start: tf.Tensor, end: tf.Tensor, size: int
) -> tf.Tensor:
    """Choose the first spans with different texts that are not empty.

    They are looked at block by block: mostly the first one is enough, and a
    long context has many.

    Returns:
        int32 [size at most], ascending numbers of spans.
    """
    total = tf.size(start)

    def is_open(begin: tf.Tensor, kept: tf.Tensor) -> tf.Tensor:
        return (begin < total) & (tf.size(kept) < size)

    def look(begin: tf.Tensor, kept: tf.Tensor) -> tuple[tf.Tensor, ...]:
        stop = tf.minimum(begin + _AT_ONCE, total)
        index = tf.concat([kept, tf.range(begin, stop)], 0)
        texts, _ = _texts(context, start, end, index)
        index = tf.boolean_mask(index, texts != "")
        texts = tf.boolean_mask(texts, texts != "")
        different, group = tf.unique(texts)
        first = tf.math.unsorted_segment_min(index, group, tf.size(different))
        return stop, first[:size]

    return tf.while_loop(
        is_open,
        look,
        (0, tf.zeros([0], tf.int32)),
        (tf.TensorShape([]), tf.TensorShape([None])),
    )[1]
