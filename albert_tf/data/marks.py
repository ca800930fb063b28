"""What passages say about each of their pieces, as bits of a number."""

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
