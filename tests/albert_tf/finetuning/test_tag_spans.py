"""Tags of words to spans; test_tagging.py has the way from pieces to words."""

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
