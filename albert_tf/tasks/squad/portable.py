"""From questions to windows, and from their outputs to one answer for each.

Every window proposes spans; the spans of all windows of a question are ranked
together, turned into texts of the paragraph, and for SQuAD 2.0 compared with
the score for "no answer".

The task decodes by this file, and exports for other runtimes have a copy of it:
no TensorFlow and nothing but portable files is imported.

Source: in the original, squad_utils.accumulate_predictions_v1/_v2,
write_predictions_v1/_v2 and find_best_thresh_v2.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from albert_tf.finetuning import overlaps, probabilities

NUM_SPECIAL = 3  # [CLS], [SEP], [SEP].
# The answer to a question whose windows propose nothing: text, and the score of
# start and end.
EMPTY_V1 = ("empty", 0.0)
EMPTY_V2 = ("", -1e6)
# The score for "no answer" of a question without a window.
NO_WINDOW = 1e6
_BLOCK = 1024  # Windows whose spans are ranked together; bounds the memory.

Ids = Sequence[int] | np.ndarray
Arrays = Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Pieces:
    """A paragraph in pieces.

    Attributes:
        ids: int32 [pieces].
        starts: int32 [pieces], number of the first character of each piece in
            the paragraph, the space before a word included.
        ends: int32 [pieces], number of the last character plus 1.
    """

    ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray


@dataclasses.dataclass(frozen=True)
class Windows:
    """All windows of some questions, in order.

    Attributes:
        paragraphs: For each question its paragraph; equal ones are one object.
        queries: For each question its first `max_query_length` ids.
        question: int32 [windows], row of the question.
        begin: int32 [windows], number of the first piece of the paragraph.
        length: int32 [windows], pieces of the paragraph in the window.
        cut: Rows of the questions that were longer than `max_query_length`.
    """

    paragraphs: Sequence[Pieces]
    queries: Sequence[Ids]
    question: np.ndarray
    begin: np.ndarray
    length: np.ndarray
    cut: Sequence[int]

    def __len__(self) -> int:
        return len(self.question)

    @functools.cached_property
    def first(self) -> np.ndarray:
        """Position of the first piece of the paragraph, int32 [windows]."""
        lengths = np.fromiter(map(len, self.queries), np.int32)
        return lengths[self.question] + 2

    @functools.cached_property
    def spans(self) -> list[slice]:
        edges = np.searchsorted(
            self.question, np.arange(len(self.queries) + 1)
        ).tolist()
        return [slice(*pair) for pair in itertools.pairwise(edges)]

    def pairs(self, block: slice) -> Iterator[tuple[Ids, Ids]]:
        """Yield the pieces of question and window, for some windows."""
        columns = self.question, self.begin, self.length
        for row, begin, length in zip(
            *(column[block].tolist() for column in columns), strict=True
        ):
            pieces = self.paragraphs[row].ids[begin : begin + length]
            yield self.queries[row], pieces


def make_windows(
    queries: Sequence[Ids],
    paragraphs: Sequence[Pieces],
    *,
    max_seq_length: int,
    max_query_length: int,
    doc_stride: int,
) -> Windows:
    """Lay windows over the paragraph of each question.

    Args:
        queries: The ids of the questions, which may be too long.
        max_seq_length: Tokens of a window with its question.
        doc_stride: Pieces from the start of one window to that of the next.
    """
    cut = [
        row for row, ids in enumerate(queries) if len(ids) > max_query_length
    ]
    queries = [ids[:max_query_length] for ids in queries]
    rows = [
        (row, begin, length)
        for row, (ids, pieces) in enumerate(
            zip(queries, paragraphs, strict=True)
        )
        for begin, length in overlaps.split(
            len(pieces.ids), max_seq_length - len(ids) - NUM_SPECIAL, doc_stride
        )
    ]
    question, begin, length = np.array(rows, np.int32).reshape(-1, 3).T
    return Windows(paragraphs, queries, question, begin, length, cut)


class Candidate(NamedTuple):
    """One entry of the n-best list of a question.

    Attributes:
        probability: Among the entries of the list, which add up to 1.
        start_log_prob: Score of the start; a logit for SQuAD 1.1.
        start: Number of its first character in the paragraph; -1 where the
            windows propose nothing.
    """

    text: str
    probability: float
    start_log_prob: float
    end_log_prob: float
    start: int = -1

    def to_dict(self) -> dict[str, Any]:
        """Return what the n-best list in a file says."""
        values = self._asdict()
        del values["start"]
        return values


class Search(NamedTuple):
    """How answers are chosen.

    Attributes:
        n_best_size: Entries of a list; also starts and ends that are tried in
            each window, if the model chose none.
        max_answer_length: Pieces of the longest answer.
        has_null: Whether questions may have no answer (SQuAD 2.0).
    """

    n_best_size: int
    max_answer_length: int
    has_null: bool


def blocks(outputs: Arrays) -> Iterator[Arrays]:
    """Yield the outputs for some windows at a time."""
    for at in range(0, len(next(iter(outputs.values()))), _BLOCK):
        yield {name: rows[at : at + _BLOCK] for name, rows in outputs.items()}


def n_best(
    contexts: Sequence[str],
    windows: Windows,
    outputs: Iterable[Arrays],
    search: Search,
    *,
    white_space: bool = False,
) -> Iterator[list[Candidate]]:
    """Yield the best answers to each question.

    DIFFERS: padding is never among the best starts and ends of
    SQuAD 1.1, so answers do not depend on how long it is. In the original it
    does.

    Args:
        contexts: The paragraph of each question.
        outputs: Those for some windows at a time, see `blocks`, of either
            head: `start_logits` and `end_logits` [windows, S], or
            `start_top_log_probs` and `start_top_index` [windows, K],
            `end_top_log_probs` and `end_top_index` [windows, K * L].
        white_space: Whether white space alone is an answer, with the text "",
            as in the original.

    Yields:
        At least one entry, the best first; no two have the same text.
    """
    text, score = EMPTY_V2 if search.has_null else EMPTY_V1
    empty = Candidate(text, 1.0, score, score)
    ranked = rank(windows, outputs, search)
    for context, spans in zip(contexts, ranked, strict=True):
        best: dict[str, tuple[float, float, int]] = {}
        rows = zip(*(column.tolist() for column in spans), strict=True)
        for start, end, *scores in rows:
            if len(best) == search.n_best_size:
                break
            part = context[start:end]
            text = part.strip()
            if text not in best and (text or white_space):
                stripped = len(part) - len(part.lstrip())
                best[text] = (scores[0], scores[1], start + stripped)
        totals = [one + other for one, other, _ in best.values()]
        odds = [math.exp(total - max(totals)) for total in totals]
        yield [
            Candidate(text, one / sum(odds), *best[text])
            for text, one in zip(best, odds, strict=True)
        ] or [empty]


def rank(
    windows: Windows, outputs: Iterable[Arrays], search: Search
) -> Iterator[tuple[np.ndarray, ...]]:
    """Rank the possible answers of all windows of each question.

    A span stands inside the part of the window that holds the paragraph, begins
    with a piece that no other window sees better, does not end before it begins
    and is not too long. The sum of its two scores is its rank; of equal ones
    the earlier window, then the better start, goes first. A span that a window
    proposes several times, as the combined outputs of several models do, has
    the mean of its scores.

    Yields:
        For each question, of its spans, the best first: number of the first
        character in the paragraph, of the last one plus 1, and both scores.
    """
    spans = _spans(windows, outputs, search)
    if search.has_null:
        spans = _merge_equal(spans)
    window, start, end = spans[:3].astype(np.int64)
    scores, question = spans[3:], windows.question[window]
    order = np.lexsort((-scores.sum(0), question))
    edges = np.searchsorted(
        question[order], np.arange(len(windows.queries) + 1)
    )
    for row, (at, stop) in enumerate(itertools.pairwise(edges.tolist())):
        part = order[at:stop]
        pieces = windows.paragraphs[row]
        yield (
            pieces.starts[start[part]],
            # As in the original, nothing ends before the first character.
            np.maximum(pieces.ends[end[part]], 1),
            *scores[:, part],
        )


def _spans(
    windows: Windows, outputs: Iterable[Arrays], search: Search
) -> np.ndarray:
    """Return the valid spans of all windows, best starts of each first.

    Returns:
        float64 [5, spans]: window, first and last piece of the paragraph, score
        of start and end.
    """
    sees_best, parts, at = _sees_best(windows), [np.zeros([5, 0])], 0
    for block in outputs:
        stop = at + len(next(iter(block.values())))
        row, first, last, *scores = find(
            block,
            windows.first[at:stop],
            windows.length[at:stop],
            n_best_size=search.n_best_size,
            max_answer_length=search.max_answer_length,
        )
        window = row + at
        begin = windows.begin[window]
        spans = np.stack([window, first + begin, last + begin, *scores])
        parts.append(spans[:, sees_best[window, first]])
        at = stop
    return np.concatenate(parts, axis=1)


def _sees_best(windows: Windows) -> np.ndarray:
    """Return which pieces each window sees best, bool [windows, longest]."""
    is_best = np.zeros([len(windows), windows.length.max(initial=0)], bool)
    for span in windows.spans:
        begins = windows.begin[span].tolist()
        lengths = windows.length[span].tolist()
        pairs = tuple(zip(begins, lengths, strict=True))
        for row, best in zip(
            is_best[span], overlaps.max_context(pairs), strict=True
        ):
            row[: len(best)] = best
    return is_best


def find(
    outputs: Mapping[str, np.ndarray],
    first: np.ndarray,
    length: np.ndarray,
    *,
    n_best_size: int,
    max_answer_length: int,
) -> tuple[np.ndarray, ...]:
    """Return the spans inside windows that are not too long.

    Args:
        outputs: See `n_best`.
        first: int [windows], position of the first piece of the paragraph.
        length: int [windows], pieces of the paragraph in the window.
        n_best_size: Starts and ends that are tried, if the model chose none.
        max_answer_length: Pieces of the longest span.

    Returns:
        For each span its window, its first and its last piece in the window,
        and the scores of both, float64; those of a window together, best starts
        first.
    """
    outputs = dict(outputs)
    if "start_logits" in outputs:
        stop = first + length + 1  # Past [SEP].
        positions = np.arange(outputs["start_logits"].shape[1])
        is_padding = positions >= stop[:, None]
        for name in ("start_logits", "end_logits"):
            outputs[name] = np.where(is_padding, -np.inf, outputs[name])
    start, end, start_score, end_score = _propose(outputs, n_best_size)
    # To pieces of the paragraph; [windows, starts, ends of each].
    start, end = start - first[:, None, None], end - first[:, None, None]
    lengths = length[:, None, None]
    valid = (start >= 0) & (start < lengths) & (end >= start) & (end < lengths)
    valid &= end - start < max_answer_length
    window, *at = np.nonzero(valid)
    values = (
        np.broadcast_to(values, valid.shape)[window, at[0], at[1]]
        for values in (start, end, start_score, end_score)
    )
    return window, *values


def _propose(
    outputs: Mapping[str, np.ndarray], n_best_size: int
) -> tuple[np.ndarray, ...]:
    """Return starts, ends and their scores, as positions of the sequence.

    Returns:
        Starts [windows, K, 1], ends [windows, 1 or K, L], and the float64
        scores of both.
    """
    if "start_logits" in outputs:
        tops = []
        for name in ("start_logits", "end_logits"):
            logits = outputs[name].astype(np.float64)
            top = np.argsort(-logits, axis=1, kind="stable")[:, :n_best_size]
            tops.append((top, np.take_along_axis(logits, top, 1)))
        (start, start_score), (end, end_score) = tops
        return (
            start[..., None],
            end[:, None],
            start_score[..., None],
            end_score[:, None],
        )
    total, starts = outputs["start_top_index"].shape
    shape = (total, starts, outputs["end_top_index"].shape[1] // starts)
    return (
        outputs["start_top_index"][..., None],
        outputs["end_top_index"].reshape(shape),
        outputs["start_top_log_probs"][..., None].astype(np.float64),
        outputs["end_top_log_probs"].reshape(shape).astype(np.float64),
    )


def _merge_equal(spans: np.ndarray) -> np.ndarray:
    """Merge equal spans, at the position of the first; see `rank`."""
    window, start, end = spans[:3].astype(np.int64)
    width = int(end.max(initial=0)) + 1
    _, first, group, count = np.unique(
        (window * width + start) * width + end,
        return_index=True,
        return_inverse=True,
        return_counts=True,
    )
    order = np.argsort(first)
    merged = spans[:, first[order]]
    for scores, means in zip(spans[3:], merged[3:], strict=True):
        means[:] = (np.bincount(group, scores) / count)[order]
    return merged


def null_scores(windows: Windows, cls_logits: np.ndarray) -> list[float]:
    """Return the score for "no answer" of each question.

    It is the lowest of its windows: one window that holds an answer is enough.
    Of several models it is the mean of theirs; without a window 1,000,000.

    Args:
        cls_logits: float [windows] or [windows, models], larger where there is
            no answer.
    """
    return [
        float(cls_logits[span].min(axis=0, initial=NO_WINDOW).mean())
        for span in windows.spans
    ]


def is_answered(null_score: float, threshold: float, *, original: bool) -> bool:
    """Tell whether "no answer" is unlikely enough.

    DIFFERS: at the threshold a question has an answer, in the original none.
    """
    return null_score < threshold if original else null_score <= threshold


class Decoder:
    """What answer.py asks: requests to pieces, and outputs to answers."""

    def __init__(self, about: Mapping[str, Any], tokenizer: Any) -> None:
        self._longest, self._options = about["max_seq_length"], about["options"]
        self._tokenizer = tokenizer
        self._search = Search(
            self._options["n_best_size"],
            self._options["max_answer_length"],
            "null_score_diff_threshold" in self._options,
        )

    def lay_out(
        self, question: str, context: str
    ) -> tuple[list[tuple[list[int], list[int]]], tuple[str, Windows]]:
        """Return the pieces of each window, and what the answer needs."""
        windows = make_windows(
            [self._tokenizer.encode(question)],
            [Pieces(*self._tokenizer.encode_with_offsets(context))],
            max_seq_length=self._longest,
            max_query_length=self._options["max_query_length"],
            doc_stride=self._options["doc_stride"],
        )
        rows = [
            ([*query], [*map(int, pieces)])
            for query, pieces in windows.pairs(slice(None))
        ]
        return rows, (context, windows)

    def conclude(
        self, asked: tuple[str, Windows], outputs: Sequence[Arrays]
    ) -> dict[str, Any]:
        """Return the answer, from the outputs for each window.

        As the SavedModel does, with its n-best lists.
        """
        context, windows = asked
        # One by one: those that were asked together have lengths of their own.
        rows = [{k: v[None] for k, v in output.items()} for output in outputs]
        (best,) = n_best([context], windows, rows, self._search)
        texts = [one.text if one.start >= 0 else "" for one in best]
        starts = [len(context[: max(0, one.start)].encode()) for one in best]
        columns: dict[str, list[Any]] = {
            "answers": texts,
            "scores": [one.start_log_prob + one.end_log_prob for one in best],
            "start": starts,
            "end": [
                start + len(text.encode())
                for start, text in zip(starts, texts, strict=True)
            ],
            "probabilities": [one.probability for one in best],
        }
        answer: dict[str, Any] = {"question_truncated": bool(windows.cut)}
        for name, values in columns.items():
            filling = [type(values[0])()] * (
                self._search.n_best_size - len(values)
            )
            answer[f"n_best_{name}"] = values + filling
        for name in ("answers", "scores", "start", "end"):
            answer[name.removesuffix("s")] = columns[name][0]
        if self._search.has_null:
            answer |= self._null(windows, outputs)
        return answer

    def _null(
        self, windows: Windows, outputs: Sequence[Arrays]
    ) -> dict[str, Any]:
        """Return what is said about "no answer"."""
        logits = np.array([output["cls_logits"] for output in outputs])
        (score,) = null_scores(windows, logits)
        answered = is_answered(
            score,
            self._options["null_score_diff_threshold"],
            original=self._options["original_threshold"],
        )
        return {
            "no_answer_score": score,
            "no_answer_probability": probabilities.sigmoid(np.array(score)),
            **({} if answered else {"answer": "", "start": 0, "end": 0}),
        }
