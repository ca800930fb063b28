"""Which lines of a corpus stand in evaluation texts."""

from lab.measure import overlap

TEXT = (
    "The old man and his dog walked along the river to the mill, and there "
    "they slept. Nobody saw the two of them. Why?"
)


def test_thirteen_words_in_a_row():
    known = overlap.Overlap([TEXT])
    assert known.has(
        "Then: the old man AND HIS dog walked along the river, to the mill"
    )
    # Twelve words of the text, and another one.
    assert not known.has(
        "the old man and his dog walked along the river to the sea"
    )
    assert known.has(
        "so his dog walked along the river to the mill -- and there they slept"
    )


def test_short_lines_must_be_sentences():
    known = overlap.Overlap([TEXT])
    assert known.has("nobody saw the two of them")
    assert not known.has("nobody saw the two of")
    assert not known.has("Why?")  # Too common.


def test_texts_of_json_leave_out_the_names_of_members():
    value = {"a": ["x", {"b": "y"}, 3, None], "c": "z"}
    assert list(overlap.texts_in(value)) == ["x", "y", "z"]
