"""Units of masking: pieces, phrases, entities."""

import numpy as np

from albert_tf.data import marks


def test_words_outside_are_units():
    w, p, e = marks.WORD, marks.PHRASE, marks.ENTITY
    # A phrase of two words, of which the last two are an entity with the next.
    found = np.array([w, w, p, w | p, w | e, e, w])
    for level, starts in (
        ("basic", [1, 1, 1, 1, 1, 1, 1]),
        ("phrase", [1, 1, 0, 0, 1, 0, 1]),
        ("entity", [1, 1, 0, 1, 0, 0, 1]),
    ):
        assert marks.unit_starts(level, found).tolist() == starts
