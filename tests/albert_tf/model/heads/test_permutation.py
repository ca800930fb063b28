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


@pytest.fixture(params=["all", "attention"])
def model(small_config, request):
    config = dataclasses.replace(
        small_config,
        share=request.param,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return make_model(config)


def make_model(config, **options):
    keras.utils.set_random_seed(1)
    return passes.fill(
        permutation.PermutationPretrainer(AlbertModel(config, **options))
    )


def make_batch(ranks):
    """One text; the pieces with a rank are asked for, the others open.

    Args:
        ranks: {position: rank}.
    """
    ids = np.random.default_rng(2).permutation(np.arange(5, 300))[None, :LENGTH]
    orders, horizons = np.full([1, LENGTH], -1), np.zeros([1, LENGTH])
    queries = ids.copy()
    for place, rank in ranks.items():
        orders[0, place] = horizons[0, place] = rank
        queries[0, place] = MASK
    return passes.tensors(
        {
            "input_ids": ids,
            "segment_ids": (np.arange(LENGTH) > 6)[None].astype(int),
            "query_ids": queries,
            "ranks": orders,
            "horizons": horizons,
            "masked_lm_positions": np.array([sorted(ranks)]),
        }
    )


@pytest.mark.parametrize("training", [False, True])
def test_gradients_reach_exactly_what_comes_before(model, training):
    """By the words; the last two are padding, which nothing sees."""
    ranks = {2: 3, 5: 0, 6: 2, 9: 1}
    batch = make_batch(ranks)
    batch["ranks"] += tf.constant([[0] * (LENGTH - 2) + [2 * LENGTH] * 2])
    visible = {*range(LENGTH - 2)} - ranks.keys()
    for number, place in enumerate(sorted(ranks)):
        with tf.GradientTape() as tape:
            logits = model(
                batch, training=training, dropout_seed=tf.constant([1, 2])
            )["masked_lm_logits"][0, number]
            # Other words only: the head has the table, too.
            loss = tf.reduce_sum(tf.sin(logits[300:]))
        table = model.encoder.embeddings.word_embeddings
        gradient = tf.convert_to_tensor(tape.gradient(loss, table)).numpy()
        reached = np.abs(gradient[batch["input_ids"][0].numpy()]).max(-1) > 0
        before = {p for p, rank in ranks.items() if rank < ranks[place]}
        assert {*np.flatnonzero(reached)} == visible | before


@pytest.mark.parametrize("training", [False, True])
def test_two_streams_are_one_with_the_queries_at_its_end(model, training):
    """Nothing sees the queries. Plain, and with the operations of training."""
    ranks = {2: 3, 5: 0, 6: 2, 9: 1}
    batch, places = make_batch(ranks), sorted(ranks)
    two = model(batch, training=training, dropout_seed=tf.constant([1, 2]))
    order = [ranks.get(place, -1) for place in range(LENGTH)]
    mask = np.zeros([LENGTH + len(places)] * 2, np.int32)
    for row, place in enumerate([*range(LENGTH), *places]):
        for seen in range(LENGTH):
            is_before = order[seen] < max(order[place], 0)
            mask[row, seen] = is_before or row == seen
    at = tf.constant([places])
    one = model.encoder(
        {
            "input_ids": tf.concat(
                [batch["input_ids"], tf.fill(at.shape, MASK)], 1
            ),
            "segment_ids": tf.gather(
                batch["segment_ids"], [*range(LENGTH), *places], axis=1
            ),
            "position_ids": tf.constant([[*range(LENGTH), *places]]),
            "input_mask": tf.constant(mask[None]),
        },
        training=training,
        dropout_seed=tf.constant([1, 2]),
    )["sequence_output"][:, LENGTH:]
    np.testing.assert_allclose(
        two["masked_lm_logits"], model.words.word_logits(one), atol=4e-7, rtol=0
    )


def test_both_streams_draw_dropout_of_their_own(small_config, monkeypatch):
    model = make_model(small_config)
    seeds, embed = [], AlbertModel.embed

    def noted(self, inputs, seed):
        seeds.append(tuple(seed.numpy()))
        return embed(self, inputs, seed)

    monkeypatch.setattr(AlbertModel, "embed", noted)
    seed = tf.constant([1, 2])
    model(make_batch({2: 0}), training=True, dropout_seed=seed)
    expected = passes.fold(seed, 0), passes.fold(seed, 0, 2**28)
    assert seeds == [tuple(key.numpy()) for key in expected]


@pytest.mark.parametrize("share", ["all", "attention"])
def test_recomputing_changes_no_number(small_config, share):
    config = dataclasses.replace(
        small_config, share=share, position_bias="alibi"
    )
    passes.assert_recomputing_changes_nothing(
        make_model, config, make_batch({2: 3, 5: 0, 6: 2}), "masked_lm_logits"
    )
