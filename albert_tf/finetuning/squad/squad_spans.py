"""The spans that the outputs for windows propose as answers.

NumPy alone is imported: exports for other runtimes may have a copy of this
file.
"""

from collections.abc import Mapping

import numpy as np


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
        outputs: See `squad_answers.n_best`.
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
