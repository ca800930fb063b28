"""What vocabularies make of a text, in numbers."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from absl import logging

from albert_tf.text import tokenization


def load(paths: Iterable[str]) -> dict[str, tokenization.AnyTokenizer]:
    """Open vocabularies; those of WordPiece end in .txt."""
    return {
        path: tokenization.load(
            tokenization.VocabularyOptions(None, path)
            if path.endswith(".txt")
            else tokenization.VocabularyOptions(path)
        )
        for path in paths
    }


def measure(
    lines: Sequence[str], tokenizer: tokenization.AnyTokenizer
) -> dict[str, float]:
    """Return what a vocabulary makes of lines with text.

    Words stand between spaces; the last two numbers are shares of all.
    """
    ids, _ = tokenizer.encode_flat(lines)
    words = " ".join(lines).split()
    parts, sizes = tokenizer.encode_flat(words)
    last = parts[np.cumsum(sizes)[sizes == 1] - 1]
    return {
        "pieces a word": len(ids) / len(words),
        "characters a piece": sum(map(len, words)) / max(1, len(ids)),
        "unknown pieces": float((ids == tokenizer.unk_id).mean()),
        "words in one piece": (last != tokenizer.unk_id).sum() / len(words),
    }


def log(
    lines: Sequence[str], tokenizers: Mapping[str, tokenization.AnyTokenizer]
) -> None:
    """Log a line about each vocabulary, named by its file."""
    for path, tokenizer in tokenizers.items():
        found = measure(lines, tokenizer)
        logging.info(
            "%s: %d pieces. In the first %d lines %.2f pieces a word, %.2f "
            "characters a piece, %.2f %% unknown pieces, %.1f %% of the words "
            "in one piece",
            path,
            tokenizer.vocab_size,
            len(lines),
            found["pieces a word"],
            found["characters a piece"],
            100 * found["unknown pieces"],
            100 * found["words in one piece"],
        )
