"""Where the characters of cleaned text come from, without a vocabulary."""

import pytest

from albert_tf.text import cleaning, offsets
from tests.albert_tf.text import hard_texts


def ranges(text, lower=True, keep_accents=False):
    starts, ends = offsets.cleaned_ranges(
        text, lower=lower, keep_accents=keep_accents
    )
    return list(zip(starts.tolist(), ends.tolist(), strict=True))


@pytest.mark.parametrize(
    "text, expected",
    [
        ("", []),
        (" \t\n", []),
        ("ab", [(0, 1), (1, 2)]),
        ("\u00c9\t \u00bd", [(0, 1), (2, 3), (3, 4), (3, 4), (3, 4)]),
        (" a \t b ", [(1, 2), (2, 3), (5, 6)]),
        ("a\t\u3000b", [(0, 1), (2, 3), (3, 4)]),  # U+3000 becomes a space.
        ("a\t\nb", [(0, 1), (1, 2), (3, 4)]),
        ("e\u0301x", [(0, 1), (2, 3)]),
    ],
)
def test_ranges_without_accents(text, expected):
    assert ranges(text) == expected


@pytest.mark.parametrize(
    "text, expected",
    [
        ("e\u0301x", [(0, 2), (2, 3)]),
        ("\u1112\u1161\u11abx", [(0, 3), (3, 4)]),
        ("\u304b\u3099", [(0, 2)]),
        ("\u00bd", [(0, 1)] * 3),
        # A mark stays with a letter that it does not melt into.
        ("q\u0301x", [(0, 2), (0, 2), (2, 3)]),
    ],
)
def test_ranges_with_accents(text, expected):
    assert ranges(text, keep_accents=True) == expected


@pytest.mark.parametrize("keep_accents", [False, True])
@pytest.mark.parametrize("lower", [False, True])
def test_every_range_cleans_to_its_character(lower, keep_accents):
    """Ranges ascend, one for each character, which comes from there."""
    for text in [*hard_texts.mixed(300), *hard_texts.random_texts(300)]:
        rules = {"lower": lower, "keep_accents": keep_accents}
        cleaned = cleaning.preprocess_text(text, **rules)
        found = ranges(text, **rules)
        assert len(found) == len(cleaned)
        assert found == sorted(found)
        for character, (start, end) in zip(cleaned, found, strict=True):
            assert 0 <= start < end <= len(text)
            part = cleaning.fold_characters(text[start:end], **rules)
            # Lower-casing a sigma depends on its neighbours.
            assert character in part.replace("\u03c3", "\u03c2\u03c3") or (
                character == " " and text[start:end].isspace()
            )
