"""Windows and answers as TensorFlow operations, by hand and against NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.finetuning import overlaps
from albert_tf.serving.services import text_windows
from albert_tf.tasks.squad import service as answer_ops


def ints(*values):
    return tf.constant(values, tf.int32)


def ragged(*rows):
    return tf.ragged.constant(
        [list(row) for row in rows], tf.int32, ragged_rank=1
    )


# Questions of 2, 3 and 1 pieces over contexts of 9, 0 and 3: sequences of 10
# leave 5 and 6 pieces for contexts.
WINDOWS = text_windows.make_windows(ints(2, 3, 1), ints(9, 0, 3), 10, 3)


def test_windows_of_several_questions():
    assert [values.numpy().tolist() for values in WINDOWS] == [
        [0, 0, 0, 2],
        [0, 3, 6, 0],
        [5, 5, 3, 3],
        [4, 4, 4, 3],
    ]


@pytest.mark.parametrize("stride", [1, 3, 5, 128])
def test_windows_are_those_of_features(stride):
    lengths = range(30)
    found = text_windows.make_windows(
        ints(*[4] * 30), ints(*lengths), 12, stride
    )
    pairs = zip(found.begin.numpy(), found.length.numpy(), strict=True)
    expected = [
        pair for n in lengths if n for pair in overlaps.split(n, 5, stride)
    ]
    assert [tuple(map(int, pair)) for pair in pairs] == expected


def test_pieces_of_windows():
    contexts = ragged(range(10, 19), [], [30, 31, 32])
    assert text_windows.cut(WINDOWS, contexts).to_list() == [
        [10, 11, 12, 13, 14],
        [13, 14, 15, 16, 17],
        [16, 17, 18],
        [30, 31, 32],
    ]


def test_answers_may_be_in_the_context_and_at_cls():
    mask = answer_ops.p_mask(WINDOWS, tf.constant(10)).numpy()
    assert ["".join(map(str, row)) for row in mask] == [
        "0111000001",
        "0111000001",
        "0111000111",
        "0110001111",
    ]


def test_best_starts_meet_best_ends_of_the_sequence():
    windows = text_windows.make_windows(ints(1, 2), ints(2, 1), 8, 3)
    # [CLS] q [SEP] c c [SEP] and [CLS] q q [SEP] c [SEP], then padding, which
    # is never proposed. The last marker may be, as in `portable`.
    start = tf.constant(
        [[0.0, 1, 2, 5, 4, 3, 9, 9], [1.0, 2, 3, 4, 5, 6, 7, 8]]
    )
    end = tf.constant([[7.0, 0, 0, 1, 6, 8, 9, 9], [8.0, 1, 1, 0, 5, 6, 7, 9]])
    logits = {"start_logits": start, "end_logits": end}
    found = answer_ops.propose(logits, windows, 2)
    assert found.start.numpy().tolist() == [[[3], [4]], [[5], [4]]]
    assert found.end.numpy().tolist() == [[[5, 0]], [[0, 5]]]
    assert found.start_score.numpy().tolist() == [[[5], [4]], [[6], [5]]]
    assert found.end_score.numpy().tolist() == [[[8, 7]], [[8, 6]]]
    found = answer_ops.propose(logits, windows, 9)
    assert found.start.shape == (2, 8, 1)


def test_found_ends_belong_to_their_starts():
    starts, ends = np.arange(4).reshape(2, 2), np.arange(12).reshape(2, 2, 3)
    outputs = {
        "start_top_index": tf.constant(starts),
        "start_top_log_probs": tf.constant(-starts),
        "end_top_index": tf.constant(ends.reshape(2, 6)),
        "end_top_log_probs": tf.constant(-ends.reshape(2, 6)),
    }
    found = answer_ops.propose(outputs, WINDOWS, 2)
    expected = [starts[..., None], ends, -starts[..., None], -ends]
    for values, wanted in zip(found, expected, strict=True):
        np.testing.assert_array_equal(values, wanted)


def spans_of(start, end, max_answer_length=30, windows=WINDOWS):
    """Spans of every start and end of each window; pieces have 10 bytes."""
    lengths = (9, 0, 3)
    starts = ragged(*[[10 * i for i in range(n)] for n in lengths])
    ends = ragged(*[[10 * i + 9 for i in range(n)] for n in lengths])
    start = np.reshape(start, [len(start), -1, 1])
    end = np.reshape(end, [len(end), 1, -1])
    scores = [
        tf.reshape(tf.range(a.size, dtype=tf.float32), a.shape)
        for a in (start, end)
    ]
    found = answer_ops.find_spans(
        windows,
        starts,
        ends,
        answer_ops.Proposals(
            tf.constant(start, tf.int32),
            tf.constant(end, tf.int32),
            scores[0],
            10 * scores[1],
        ),
        max_answer_length,
    )
    return [values.numpy().tolist() for values in found]


def test_spans_have_the_bytes_of_their_pieces():
    # Pieces (1, 2), (1, 4), (3, 4), (4, 4), (4, 7) and (8, 8) of the first
    # context, (0, 1) and (0, 0) of the last. Window 1 sees piece 4 better.
    found = spans_of(
        start=[[5, 7], [5, 9], [4, 6], [3, 5]],
        end=[[6, 8], [5, 8], [6, 5], [4, 3]],
        max_answer_length=4,
    )
    assert found == [
        [0, 6, 6, 8],
        [10, 10, 30, 40, 40, 80, 0, 0],
        [29, 49, 49, 49, 79, 89, 19, 9],
        [0, 10, 11, 22, 32, 45, 66, 76],
    ]


@pytest.mark.parametrize(
    "start, end, max_answer_length",
    [
        (3, 5, 30),  # In the question.
        (9, 9, 30),  # At the last marker.
        (5, 4, 30),
        (5, 9, 30),
        (4, 6, 2),
        (0, 0, 30),
    ],
)
def test_spans_that_are_no_answers(start, end, max_answer_length):
    rest = [0, 0, 0]
    found = spans_of([start, *rest], [end, *rest], max_answer_length)
    assert found[0] == [0, 0, 0, 0]


def test_a_piece_is_answered_by_the_window_that_sees_it_best():
    """Piece 3 stands in the windows 0 (with one piece behind it) and 1."""
    assert spans_of([7, 0, 0, 0], [7, 0, 0, 0])[0][-1] == 1
    assert spans_of([0, 4, 0, 0], [0, 4, 0, 0])[0][-1] == 0
    found = text_windows.sees_best(WINDOWS, ragged(range(9), [], range(3)))
    expected = overlaps.max_context(((0, 5), (3, 5), (6, 3)))
    for row, best in zip(found.numpy(), expected, strict=False):
        assert row[: len(best)].tolist() == best.tolist()
    # The length of a window counts a little.
    pairs = (0, 400), (380, 260)
    begin, length = zip(*pairs, strict=True)
    long = text_windows.WindowTensors(
        ints(0, 0), ints(*begin), ints(*length), ints(5, 5)
    )
    found = text_windows.sees_best(long, ragged(range(640))).numpy()
    expected = overlaps.max_context(pairs)
    for row, best in zip(found, expected, strict=True):
        assert row[: len(best)].tolist() == best.tolist()


def test_lowest_score_for_no_answer_counts():
    found = answer_ops.null_scores(
        tf.constant([3.0, -1.0, 2.0, 4.0]), WINDOWS, tf.constant(3)
    )
    assert found.numpy().tolist() == [-1.0, 1e6, 4.0]


def n_best(context, spans, size):
    """The entries of one question, spans given as (start, end, score).

    Others stand before and behind it.
    """
    other = 0, 2, 5.0
    starts, ends, scores = zip(other, *spans, other, strict=True)
    found = answer_ops.n_best(
        tf.constant(["other", context, "last"]),
        answer_ops.SpanTensors(
            ints(0, 1, len(spans) + 1, len(spans) + 2),
            tf.constant(starts, tf.int32),
            tf.constant(ends, tf.int32),
            tf.constant(scores, tf.float64),
        ),
        size,
        empty_score=-9.0,
    )
    return {
        name.removeprefix("n_best_"): values.numpy()[1].tolist()
        for name, values in found.items()
    }


@pytest.mark.parametrize(
    ("context", "spans", "answers", "starts", "scores"),
    [
        (  # "it " and "it" are one text; the better one counts.
            "it is it",
            [(6, 8, 1.0), (0, 3, 2.0), (2, 6, 1.5)],
            ["it", "is", "", ""],
            [0, 3, 0, 0],
            [2.0, 1.5],
        ),
        (  # Equal scores stay in order.
            "a b c d",
            [(4, 5, 1.0), (0, 1, 1.0), (2, 3, 3.0), (6, 7, 1.0)],
            ["b", "c", "a", "d"],
            [2, 4, 0, 6],
            [3.0, 1.0, 1.0, 1.0],
        ),
        (  # What is beyond the list gets no probability.
            "a b c",
            [(4, 5, 1.0), (0, 1, 3.0), (2, 3, 2.0), (0, 3, 1.5)],
            ["a", "b"],
            [0, 2],
            [3.0, 2.0],
        ),
        ("a", [], ["", "", ""], [0, 0, 0], [-9.0]),
        (  # White space alone is no answer.
            "ab  c",
            [(2, 4, 1.0), (2, 3, 0.9), (0, 4, 0.5)],
            ["ab", "", ""],
            [0, 0, 0],
            [0.5],
        ),
        ("ab  c", [(2, 4, 1.0)], ["", ""], [0, 0], [-9.0]),
        # Nothing ends before the first character.
        ("éa", [(0, 0, 1.0)], ["é", ""], [0, 0], [1.0]),
    ],
)
def test_n_best_lists(context, spans, answers, starts, scores):
    size = len(answers)
    padding = [0] * (size - len(scores))
    texts = [answer.encode() for answer in answers]
    odds = np.exp(scores) / np.exp(scores).sum()
    assert n_best(context, spans, size) == {
        "answers": texts,
        "scores": scores + padding,
        "probabilities": pytest.approx([*odds, *padding]),
        "start": starts,
        "end": [n + len(text) for n, text in zip(starts, texts, strict=True)],
    }


def test_texts_are_compared_beyond_one_block(monkeypatch):
    monkeypatch.setattr(answer_ops, "_AT_ONCE", 2)
    spans = [(0, 1, 9.0), (2, 3, 8.0), (4, 5, 7.0), (0, 3, 6.0), (0, 5, 5.0)]
    found = n_best("a a a", spans, size=3)
    assert found["answers"] == [b"a", b"a a", b"a a a"]
    assert found["scores"] == [9.0, 6.0, 5.0]
