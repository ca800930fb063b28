"""Signatures of a finetuned question-answering model, SQuAD.

They decode by TensorFlow operations; `portable` does the same with arrays, and
its docstrings have the rules and their sources.

Letter dimensions: Q questions, W windows of all questions, S positions of a
sequence, K starts, L ends of each, N spans of all questions.
"""

import dataclasses
from typing import Any, ClassVar, NamedTuple

import tensorflow as tf

from albert_tf.serving.services import service, text_windows
from albert_tf.serving.services.service import Tensors
from albert_tf.tasks.squad import model as heads
from albert_tf.tasks.squad import portable
from albert_tf.tasks.squad.task import SquadTask
from albert_tf.text import text_ops

_AT_ONCE = 64  # Spans whose texts are compared together; bounds the memory.

Model = heads.AlbertSquadV1 | heads.AlbertSquadV2


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


class AnswerService(service.Service):
    """Finds the answer to a question in a context of any length.

    A long context is divided into overlapping windows. They go through the
    network in batches of 16.
    """

    model: Model
    texts = "question", "context"
    read_whole = "context"
    reads_offsets = True
    portable = portable
    # The outputs of `tokens` that answers are made of.
    parts: ClassVar[dict[str, tf.TensorSpec]]
    # The scores of start and end of a question without any span.
    empty: ClassVar[tuple[str, float]]

    def __init__(self, model: Model, task: SquadTask):
        super().__init__(model, task.tokenizer, task.max_seq_length)
        self._options = task.options

    @property
    def text_options(self) -> dict[str, Any]:
        options = self._options
        return {
            "squad_version": options.squad_version,
            **dataclasses.asdict(options.windows),
            **dataclasses.asdict(options.answers),
        }

    def answer(self, question: tf.Tensor, context: tf.Tensor) -> Tensors:
        """Answer questions, string [batch], about contexts, string [batch].

        Where a context has no piece that the vocabulary could hold, as an empty
        one, there is no answer.

        Returns:
            `answer` string [batch], a part of the context as it was given, ""
            if there is none;
            `start` and `end` int32 [batch], its first byte in the context and
            its last one plus 1; 0 and 0 for "";
            `score` float32 [batch], the sum of the scores of start and end;
            `question_truncated` bool [batch], whether the question was too long
            and its end left out;
            and what `n_best` returns.
        """
        return self._find(question, context)[0]

    def _find(
        self, question: tf.Tensor, context: tf.Tensor
    ) -> tuple[Tensors, Tensors, text_windows.WindowTensors]:
        longest = self._options.windows.max_query_length
        context = text_windows.require_short(context)
        asked = self.tokenizer.tokenize(question, longest + 1)
        queries = asked[:, :longest]
        pieces, starts, ends = self.tokenizer.tokenize_with_offsets(context)
        windows = text_windows.make_windows(
            tf.cast(queries.row_lengths(), tf.int32),
            tf.cast(pieces.row_lengths(), tf.int32),
            self.max_seq_length,
            self._options.windows.doc_stride,
        )
        inputs, _ = self.pack(
            tf.gather(queries, windows.question),
            text_windows.cut(windows, pieces),
        )
        length = tf.shape(inputs["input_ids"])[1]
        inputs["p_mask"] = p_mask(windows, length)
        rows = [inputs[name] for name in self.ids]
        outputs = text_windows.ask_in_parts(self.tokens, rows, self.parts)
        answers = self._options.answers
        lists = n_best(
            context,
            find_spans(
                windows,
                starts,
                ends,
                propose(outputs, windows, answers.n_best_size),
                answers.max_answer_length,
            ),
            answers.n_best_size,
            2 * self.empty[1],
        )
        best = {
            "answer": lists["n_best_answers"][:, 0],
            "score": lists["n_best_scores"][:, 0],
            "start": lists["n_best_start"][:, 0],
            "end": lists["n_best_end"][:, 0],
            "question_truncated": asked.row_lengths() > longest,
        }
        return {**best, **lists}, outputs, windows


class AnswerServiceV1(AnswerService):
    """Every question has an answer (SQuAD 1.1).

    DIFFERS: a question without any span gets the answer "", where the files of
    `SquadTask` and of the original say "empty".
    """

    model: heads.AlbertSquadV1
    parts: ClassVar = {
        "start_logits": tf.TensorSpec([None, None]),
        "end_logits": tf.TensorSpec([None, None]),
    }
    read_outputs = tuple(parts)
    empty = portable.EMPTY_V1

    def tokens(self, *ids: tf.Tensor) -> Tensors:
        """What `Service.tokens` gives, `start_logits` and `end_logits`.

        The last two are float32 [batch, seq], for padding too.
        """
        outputs = super().tokens(*ids)
        return {**outputs, **self.model.logits(outputs["sequence_output"])}


class AnswerServiceV2(AnswerService):
    """Questions may have no answer (SQuAD 2.0)."""

    model: heads.AlbertSquadV2
    ids = (*service.IDS, "p_mask")
    parts: ClassVar = {
        "start_top_log_probs": tf.TensorSpec([None, None]),
        "start_top_index": tf.TensorSpec([None, None], tf.int32),
        "end_top_log_probs": tf.TensorSpec([None, None]),
        "end_top_index": tf.TensorSpec([None, None], tf.int32),
        "cls_logits": tf.TensorSpec([None]),
    }
    read_outputs = tuple(parts)
    empty = portable.EMPTY_V2

    def __init__(self, model: Model, task: SquadTask):
        super().__init__(model, task)
        self._threshold = task.threshold

    def tokens(self, *ids: tf.Tensor) -> Tensors:
        """What `Service.tokens` gives, and what `AlbertSquadV2.search` does.

        Args:
            ids: The last of them is `p_mask`, 1 where no answer may be: in the
                question, on padding, on markers but the first.
        """
        inputs = service.of_one_shape(dict(zip(self.ids, ids, strict=True)))
        p_mask = inputs.pop("p_mask")
        outputs = super().tokens(*inputs.values())
        return {
            **outputs,
            **self.model.search(outputs["sequence_output"], p_mask),
        }

    @property
    def text_options(self) -> dict[str, Any]:
        return {
            **super().text_options,
            "null_score_diff_threshold": self._threshold,
            "original_threshold": self._options.original_threshold,
        }

    def answer(self, question: tf.Tensor, context: tf.Tensor) -> Tensors:
        """Answer questions, string [batch], about contexts, string [batch].

        Returns:
            What `AnswerService.answer` does. Where the score for "no answer" is
            above the threshold, `answer` is "", and `start` and `end` are 0;
            `score` and the n-best list say what would have been answered.
            `no_answer_score` float32 [batch], the lowest of all windows,
            1,000,000 without any; `no_answer_probability` float32 [batch].
        """
        best, outputs, windows = self._find(question, context)
        score = null_scores(outputs["cls_logits"], windows, tf.size(question))
        limit = tf.constant(self._threshold, tf.float64)
        wide = tf.cast(score, tf.float64)
        is_answered = wide <= limit
        if self._options.original_threshold:
            is_answered = wide < limit
        return {
            **best,
            "answer": tf.where(is_answered, best["answer"], ""),
            "start": tf.where(is_answered, best["start"], 0),
            "end": tf.where(is_answered, best["end"], 0),
            "no_answer_score": score,
            "no_answer_probability": tf.sigmoid(score),
        }


def p_mask(windows: text_windows.WindowTensors, length: tf.Tensor) -> tf.Tensor:
    """Return 1 where no answer may be, int32 [W, S]; `length` is S."""
    position = tf.range(length)
    first = windows.first[:, None]
    is_window = position >= first
    is_window &= position < first + windows.length[:, None]
    return tf.cast(~is_window & (position > 0), tf.int32)


def propose(
    outputs: Tensors, windows: text_windows.WindowTensors, size: int
) -> Proposals:
    """Propose what `AlbertSquadV2.search` has found.

    For SQuAD 1.1 every one of the `size` best starts with every one of the best
    ends, of `start_logits` and `end_logits`, float32 [W, S].
    """
    if "start_logits" not in outputs:
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
    length = tf.shape(outputs["start_logits"])[1]
    stop = windows.first + windows.length + 1  # Behind the last marker.
    is_real = tf.range(length) < stop[:, None]
    start, end = (
        tf.math.top_k(
            tf.where(is_real, logits, logits.dtype.min),
            tf.minimum(size, length),
        )
        for logits in (outputs["start_logits"], outputs["end_logits"])
    )
    return Proposals(
        start.indices[..., None],
        end.indices[:, None],
        start.values[..., None],
        end.values[:, None],
    )


def find_spans(
    windows: text_windows.WindowTensors,
    starts: tf.RaggedTensor,
    ends: tf.RaggedTensor,
    proposals: Proposals,
    max_answer_length: int,
) -> SpanTensors:
    """Keep what is valid among proposals; see `portable.rank`.

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
    is_best = text_windows.sees_best(windows, starts)
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


def null_scores(
    cls_logits: tf.Tensor, windows: text_windows.WindowTensors, count: tf.Tensor
) -> tf.Tensor:
    """Do what `portable.null_scores` does: float32 [W] to [Q]."""
    lowest = tf.math.unsorted_segment_min(cls_logits, windows.question, count)
    return tf.minimum(lowest, portable.NO_WINDOW)


def n_best(
    contexts: tf.Tensor, spans: SpanTensors, size: int, empty_score: float
) -> Tensors:
    """Do what `portable.n_best` does with ranked spans.

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
    texts, lost = text_ops.strip(
        tf.strings.substr(context, start, tf.maximum(end - start, 0))
    )
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


SERVICES = {
    heads.AlbertSquadV1: lambda task, made: AnswerServiceV1(made, task),
    heads.AlbertSquadV2: lambda task, made: AnswerServiceV2(made, task),
}
