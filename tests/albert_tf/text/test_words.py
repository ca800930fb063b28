"""Words of texts."""

import pytest

from albert_tf.text import words

ALONE = (
    "\u0e01\u0eff\u1000\u109f\u1780\u17ff\u3040\u30ff\u31f0\u31ff\uff66\uff9f"
)
OUTSIDE = "\u0e00\u0f00\u0fff\u10a0\u177f\u3100\uffa0"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(U.S. 東京)", ["(", "U.S", ".", "東", "京", ")"]),
        ("", []),
        (" \t\u3000", []),
        ("don't -- Jean-Luc!", ["don't", "-", "-", "Jean-Luc", "!"]),
        ("NHKのニュース", ["NHK", *"のニュース"]),
        ("नमस्ते दुनिया।", ["नमस्ते", "दुनिया", "।"]),
        ("a\u00a0b", ["a", "b"]),
        ("$5 a+b €x 2€", ["$", "5", "a+b", "€", "x", "2", "€"]),
        # The ends of blocks without spaces, and their neighbours.
        ("a".join(ALONE), [*"a".join(ALONE)]),
        ("a".join(OUTSIDE), ["a".join(OUTSIDE)]),
    ],
)
def test_words_are_found(text, expected):
    starts, ends = words.ranges(text)
    pairs = zip(starts, ends, strict=True)
    assert [text[start:end] for start, end in pairs] == expected


def test_words_are_joined_with_spaces_where_their_script_has_them():
    written = ["He", "saw", "東", "京A", "."]
    text, starts = words.join(written)
    assert text == "He saw 東京A ."
    assert starts.tolist() == [0, 3, 7, 8, 11]
