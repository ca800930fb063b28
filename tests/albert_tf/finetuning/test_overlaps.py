import pytest

from albert_tf.finetuning import overlaps


@pytest.mark.parametrize(
    "arguments, expected",
    [
        ((10, 6, 3), ((0, 6), (3, 6), (6, 4))),
        ((5, 6, 3), ((0, 5),)),
        ((6, 6, 3), ((0, 6),)),
        ((7, 6, 3), ((0, 6), (3, 4))),
        ((0, 6, 3), ()),
        # A stride longer than a window: the windows lie side by side.
        ((5, 2, 3), ((0, 2), (2, 2), (4, 1))),
    ],
)
def test_split(arguments, expected):
    assert overlaps.split(*arguments) == expected
    assert overlaps.stride(8) == 3


def plain_max_context(windows, index, piece):
    """The original's rule for one piece of one window."""
    scores = []
    for begin, length in windows:
        end = begin + length - 1
        if begin <= piece <= end:
            score = min(piece - begin, end - piece) + 0.01 * length
            scores.append(score)
        else:
            scores.append(-1)
    return scores.index(max(scores)) == index


@pytest.mark.parametrize(
    "total, room, stride",
    [
        (0, 6, 3),
        (1, 1, 1),
        (10, 6, 3),
        (40, 5, 7),
        (95, 6, 3),
        (95, 9, 4),
        (95, 30, 7),
        # A window longer by a hundred pieces is worth one of context.
        (320, 300, 200),
        (700, 320, 128),
    ],
)
def test_max_context_follows_the_rule(total, room, stride):
    windows = overlaps.split(total, room, stride)
    best = overlaps.max_context(windows)
    for index, (begin, length) in enumerate(windows):
        expected = [
            plain_max_context(windows, index, begin + place)
            for place in range(length)
        ]
        assert best[index].tolist() == expected
