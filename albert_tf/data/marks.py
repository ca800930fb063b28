"""Bit flags of each piece of a passage, such as that it starts a word."""

import numpy as np

WORD = 1  # It starts a word.
SENTENCE = 2  # It starts a sentence.
DOCUMENT = 4  # It starts a document.
UPPER = 8  # In the text it begins with an upper-case letter.
ELSEWHERE = 16  # The same piece occurs in the document outside of the passage.
PHRASE = 32  # It continues a phrase that has begun before it.
ENTITY = 64  # It continues an entity.
RESPONSE = 128  # It is of a response in a dialogue, R, and not of a query, Q.

# Bits that a piece is moved by to make room for its marks.
BITS = 8

# Levels of masking, to the mark that joins words into units; basic: pieces.
# Source: ERNIE, Sun et al., arXiv 1904.09223, section 3.2.
LEVELS = {"basic": 0, "phrase": PHRASE, "entity": ENTITY}


def unit_starts(level: str, piece_marks: np.ndarray) -> np.ndarray:
    """Return which pieces begin a unit that is masked as a whole, bool.

    Words outside of phrases or entities are units of their own.
    """
    if level == "basic":
        return np.ones(piece_marks.shape, bool)
    return (piece_marks & WORD > 0) & (piece_marks & LEVELS[level] == 0)
