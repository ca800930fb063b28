"""The normalization table in a SentencePiece model.

The model stores it compiled: sequences of bytes and their replacements.
SentencePiece replaces the longest sequence that matches.
"""

import functools
import io
import sys
import tempfile

import numpy as np
import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from albert_tf.text import tokenization

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


def cleaning_model(tokenizer: tokenization.Tokenizer) -> bytes:
    """Return a SentencePiece model that cleans text as `tokenizer` does.

    For programs that give it texts as they are. Two rules look at more than one
    character and are left out: the final sigma, and that a number which
    continues a word begins one before a comma.
    """
    model = sentencepiece_model_pb2.ModelProto.FromString(tokenizer.model_bytes)
    spec = model.normalizer_spec
    normalizer = sentencepiece.SentencePieceNormalizer(
        model_proto=tokenizer.model_bytes,
        add_dummy_prefix=False,
        escape_whitespaces=False,
        remove_extra_whitespaces=False,
    )
    rules = dict(replacements(spec.precompiled_charsmap))
    for text in [*map(chr, range(1, sys.maxunicode + 1)), *rules]:
        cleaned = " " if text.isspace() else tokenizer.fold(text)
        if cleaned != text:
            rules[text] = normalizer.normalize(cleaned)
    compiled = io.BytesIO()
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as table:
        for pair in rules.items():
            codes = (" ".join(f"{ord(c):X}" for c in text) for text in pair)
            table.write("\t".join(codes) + "\n")
        table.flush()
        # Only its trainer compiles a table.
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["a"]),
            model_writer=compiled,
            vocab_size=8,
            hard_vocab_limit=False,
            normalization_rule_tsv=table.name,
            minloglevel=2,
        )
    trained = sentencepiece_model_pb2.ModelProto.FromString(compiled.getvalue())
    spec.CopyFrom(trained.normalizer_spec)
    for id_ in tokenizer.digit_comma_ids:
        model.pieces[id_].type = model.pieces[id_].UNUSED
    return bytes(model.SerializeToString())
