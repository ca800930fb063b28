"""Embeddings, masked words and sentence order against the live model."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.serving.services import encoder_service
from tests.albert_tf.serving import saved_services

LONG = " ".join(saved_services.TEXTS * 5)


def test_pretrained_signatures_of_ids(pretrained, tokenizer):
    inputs = saved_services.pack(
        tokenizer, saved_services.TEXTS, saved_services.SECONDS
    )
    positions = tf.constant([[1, 2, 0], [0, 1, 5], [3, 2, 1]])
    outputs = pretrained.signatures["mlm"](mlm_positions=positions, **inputs)
    expected = pretrained.model({**inputs, "masked_lm_positions": positions})
    assert set(outputs) == {"sequence_output", "pooled_output", "mlm_logits"}
    # Flat, as the original has it.
    logits = tf.reshape(expected["masked_lm_logits"], [9, 400])
    saved_services.assert_close(outputs["mlm_logits"], logits)
    outputs = pretrained.signatures["sentence_order"](**inputs)
    assert set(outputs) == {"sequence_output", "pooled_output", "sop_logits"}
    saved_services.assert_close(
        outputs["sop_logits"], expected["sentence_order_logits"]
    )


def test_embeddings_of_text(config, tokenizer):
    """Of an encoder without heads; those of a pretrained one are the same."""
    service = saved_services.make_service("encoder", config, tokenizer)
    texts = [*saved_services.TEXTS, LONG]
    outputs = service.functions["serving_default"](tf.constant(texts))
    inputs = saved_services.pack(tokenizer, texts)
    expected = service.encoder(inputs)
    assert set(outputs) == {"pooled_output", "mean_output", "truncated"}
    cut = saved_services.are_cut(tokenizer, texts)
    assert outputs["truncated"].numpy().tolist() == cut
    saved_services.assert_close(
        outputs["pooled_output"], expected["pooled_output"]
    )
    mask = inputs["input_mask"].numpy()
    for row, vectors in enumerate(expected["sequence_output"].numpy()):
        mean = vectors[mask[row] == 1].mean(0)
        saved_services.assert_close(outputs["mean_output"][row], mean)


def expected_fillings(model, tokenizer, text):
    """Pieces and probabilities for each mask of one text, the plain way."""
    ids = [
        tokenizer.cls_id,
        *tokenizer.encode_with_masks(text),
        tokenizer.sep_id,
    ]
    masks = [i for i, id_ in enumerate(ids) if id_ == tokenizer.mask_id]
    batch = {"input_ids": tf.constant([ids])}
    batch["masked_lm_positions"] = tf.constant([masks or [0]])
    logits = model(batch)["masked_lm_logits"][0, : len(masks)].numpy()
    odds = np.exp(logits - logits.max(-1, keepdims=True))
    odds /= odds.sum(-1, keepdims=True)
    best = odds.argsort(-1)[:, ::-1][:, : encoder_service.TOP_PIECES]
    pieces = [tokenizer.ids_to_pieces(row) for row in best.tolist()]
    return pieces, np.take_along_axis(odds, best, -1)


@pytest.mark.parametrize("masks", [[1, 0, 2], [0]])
def test_fill_mask(pretrained, tokenizer, masks):
    """Texts with so many masks; the others' rows are filled up."""
    texts = {0: "No gap.", 1: "The [MASK] rains.", 2: "[MASK] and [MASK]."}
    texts = [texts[count] for count in masks]
    outputs = pretrained.signatures["fill_mask"](text=tf.constant(texts))
    pieces = np.char.decode(outputs["pieces"].numpy().astype("S"), "utf-8")
    assert pieces.shape == (len(texts), max(masks), 5)
    for row, text in enumerate(texts):
        expected, odds = expected_fillings(pretrained.model, tokenizer, text)
        assert pieces[row, : len(expected)].tolist() == expected
        assert (pieces[row, len(expected) :] == "").all()
        padded = np.zeros(pieces.shape[1:])
        padded[: len(odds)] = odds
        saved_services.assert_close(outputs["probabilities"][row], padded)


def test_positions_are_as_many_as_sequences(pretrained):
    sample = pretrained.service.samples()["mlm"]
    twice = {key: tf.repeat(value, 2, 0) for key, value in sample.items()}
    twice["mlm_positions"] = twice["mlm_positions"][:1]
    with pytest.raises(tf.errors.InvalidArgumentError, match="mlm_positions"):
        pretrained.signatures["mlm"](**twice)


def test_rows_of_no_piece_are_never_proposed(config, tokenizer):
    """Their logits are the highest here."""
    padded = dataclasses.replace(config, vocab_size=tokenizer.vocab_size + 8)
    service = saved_services.make_service("pretraining", padded, tokenizer)
    bias = service.model.output_bias
    bias.assign(tf.one_hot(tokenizer.vocab_size + 1, padded.vocab_size) * 99)
    found = service.fill_mask(tf.constant(["It is [MASK].", "[MASK]"]))
    assert set(found["pieces"].numpy().ravel()) <= {
        piece.encode() for piece in tokenizer.pieces
    }
    assert (found["probabilities"].numpy() > 0.001).all()
    inputs = saved_services.pack(tokenizer, ["It is"])
    ids = [inputs[n] for n in ("input_ids", "input_mask", "segment_ids")]
    logits = service.mlm(*ids, tf.constant([[1, 2]]))["mlm_logits"]
    assert logits.shape == (2, tokenizer.vocab_size)
    assert logits.numpy().max() < 50
