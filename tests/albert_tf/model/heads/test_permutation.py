"""Two streams: what a query sees, and that it is what one stream would give."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from albert_tf.model.heads import permutation
from albert_tf.model.network.encoder import AlbertModel
from tests.albert_tf.model import passes

LENGTH, MASK = 12, 4
# Of two texts, what is asked for: position to rank.
RANKS = {2: 2, 5: 0, 9: 1}, {4: 0, 6: 1}


@pytest.fixture(params=[("all", "relative"), ("attention", "buckets")])
def model(small_config, request):
    share, bias = request.param
    config = dataclasses.replace(
        small_config,
        share=share,
        position_bias=bias,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return make_model(config)


def make_model(config, **options):
    keras.utils.set_random_seed(1)
    return passes.fill(
        permutation.PermutationPretrainer(AlbertModel(config, **options))
    )


def make_batch():
    """The pieces with a rank are asked for, the others open."""
    ids = np.random.default_rng(2).permutation(np.arange(5, 300))
    ids = ids[: 2 * LENGTH].reshape(2, LENGTH)
    ranks, horizons = np.full([2, LENGTH], -1), np.zeros([2, LENGTH])
    queries, positions = ids.copy(), np.zeros([2, 3])
    for row, asked in enumerate(RANKS):
        places = sorted(asked)
        ranks[row, places] = [asked[place] for place in places]
        horizons[row, places] = ranks[row, places]
        queries[row, places] = MASK
        positions[row, : len(places)] = places
    return passes.tensors(
        {
            "input_ids": ids,
            "segment_ids": (np.arange(LENGTH) > [[6], [8]]).astype(int),
            "query_ids": queries,
            "ranks": ranks,
            "horizons": horizons,
            "masked_lm_positions": positions,
        }
    )


@pytest.mark.parametrize("training", [False, True])
def test_gradients_reach_exactly_what_comes_before(model, training):
    """By the words; one is padding, and two, which nothing sees."""
    batch = make_batch()
    real = np.arange(LENGTH) < [[LENGTH - 1], [LENGTH - 2]]
    batch["ranks"] += tf.constant(np.where(real, 0, 2 * LENGTH), tf.int32)
    asked = [(row, p) for row, ranks in enumerate(RANKS) for p in sorted(ranks)]
    with tf.GradientTape(persistent=True) as tape:
        logits = model(
            batch, training=training, dropout_seed=tf.constant([1, 2])
        )["masked_lm_logits"]
        # Other words only: the head has the table, too.
        losses = [
            tf.reduce_sum(
                tf.sin(logits[row, sorted(RANKS[row]).index(p), 300:])
            )
            for row, p in asked
        ]
    table = model.encoder.embeddings.word_embeddings
    for loss, (row, place) in zip(losses, asked, strict=True):
        gradient = tf.convert_to_tensor(tape.gradient(loss, table)).numpy()
        reached = np.abs(gradient[batch["input_ids"].numpy()]).max(-1) > 0
        expected = np.zeros_like(reached)
        expected[row] = real[row]
        ranks = RANKS[row]
        later = [p for p, rank in ranks.items() if rank >= ranks[place]]
        expected[row, later] = False
        np.testing.assert_array_equal(reached, expected)


@pytest.mark.parametrize("training", [False, True])
def test_two_streams_are_one_with_the_queries_at_its_end(model, training):
    """Nothing sees the queries. Plain, and with the operations of training."""
    batch = make_batch()
    two = model(batch, training=training, dropout_seed=tf.constant([1, 2]))
    at = batch["masked_lm_positions"]
    places = tf.concat([[[*range(LENGTH)]] * 2, at], 1)
    mask = np.zeros([2, LENGTH + 3, LENGTH + 3], np.int32)
    for text, row, seen in np.ndindex(2, LENGTH + 3, LENGTH):
        order, place = RANKS[text], int(places[text, row])
        is_before = order.get(seen, -1) < order.get(place, 0)
        mask[text, row, seen] = is_before or row == seen
    one = model.encoder(
        {
            "input_ids": tf.concat(
                [batch["input_ids"], tf.where(at > 0, MASK, 0)], 1
            ),
            "segment_ids": tf.gather(
                batch["segment_ids"], places, batch_dims=1
            ),
            "position_ids": places,
            "input_mask": tf.constant(mask),
        },
        training=training,
        dropout_seed=tf.constant([1, 2]),
    )["sequence_output"][:, LENGTH:]
    found, expected = two["masked_lm_logits"], model.words.word_logits(one)
    real = at > 0
    np.testing.assert_allclose(found[real], expected[real], atol=4e-7, rtol=0)


def test_both_streams_draw_dropout_of_their_own(small_config, monkeypatch):
    model = make_model(small_config)
    assert {n.split("/")[0] for n in passes.head_of(model)} == {"plm"}
    seeds, embed = [], AlbertModel.embed

    def noted(self, inputs, seed):
        seeds.append(tuple(seed.numpy()))
        return embed(self, inputs, seed)

    monkeypatch.setattr(AlbertModel, "embed", noted)
    seed = tf.constant([1, 2])
    model(make_batch(), training=True, dropout_seed=seed)
    expected = passes.fold(seed, 0), passes.fold(seed, 0, 2**28)
    assert seeds == [tuple(key.numpy()) for key in expected]


@pytest.mark.parametrize("share", ["all", "attention"])
def test_recomputing_changes_no_number(small_config, share):
    config = dataclasses.replace(
        small_config,
        share=share,
        position_bias="alibi",
        num_hidden_layers=2,
        num_hidden_groups=1,
    )
    passes.assert_recomputing_changes_nothing(
        make_model, config, make_batch(), "masked_lm_logits", blocks=4
    )
