"""Tags of words to spans; test_tagging.py has the way from pieces to words."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics import sequence_labeling

from albert_tf.tasks.tagging import portable


@given(
    st.lists(
        st.sampled_from(["O", *(f"{p}-{t}" for p in "BIES" for t in "xy")])
    )
)
def test_tags_mean_the_entities_of_seqeval(tags):
    bio, misfits = portable.to_bio(tags)
    found = [
        (type_, first, end - 1) for type_, first, end in portable.entities(bio)
    ]
    assert found == sequence_labeling.get_entities(tags)
    assert found == sequence_labeling.get_entities(bio)
    assert portable.to_bio(bio) == (bio, [])
    assert all(bio[i][0] == "B" and tags[i][0] in "IE" for i in misfits)


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("B-PER", "I-PER"),
        ("I-PER", "I-PER"),
        ("O", "O"),
        ("NOUN", "NOUN"),
        ("VB-PAST", "VB-PAST"),
    ],
)
def test_a_word_in_the_piece_before_goes_on_with_its_entity(tag, expected):
    assert portable.continued(tag) == expected


@pytest.mark.parametrize("end", [1, 2])
def test_words_go_on_in_a_piece_that_reaches_into_them(end):
    """Of the second word nothing is left, unless the piece has some of it."""
    words = (0, 1), (1, 2)
    first, goes_on = portable.find_pieces(words, np.array([0]), np.array([end]))
    assert first.tolist() == [0, -1]
    assert goes_on.tolist() == [False, end == 2]
    found = portable.tags_of_words(
        np.array([[0.25, 0.75]]), first, goes_on, ("O", "B-x")
    )
    assert found == [("B-x", 0.75), ("I-x", 0.75) if end == 2 else ("O", 0.0)]


def test_a_piece_of_no_character_belongs_to_no_word():
    pieces = np.array([1, 1]), np.array([1, 2])
    first, _ = portable.find_pieces([(0, 2)], *pieces)
    assert first.tolist() == [1]


def test_tags_beside_those_of_entities_are_outside():
    """As the models of Hugging Face have them for pieces and special tokens."""
    given = ["X", "I-x", "[CLS]", "I-x", "E-"]
    bio, misfits = portable.to_bio(given)
    assert bio == ["O", "B-x", "O", "B-x", "O"]
    assert misfits == [1, 3]


def test_other_letters_of_entities():
    """BILOU and BMES."""
    given = ["U-x", "U-x", "I-x", "B-x", "L-x", "I-x", "B-x", "M-x", "E-x"]
    bio, misfits = portable.to_bio(given)
    assert "".join(tag[0] for tag in bio) == "BBBBIBBII"
    assert misfits == [2, 5]


@pytest.mark.parametrize(
    ("labels", "tags", "expected", "last"),
    [
        ("O B-x I-x", "B-x O B-x I-x I-x", "ab:x efg:x", (6, 9, 0.625)),
        ("N V P", "V N P P P", "ab:V cd:N e:P f:P g:P", (8, 9, 0.375)),
    ],
)
def test_from_pieces_to_words_to_spans(labels, tags, expected, last):
    """A piece may begin with the space before a word, or have no more."""
    text, words = "ab cd efg", ((0, 2), (3, 5), (6, 7), (7, 8), (8, 9))
    starts = np.array([0, 1, 2, 4, 5, 6, 8])  # a b _c d _ ef g
    ends = np.array([1, 2, 4, 5, 6, 8, 9])
    first, goes_on = portable.find_pieces(words, starts, ends)
    assert first.tolist() == [0, 2, 5, -1, 6]
    assert goes_on.tolist() == [False, False, False, True, False]
    odds = np.zeros([7, 3])
    odds[[1, 3, 4], 0] = 1
    odds[[0, 2, 5, 6], [1, 0, 2, 2]] = 0.5, 0.75, 0.75, 0.375
    found = portable.tags_of_words(odds, first, goes_on, labels.split())
    chances = [0.5, 0.75, 0.75, 0.75, 0.375]
    assert found == [*zip(tags.split(), chances, strict=True)]
    spans = portable.spans(text, words, found)
    named = [f"{span['text']}:{span['label']}" for span in spans]
    assert named == expected.split()
    assert tuple(spans[-1][n] for n in ("start", "end", "score")) == last
