"""The normalization table in a SentencePiece model.

The model stores it compiled: sequences of bytes and their replacements.
SentencePiece replaces the longest sequence that matches.
"""

import functools

import numpy as np

_SIZE_BYTES = 4  # Of the number before the trie.


@functools.lru_cache(maxsize=1)
def replacements(compiled: bytes) -> dict[str, str]:
    r"""Return the content of `normalizer_spec.precompiled_charsmap`.

    Source: sentencepiece 0.2.1, normalizer.cc, Normalizer::Init: the size of
    the trie, the trie as a double array (darts_clone), and the replacements,
    each ended by a zero byte.

    Example, with 30k-clean.model:
        replacements(compiled)["\uff21"] = "A"

    Returns:
        From sequences of characters to replacements.
    """
    if not compiled:
        return {}
    size = int(np.frombuffer(compiled, "<u4", 1)[0])
    units = np.frombuffer(compiled, "<u4", size // 4, _SIZE_BYTES)
    texts = compiled[_SIZE_BYTES + size :]
    return {
        key.decode(): texts[start : texts.index(b"\0", start)].decode()
        for key, start in _entries(units.astype(np.int64))
    }


def _entries(units: np.ndarray) -> list[tuple[bytes, int]]:
    """Return every key of a double array with its value.

    Source: darts_clone, DoubleArrayImpl::commonPrefixSearch.
    """
    entries = []
    waiting = [(b"", _offset(units[0]))]
    codes = np.arange(1, 256)
    while waiting:
        prefix, place = waiting.pop()
        places = place ^ codes
        inside = places < len(units)
        labels = units[places[inside]] & 0x800000FF
        for code in codes[inside][labels == codes[inside]].tolist():
            unit = int(units[place ^ code])
            key, child = prefix + bytes([code]), (place ^ code) ^ _offset(unit)
            if unit >> 8 & 1:  # A key ends here.
                entries.append((key, int(units[child]) & 0x7FFFFFFF))
            waiting.append((key, child))
    return entries


def _offset(unit: int) -> int:
    """Return where the children of a unit are, relative to it."""
    return int(unit >> 10 << ((unit & 512) >> 6))
