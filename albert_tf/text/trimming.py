"""A vocabulary without the pieces that texts do not use."""

import re
from collections.abc import Iterable, Set

from albert_tf.common import errors, imports
from albert_tf.text import tokenization, wordpiece

sentencepiece_model_pb2 = imports.later("sentencepiece.sentencepiece_model_pb2")

_ROLES = "pad", "unk", "cls", "sep", "mask"
_LETTER = re.compile("(##|▁)?.?", re.DOTALL)  # Or nothing but the mark.


def trim(tokenizer: tokenization.AnyTokenizer, used_ids: Set[int]) -> bytes:
    """Return the file of a vocabulary with the pieces that are used.

    Special pieces, symbols and single letters stay, in the old order. Texts
    whose pieces all stay are cut as before; of a WordPiece list those without
    unknown words.
    """
    if isinstance(tokenizer, wordpiece.WordPieceTokenizer):
        special = {getattr(tokenizer, f"{name}_id") for name in _ROLES}
        pieces = _kept(tokenizer.pieces, special.union(used_ids))
        return "".join(f"{p}\n" for _, p in pieces if p != " ").encode()
    model = sentencepiece_model_pb2.ModelProto.FromString(tokenizer.model_bytes)
    if model.trainer_spec.model_type != model.trainer_spec.UNIGRAM:
        raise errors.UserError(
            "`keep_pieces_of` is given for a SentencePiece model that is not "
            "of type unigram. Its pieces are made of other pieces, which no "
            "text shows. Leave the option out."
        )
    ids = set(used_ids)
    # A number whose comma is cut off was cut with the comma first.
    ids.update(
        id_
        for id_, new in tokenizer.digit_comma_ids.items()
        if ids.issuperset(new)
    )
    normal = [n for n, p in enumerate(model.pieces) if p.type == p.NORMAL]
    ids.update(set(range(len(model.pieces))).difference(normal))
    # What unknown characters and [MASK] score depends on these.
    ids.update(
        f(normal, key=lambda n: model.pieces[n].score) for f in (min, max)
    )
    kept = [model.pieces[n] for n, _ in _kept(tokenizer.pieces, ids)]
    trimmed = sentencepiece_model_pb2.ModelProto()
    trimmed.CopyFrom(model)
    del trimmed.pieces[:]
    trimmed.pieces.extend(kept)
    trimmed.trainer_spec.vocab_size = len(kept)
    return bytes(trimmed.SerializeToString())


def _kept(pieces: Iterable[str], ids: Set[int]) -> list[tuple[int, str]]:
    return [
        (id_, piece)
        for id_, piece in enumerate(pieces)
        if id_ in ids or _LETTER.fullmatch(piece)
    ]
