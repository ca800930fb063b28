"""Probabilities of hidden pieces, against plain loops over positions."""

import math

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.checkpoints import restoring
from albert_tf.model.config import AlbertConfig
from albert_tf.model.heads import pretraining
from albert_tf.model.network.encoder import AlbertModel
from lab.measure import held_out, minimal_pairs, scoring
from tests.conftest import refused

SENTENCES = ["Mara gave Ivo the lamp.", "Ivo sleeps.", "The lamp. Xyz"]


@pytest.fixture(scope="module")
def ask(model_dir):
    """The plain model: one sequence of ids to log2 probabilities [S, V]."""
    path = str(model_dir / "albert_config.json")
    config = AlbertConfig.from_json_file(path)
    model = pretraining.AlbertPretrainer(AlbertModel(config))
    restoring.restore(model, str(model_dir))

    def log2(ids):
        inputs = {
            "input_ids": tf.constant([ids]),
            "masked_lm_positions": tf.range(len(ids))[None],
        }
        logits = model(inputs)["masked_lm_logits"][0].numpy()
        logits = logits.astype(np.float64)
        top = logits.max(-1, keepdims=True)
        sums = np.exp(logits - top).sum(-1, keepdims=True)
        return (logits - top - np.log(sums)) / math.log(2)

    return log2


def test_scores_equal_those_of_one_sequence_at_a_time(
    masked_lm, ask, tiny_tokenizer
):
    texts = [tiny_tokenizer.encode(sentence) for sentence in SENTENCES]
    hidden = [[0, 2, 3], [1], [0, 4]]
    queries = [scoring.Query(*pair) for pair in zip(texts, hidden, strict=True)]
    # All in one batch, padded, in another order.
    answers = masked_lm.score(queries[::-1])[::-1]
    for (ids, places), answer in zip(queries, answers, strict=True):
        shown = [tiny_tokenizer.cls_id, *ids, tiny_tokenizer.sep_id]
        for place in places:
            shown[place + 1] = tiny_tokenizer.mask_id
        expected = ask(shown)
        for place, log2, right in zip(places, *answer, strict=True):
            row = expected[place + 1]
            np.testing.assert_allclose(log2, row[ids[place]], atol=1e-4)
            assert right == (row.argmax() == ids[place])


def test_batches_have_bounds_and_hold_every_query():
    queries = [
        scoring.Query([1] * (n % 60 + 1), [0] * (n % 7 + 1))
        for n in range(3000)
    ]
    batches = list(scoring._batches(queries))
    assert sorted(sum(batches, [])) == list(range(3000))
    assert len(batches) > 10
    for batch in batches:
        length = max(len(queries[n].ids) for n in batch) + 2
        width = max(len(queries[n].hidden) for n in batch)
        assert length * len(batch) <= 4096
        assert width * len(batch) <= 1024


def test_pseudo_log_likelihood_is_a_sum_over_single_masks(
    masked_lm, ask, tiny_tokenizer
):
    found = minimal_pairs.pseudo_log_likelihoods(
        masked_lm, [*SENTENCES, "mara gave ivo  the lamp.", SENTENCES[0]]
    )
    for sentence in SENTENCES:
        ids = tiny_tokenizer.encode(sentence)
        expected = 0.0
        for place, label in enumerate(ids):
            shown = [tiny_tokenizer.cls_id, *ids, tiny_tokenizer.sep_id]
            shown[place + 1] = tiny_tokenizer.mask_id
            expected += ask(shown)[place + 1, label]
        np.testing.assert_allclose(found[sentence], expected, atol=1e-3)
    # The same pieces: a tie.
    assert found["mara gave ivo  the lamp."] == found[SENTENCES[0]]


def test_bits_per_byte_by_a_plain_loop(masked_lm, ask, tiny_tokenizer):
    windows = [
        held_out.Window(("Mara", "gave", "Ívo,", "the", "lamp."), (1, 2)),
        held_out.Window(("Ivo", "\u0301", "sleeps", "long."), (1, 3)),
        held_out.Window(("\u0301", "Ivo"), (0,)),  # Nothing is hidden.
    ]
    bits, counts, right = 0.0, [], []
    for window in windows[:2]:
        words = [tiny_tokenizer.encode(word) for word in window.words]
        shown = [tiny_tokenizer.cls_id]
        for number, ids in enumerate(words):
            mask = [tiny_tokenizer.mask_id] * len(ids)
            shown += mask if number in window.hidden else ids
        log2 = ask([*shown, tiny_tokenizer.sep_id])
        for number in window.hidden:
            start = 1 + sum(map(len, words[:number]))
            rows = log2[start : start + len(words[number])]
            for row, label in zip(rows, words[number], strict=True):
                bits -= row[label]
            if words[number]:
                counts.append(len(words[number]))
                right.append(list(rows.argmax(-1)) == words[number])
    found = held_out.measure(masked_lm, windows)
    num_bytes = len("gaveÍvo,long.".encode())
    assert found["hidden_bytes"] == num_bytes == 14
    assert found["hidden_words"] == len(counts) == 3
    assert found["hidden_pieces"] == sum(counts)
    assert found["windows"] == 2
    assert found["word_accuracy"] == np.mean(right)
    piece_bits = found["piece_bits_per_byte"] * num_bytes
    np.testing.assert_allclose(piece_bits, bits, rtol=1e-4)
    count_bits = -sum(math.log2(counts.count(n) / 3) for n in counts)
    assert found["count_bits_per_byte"] == pytest.approx(count_bits / num_bytes)
    assert found["bits_per_byte"] == pytest.approx(
        found["piece_bits_per_byte"] + found["count_bits_per_byte"]
    )


def test_texts_longer_than_the_positions_are_refused(masked_lm):
    query = scoring.Query([7] * 63, [0])
    with refused("65 pieces.*64 positions"):
        masked_lm.score([query])
    assert len(masked_lm.score([scoring.Query([7] * 62, [0])])) == 1
