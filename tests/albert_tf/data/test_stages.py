"""Stages of a training: an option such as a:9,b."""

import pytest

from albert_tf.data import stages


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (None, []),
        ("a", [(0, "a")]),
        ("a:9,b:5,c", [(0, "a"), (9, "b"), (14, "c")]),
        ("a,b", []),
        ("a:0,b", []),
        ("a:-1,b", []),
        ("a:x,b", []),
    ],
)
def test_stages_follow_each_other(text, found):
    assert list(stages.parse(text)) == found


def test_evaluation_has_the_last_stage():
    given = stages.parse("a:9,b:5,c")
    found = [stages.value_at(given, step) for step in (0, 8, 9, 13, 14, None)]
    assert found == [*"aabbcc"]
