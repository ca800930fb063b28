"""Spans of single windows; test_squad_answers.py has whole questions."""

import numpy as np
import pytest

from albert_tf.finetuning.squad import squad_spans


def pairs(outputs, first, length, size=4, longest=3):
    """Windows and pieces of the spans, and the sums of their scores."""
    window, start, end, *scores = squad_spans.find(
        outputs,
        np.array(first),
        np.array(length),
        n_best_size=size,
        max_answer_length=longest,
    )
    columns = window, start, end, np.round(sum(scores), 3)
    return [*zip(*(each.tolist() for each in columns), strict=True)]


def by_hand(starts, ends, first, length, size, longest):
    """The same of one window with logits, span by span."""
    real = first + length + 1
    best, last = (
        sorted(range(real), key=lambda i: -values[i])[:size]
        for values in (starts, ends)
    )
    return [
        (0, a - first, b - first, round(float(starts[a] + ends[b]), 3))
        for a in best
        for b in last
        if first <= a <= b < first + length and b - a < longest
    ]


@pytest.mark.parametrize("size", [1, 4, 50])
@pytest.mark.parametrize("longest", [1, 3, 50])
@pytest.mark.parametrize("length", [1, 5, 9])
def test_spans_inside_a_window_are_found(size, longest, length):
    logits = np.random.default_rng(length).normal(size=(2, 16))
    outputs = {"start_logits": logits[:1], "end_logits": logits[1:]}
    found = pairs(outputs, [4], [length], size, longest)
    assert found == by_hand(*logits, 4, length, size, longest)


def test_spans_that_the_model_chose():
    outputs = {
        "start_top_index": np.array([[2, 3], [3, 0]]),
        "start_top_log_probs": np.array([[-1.0, -2.0], [-1.0, -2.0]]),
        # Ends of the first start, then of the second one.
        "end_top_index": np.array([[2, 6, 4, 2], [4, 3, 3, 0]]),
        "end_top_log_probs": np.array([[-0.1, -0.2, -0.3, -0.4]] * 2),
    }
    assert pairs(outputs, [2, 3], [4, 2]) == [
        (0, 0, 0, -1.1),
        (0, 1, 2, -2.3),
        (1, 0, 1, -1.1),
        (1, 0, 0, -1.2),
    ]
