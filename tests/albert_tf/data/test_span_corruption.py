"""Spans that are replaced, and what stands in their place."""

import numpy as np
import pytest

from albert_tf.data import masking, span_corruption
from tests.conftest import digest

CLS, SEP, MASK, SIZE = 2, 3, 4, 2000
LAST = SIZE + span_corruption.SENTINELS - 1


def make_drawer(most, length):
    return span_corruption.SpanDrawer(
        masking.Masker(
            masking.MaskingOptions(max_predictions_per_seq=most),
            masking.Vocabulary(SIZE, CLS, SEP, MASK, np.zeros(0, np.uint8)),
        ),
        length,
    )


def draw(pieces, most, count=1):
    """Text and target of the same pieces, some times; two segments."""
    length = len(pieces) + 5
    middle = len(pieces) // 2
    ids = [CLS, *pieces[:middle], SEP, *pieces[middle:], SEP, 0, 0]
    ids = np.array([ids] * count)
    found = make_drawer(most, length).draw(
        {"input_ids": ids, "input_mask": (ids > 0).astype(int)},
        np.arange(count, dtype=np.uint64),
    )
    return found


def without_padding(row):
    return row[row > 0].tolist()


def put_together(text, target):
    """The original pieces, by a loop over both."""
    spans = {}
    for piece in target:
        if piece >= SIZE:
            spans[piece] = current = []
        else:
            current.append(piece)
    return [x for piece in text for x in spans.get(piece, [piece])]


@pytest.mark.parametrize(
    ("raw", "text", "target"), [(568, 512, 114), (141, 128, 29), (70, 64, 14)]
)
def test_lengths_are_those_of_the_released_program(raw, text, target):
    """Both with the end; ours has [CLS] in front."""
    pieces = np.arange(5, 5 + raw)
    found = draw(pieces, span_corruption.count_masked(raw))
    texts, targets = (
        without_padding(found[name][0]) for name in ("input_ids", "target_ids")
    )
    assert (len(texts) - 1, len(targets)) == (text, target)
    assert found["target_ids"].shape == (1, target)


@pytest.mark.parametrize(("raw", "most"), [(2, 5), (3, 5), (40, 20), (200, 9)])
def test_text_and_target_are_the_pieces(raw, most):
    pieces = list(range(5, 5 + raw))
    found = draw(pieces, most, 20)
    for text, target in zip(
        found["input_ids"], found["target_ids"], strict=True
    ):
        text, target = without_padding(text), without_padding(target)
        assert text[0] == CLS
        assert text[1] < SIZE  # It begins with text and ends with a span.
        assert text[-1] == target[-1] == SEP
        sentinels = [piece for piece in text if piece >= SIZE]
        assert text[-2] == sentinels[-1]
        assert sentinels == [LAST - n for n in range(len(sentinels))]
        assert put_together(text[1:-1], target[:-1]) == pieces
        hidden = min(most, max(1, round(0.15 * raw)))
        assert len(target) == hidden + len(sentinels) + 1
    assert not found["segment_ids"].any()
    np.testing.assert_array_equal(found["input_mask"], found["input_ids"] > 0)


def test_draws_follow_from_their_keys():
    short, long = draw([7], 3), draw(list(range(5, 105)), 20, 50)
    assert without_padding(short["input_ids"][0]) == [CLS, 7, SEP]
    assert not short["target_ids"].any()
    parts = [span_corruption.divide(5, 3, key).tolist() for key in range(99)]
    assert (
        digest(long["input_ids"], long["target_ids"], parts) == "977c770cf138"
    )
