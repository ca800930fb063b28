"""Small vocabularies, written for a test."""

from sentencepiece import sentencepiece_model_pb2

PIECE = sentencepiece_model_pb2.ModelProto.SentencePiece
SPECIALS = {
    "<pad>": PIECE.CONTROL,
    "<unk>": PIECE.UNKNOWN,
    "[CLS]": PIECE.CONTROL,
    "[SEP]": PIECE.CONTROL,
    "[MASK]": PIECE.CONTROL,
}
BYTES = {f"<0x{byte:02X}>": PIECE.BYTE for byte in range(256)}
# "13," continues a word.
NUMBERS = [",", "▁", "▁13", "13,", "▁2012,", "▁2012", "▁no", "13", "7,", "7"]


def write_model(path, names, others=SPECIALS, byte_fallback=False, **flags):
    """Write a SentencePiece model; pieces in `others` have another type."""
    model = sentencepiece_model_pb2.ModelProto()
    for name, type_ in {**others, **dict.fromkeys(names, PIECE.NORMAL)}.items():
        model.pieces.add(piece=name, score=-1.0, type=type_)
    model.trainer_spec.pad_id = -1
    model.trainer_spec.byte_fallback = byte_fallback
    model.normalizer_spec.name = "identity"
    for name, value in flags.items():
        is_of_trainer = hasattr(model.trainer_spec, name)
        spec = model.trainer_spec if is_of_trainer else model.normalizer_spec
        setattr(spec, name, value)
    path.write_bytes(model.SerializeToString())
    return str(path)
