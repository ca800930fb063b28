"""From the model's outputs for windows to one answer per question.

The third step of a SQuAD run. Every window proposes spans; the spans of all
windows of a question are ranked together, turned into texts of the paragraph,
and for SQuAD 2.0 compared with the score for "no answer".

Source: in the original, squad_utils.accumulate_predictions_v1/_v2,
write_predictions_v1/_v2 and find_best_thresh_v2.
"""

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from albert_tf.common import ranges
from albert_tf.common.options import checked, option, shown
from albert_tf.finetuning import overlaps
from albert_tf.finetuning.squad import squad_data, squad_features, squad_spans

# The answer to a question whose windows propose nothing.
_EMPTY_V1 = ("empty", 0.0)
_EMPTY_V2 = ("", -1e6)
# The score for "no answer" of a question without a window.
_NO_WINDOW = 1e6

_BLOCK = 1024  # Windows whose pairs are ranked together; bounds the memory.


@dataclasses.dataclass(frozen=True)
@checked
@shown(Data="n_best_size max_answer_length")
class AnswerOptions:
    """How answers are chosen."""

    n_best_size: int = option(
        20,
        "Answers per question in nbest_predictions.json.",
        within=ranges.N_BEST,
        may_change=True,
    )
    max_answer_length: int = option(
        30,
        "Pieces of the longest answer.",
        within=ranges.TOKENS,
        may_change=True,
    )


class Candidate(NamedTuple):
    """One entry of the n-best list of a question.

    Attributes:
        probability: Among the entries of the list, which add up to 1.
        start_log_prob: Score of the start; a logit for SQuAD 1.1.
    """

    text: str
    probability: float
    start_log_prob: float
    end_log_prob: float


def n_best(
    questions: Sequence[squad_data.Question],
    windows: squad_features.Windows,
    outputs: Mapping[str, np.ndarray],
    options: AnswerOptions,
    *,
    white_space: bool = True,
) -> Iterator[list[Candidate]]:
    """Yield the best answers to each question.

    DIFFERS: padding is never among the best starts and ends of
    SQuAD 1.1, so answers do not depend on how long it is. In the original it
    does.

    Args:
        outputs: One row for each window, from either head: `start_logits` and
            `end_logits` [windows, S], or `start_top_log_probs` and
            `start_top_index` [windows, K], `end_top_log_probs` and
            `end_top_index` [windows, K * L].
        white_space: Whether white space alone is an answer, with the text "",
            as in the original.

    Yields:
        At least one entry, the best first; no two have the same text.
    """
    is_version_1 = "start_logits" in outputs
    empty_text, empty_score = _EMPTY_V1 if is_version_1 else _EMPTY_V2
    empty = Candidate(empty_text, 1.0, empty_score, empty_score)
    ranked = rank(windows, outputs, options)
    for question, spans in zip(questions, ranked, strict=True):
        found: dict[str, tuple[float, float]] = {}
        rows = zip(*(column.tolist() for column in spans), strict=True)
        for start, end, *scores in rows:
            if len(found) == options.n_best_size:
                break
            text = question.context[start:end].strip()
            if text or white_space:
                found.setdefault(text, (scores[0], scores[1]))
        totals = [one + other for one, other in found.values()]
        odds = [math.exp(total - max(totals)) for total in totals]
        yield [
            Candidate(text, one / sum(odds), *found[text])
            for text, one in zip(found, odds, strict=True)
        ] or [empty]


def rank(
    windows: squad_features.Windows,
    outputs: Mapping[str, np.ndarray],
    options: AnswerOptions,
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
    total, sees_best = len(windows), _sees_best(windows)
    blocks = [slice(at, at + _BLOCK) for at in range(0, total, _BLOCK)]
    spans = np.concatenate(
        [
            np.zeros([5, 0]),
            *(_find(windows, outputs, options, sees_best, b) for b in blocks),
        ],
        axis=1,
    )
    if "start_top_index" in outputs:
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


def _sees_best(windows: squad_features.Windows) -> np.ndarray:
    """Return which pieces each window sees best, bool [windows, longest]."""
    found = np.zeros([len(windows), windows.length.max(initial=0)], bool)
    for span in windows.spans:
        begins = windows.begin[span].tolist()
        lengths = windows.length[span].tolist()
        pairs = tuple(zip(begins, lengths, strict=True))
        for row, best in zip(
            found[span], overlaps.max_context(pairs), strict=True
        ):
            row[: len(best)] = best
    return found


def _find(
    windows: squad_features.Windows,
    outputs: Mapping[str, np.ndarray],
    options: AnswerOptions,
    sees_best: np.ndarray,
    block: slice,
) -> np.ndarray:
    """Return the valid spans of some windows, best starts first.

    Returns:
        float64 [5, spans]: window, first and last piece of the paragraph, score
        of start and end.
    """
    row, *span = squad_spans.find(
        {name: values[block] for name, values in outputs.items()},
        windows.first[block],
        windows.length[block],
        n_best_size=options.n_best_size,
        max_answer_length=options.max_answer_length,
    )
    window = row + block.start
    is_best = sees_best[window, span[0]]
    begin = windows.begin[window]
    columns = window, span[0] + begin, span[1] + begin, *span[2:]
    return np.stack(columns)[:, is_best]


def _merge_equal(spans: np.ndarray) -> np.ndarray:
    """Merge equal spans, at the position of the first; see `_find`."""
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


def null_scores(
    questions: Sequence[squad_data.Question],
    windows: squad_features.Windows,
    cls_logits: np.ndarray,
) -> dict[str, float]:
    """Return the score for "no answer" of each question.

    It is the lowest of its windows: one window that holds an answer is enough.
    Of several models it is the mean of theirs.

    Args:
        cls_logits: float [windows] or [windows, models], larger where there is
            no answer.

    Returns:
        Id to score; 1,000,000 for a question without a window.
    """
    return {
        question.id: float(
            cls_logits[span].min(axis=0, initial=_NO_WINDOW).mean()
        )
        for question, span in zip(questions, windows.spans, strict=True)
    }
