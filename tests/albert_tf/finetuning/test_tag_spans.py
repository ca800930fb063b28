"""Tags of words to spans; test_tagging.py has the way from pieces to words."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics import sequence_labeling

from albert_tf.finetuning import tag_spans


@given(
    st.lists(
        st.sampled_from(["O", *(f"{p}-{t}" for p in "BIES" for t in "xy")])
    )
)
def test_tags_mean_the_entities_of_seqeval(tags):
    bio, misfits = tag_spans.to_bio(tags)
    found = [
        (type_, first, end - 1) for type_, first, end in tag_spans.entities(bio)
    ]
    assert found == sequence_labeling.get_entities(tags)
    assert found == sequence_labeling.get_entities(bio)
    assert tag_spans.to_bio(bio) == (bio, [])
    assert all(bio[i][0] == "B" and tags[i][0] in "IE" for i in misfits)


@pytest.mark.parametrize(
    ("tag", "expected"),
    [("B-PER", "I-PER"), ("I-PER", "I-PER"), ("O", "O"), ("NOUN", "NOUN")],
)
def test_a_word_in_the_piece_before_goes_on_with_its_entity(tag, expected):
    assert tag_spans.continued(tag) == expected


@pytest.mark.parametrize("end", [1, 2])
def test_words_go_on_in_a_piece_that_reaches_into_them(end):
    """Of the second word nothing is left, unless the piece has some of it."""
    words = (0, 1), (1, 2)
    first, goes_on = tag_spans.find_pieces(
        "ab", words, np.array([0]), np.array([end])
    )
    assert first.tolist() == [0, -1]
    assert goes_on.tolist() == [False, end == 2]
    found = tag_spans.tags_of_words(
        np.array([[0.25, 0.75]]), first, goes_on, ("O", "B-x")
    )
    assert found == [("B-x", 0.75), ("I-x", 0.75) if end == 2 else ("O", 0.0)]


def test_the_score_of_a_span_is_the_mean_of_its_words():
    tags = [("B-LOC", 0.5), ("I-LOC", 0.75)]
    (found,) = tag_spans.spans("a b", [(0, 1), (2, 3)], tags)
    assert found["score"] == 0.625
