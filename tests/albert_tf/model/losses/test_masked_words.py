"""Masked pieces of a batch: which, what they become, and their loss."""

import types

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.losses import masked_words
from tests.conftest import LOSS_RTOL

CLS, SEP, MASK, SIZE = 1, 2, 3, 50
TOKENIZER = types.SimpleNamespace(
    cls_id=CLS, sep_id=SEP, mask_id=MASK, vocab_size=SIZE
)
LENGTHS = [0, 1, 3, 9, 14, 30] * 20  # Pieces of each text.
SEED = tf.constant([3, 4])


@pytest.fixture(scope="module")
def inputs():
    pieces = np.random.default_rng(0).integers(4, SIZE, [len(LENGTHS), 32])
    ids, places = pieces.astype(np.int32), np.arange(32)
    ends = np.array(LENGTHS)[:, None] + 1
    ids[:, 0] = CLS
    ids = np.where(places == ends, SEP, np.where(places > ends, 0, ids))
    return {"input_ids": ids, "input_mask": (ids > 0).astype(np.int32)}


def test_pieces_are_masked_as_in_bert_and_predicted(inputs):
    asked = []
    logits = np.random.default_rng(1).normal(size=[len(LENGTHS), 32, SIZE])

    def model(batch, training, dropout_seed):
        asked.append({name: value.numpy() for name, value in batch.items()})
        assert training and (dropout_seed.numpy() != SEED.numpy()).any()
        positions = batch["masked_lm_positions"]
        return {"masked_lm_logits": tf.gather(logits, positions, batch_dims=1)}

    tensors = {name: tf.constant(value) for name, value in inputs.items()}
    losses = masked_words.loss(model, tensors, SEED, TOKENIZER)
    again = masked_words.loss(model, tensors, SEED, TOKENIZER)
    np.testing.assert_array_equal(losses, again)
    ids, changed, became = inputs["input_ids"], asked[0]["input_ids"], []
    for row, length in enumerate(LENGTHS):
        count = min(length, max(1, round(0.15 * length)))
        chosen = asked[0]["masked_lm_positions"][row, :count]
        assert len({*chosen}) == count
        assert all((0 < chosen) & (chosen <= length))
        others = np.setdiff1d(np.arange(32), chosen)
        np.testing.assert_array_equal(changed[row, others], ids[row, others])
        right, scores = ids[row, chosen], logits[row, chosen]
        terms = np.log(np.exp(scores).sum(-1)) - scores[range(count), right]
        expected = terms.mean() if count else 0.0
        np.testing.assert_allclose(losses[row], expected, rtol=LOSS_RTOL)
        became += zip(changed[row, chosen], right, strict=True)
    share = np.mean([new == MASK for new, _ in became])
    same = np.mean([new == old for new, old in became])
    assert len(became) > 150
    assert (share, same) == pytest.approx((0.8, 0.1), abs=0.06)
