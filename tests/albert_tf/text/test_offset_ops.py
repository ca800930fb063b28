"""The ranges of many texts as TensorFlow operations.

test_tokenization_ops compares their results with Python's.
"""

import tensorflow as tf

from albert_tf.text import offset_ops, offsets
from tests.albert_tf.text import hard_texts


def ragged(*rows):
    return tf.ragged.constant(
        [list(row) for row in rows], tf.int32, ragged_rank=1
    )


def test_composed_units_are_those_of_python():
    texts = hard_texts.mixed(200)
    units = offset_ops.to_composed_units(tf.constant(texts))
    found = tf.RaggedTensor.from_value_rowids(
        units.texts, units.rows, len(texts)
    ).to_list()
    expected = [offsets._composed_units(text) for text in texts]
    assert [[u.decode() for u in row] for row in found] == expected


def test_bytes_of_cleaned_texts_have_the_place_of_their_unit():
    units = offset_ops.to_characters(tf.constant(["a\u00e9b", "", "c"]))
    assert units.each(tf.strings.length).numpy().tolist() == [1, 2, 1, 1]
    starts, ends = units.sources(tf.constant([1, 0, 2, 1]))
    assert starts.to_list() == [[0, 3, 3], [], [0]]
    assert ends.to_list() == [[1, 4, 4], [], [1]]


def test_one_space_of_each_run_is_kept():
    expected = {
        "": "",
        "ab": "00",
        " a ": "000",  # No run goes on in the next text.
        " ": "0",
        "a b": "010",
        "a\t  b": "00100",  # The first plain one.
        "a\t\nb": "0100",  # Without one, the first.
        " \ta\t b\n": "0000100",
    }
    units = offset_ops.to_characters(tf.constant([*expected]))
    kept = offset_ops.kept_spaces(units, units.texts == " ").numpy()
    found = "".join(str(int(value)) for value in kept)
    assert found == "".join(expected.values())


def test_entries_of_rows():
    rows = tf.constant([0, 0, 2, 5, 5])
    assert offset_ops.is_first(rows).numpy().tolist() == [1, 0, 1, 1, 0]
    assert offset_ops.is_first(rows[:0]).numpy().tolist() == []
    # Places beyond a row are its nearest entries.
    rows, places = ragged([4, 5, 6], [7]), ragged([2, -1, 9], [1, 0])
    found = offset_ops.entries_at(rows, places)
    assert found.numpy().tolist() == [6, 4, 6, 7, 7]
    longer = offset_ops.with_last(ragged([1], []), tf.constant([8, 9]))
    assert longer.to_list() == [[1, 8], [9]]
