"""Where dropout acts, how much it drops, and that no two draws are the same.

A pass in training is computed again in plain NumPy, with masks drawn from the
keys that are written down here: a change of a place, a rate, the scale of what
is kept, or a key is a change of the numbers.
"""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from albert_tf.model.config import AlbertConfig
from albert_tf.model.heads import (
    classification,
    multiple_choice,
    question_answering,
)
from albert_tf.model.losses import objectives
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.model.optimizers import optimization
from albert_tf.training import train_step
from tests.albert_tf.model import passes
from tests.conftest import make_replicas
from tests.reference import encoder as reference

SEED = (12345, 7)
# Three layers in two groups; eight blocks in a row would add up roundings to
# just the tolerance.
SHALLOW = {"num_hidden_layers": 3, "inner_group_num": 1}
# The stream of heads; see model/heads/model_with_head.py.
HEAD = 2**30


def fold(seed, *numbers):
    """The key of a use: of a pass, then of a block, then of a place in it."""
    for number in numbers:
        seed = tf.random.experimental.stateless_fold_in(seed, number)
    return seed


def drop(x, rate, key):
    """Keep where the draw is not below the rate, and scale up what is kept."""
    draws = tf.random.stateless_uniform(x.shape, key).numpy()
    return np.where(draws >= np.float32(rate), x / (1 - rate), 0.0)


@dataclasses.dataclass(frozen=True)
class Dropout:
    """The dropout of an encoder, for the reference.

    The key of a block is that of the block before it, folded with 1. In a
    block, the places that drop anything are counted from 1.
    """

    config: AlbertConfig
    seed: tuple[int, int]

    def __call__(self, place, block, x):
        hidden = self.config.hidden_dropout_prob
        shares = self.config.attention_probs_dropout_prob
        whole = fold(self.seed, 0)
        if place == reference.EMBEDDINGS:
            return drop(x, hidden, fold(whole, 1)) if hidden else x
        rates = {
            reference.PROBABILITIES: shares,
            reference.ATTENTION: hidden,
            reference.FEED_FORWARD: hidden,
        }
        if not rates[place]:
            return x
        number = 1 + [p for p, r in rates.items() if r].index(place)
        key = fold(whole, *[1] * (block + 1), number)
        return drop(x, rates[place], key)


@pytest.fixture
def make_encoder(small_config):
    """Makes an encoder with weights that show every change."""

    def make(**changes):
        config = dataclasses.replace(small_config, **changes)
        return passes.fill(AlbertModel(config))

    return make


@pytest.mark.parametrize(
    ("hidden", "shares"), [(0.25, 0.4), (0.25, 0.0), (0.0, 0.4), (0.0, 0.0)]
)
def test_training_equals_plain_numpy_with_the_same_masks(
    make_encoder, hidden, shares
):
    encoder = make_encoder(
        **SHALLOW,
        hidden_dropout_prob=hidden,
        attention_probs_dropout_prob=shares,
    )
    batch = passes.make_batch()
    actual = encoder(batch, training=True, dropout_seed=tf.constant(SEED))
    plain = reference.Encoder(
        encoder.config, passes.values(encoder), Dropout(encoder.config, SEED)
    )
    expected = plain.encode(*(tensor.numpy() for tensor in batch.values()))
    passes.assert_close(actual, expected)


@pytest.fixture
def uses(monkeypatch):
    """Every dropout that happens from here on: its rate, seed and shape."""
    noted = []
    plain = tf.nn.experimental.stateless_dropout

    def note(x, rate, seed):
        noted.append((rate, tuple(seed.numpy().tolist()), tuple(x.shape)))
        return plain(x, rate, seed)

    monkeypatch.setattr(tf.nn.experimental, "stateless_dropout", note)
    return noted


@pytest.mark.parametrize("wanted", [10, 4])
def test_every_dropout_of_a_pass_is_different(make_encoder, uses, wanted):
    """The last layer drops at the wanted positions only."""
    encoder = make_encoder(
        hidden_dropout_prob=0.25, attention_probs_dropout_prob=0.4
    )
    encoder(
        passes.make_batch(),
        training=True,
        dropout_seed=tf.constant(SEED),
        output_positions=tf.zeros([3, wanted], tf.int32),
    )
    layers = 4 * 2
    assert [(rate, shape) for rate, _, shape in uses] == [
        (0.25, (3, 10, 8)),
        *[
            (0.4, (3, 2, 10, 10)),
            (0.25, (3, 10, 16)),
            (0.25, (3, 10, 16)),
        ]
        * (layers - 1),
        (0.4, (3, 2, wanted, 10)),
        (0.25, (3, wanted, 16)),
        (0.25, (3, wanted, 16)),
    ]
    assert len({seed for _, seed, _ in uses}) == len(uses)


# Heads, in a pass of training.

TRAINING = {"training": True, "dropout_seed": tf.constant(SEED)}


def test_classifier_drops_the_pooled_output(make_encoder):
    model = classification.AlbertClassifier(
        make_encoder(hidden_dropout_prob=0.2), 3, dropout=0.3
    )
    batch = passes.make_batch()
    cls = tf.zeros([3, 1], tf.int32)
    below = model.encoder(batch, output_positions=cls, **TRAINING)
    pooled = drop(below["pooled_output"].numpy(), 0.3, fold(SEED, HEAD, 1))
    expected = pooled @ model.output_weights.numpy().T
    expected += model.output_bias.numpy()
    passes.assert_close(model(batch, **TRAINING)["logits"], expected)


def test_choices_drop_what_a_classifier_does(make_encoder):
    model = multiple_choice.AlbertMultipleChoice(
        make_encoder(hidden_dropout_prob=0.2), dropout=0.3
    )
    ids = tf.random.stateless_uniform([3, 4, 6], [1, 2], 5, 400, tf.int32)
    scores = model({"input_ids": ids}, **TRAINING)["logits"]
    rows = {"input_ids": tf.reshape(ids, [12, 6])}
    expected = model.scorer(rows, **TRAINING)["logits"]
    passes.assert_close(scores, tf.reshape(expected, [3, 4]))
    assert model.scorer.dropout == 0.3


@pytest.mark.parametrize("searches", [False, True])
def test_squad_v2_drops_inside_the_answerability(make_encoder, searches):
    model = question_answering.AlbertSquadV2(
        make_encoder(hidden_dropout_prob=0.2), dropout=0.3
    )
    batch = passes.make_batch()
    x = model.encoder(batch, **TRAINING)["sequence_output"].numpy()
    weights = passes.values(model)
    batch["p_mask"] = 1 - batch["segment_ids"]
    if not searches:
        batch["start_positions"] = tf.constant([3, 4, 3])
    scores = (x @ weights["start_logits/dense/kernel"])[..., 0]
    scores = np.where(batch["p_mask"], -np.inf, scores)
    powers = np.exp(scores - scores.max(1, keepdims=True))
    shares = powers / powers.sum(1, keepdims=True)
    both = np.concatenate([np.einsum("bs,bsh->bh", shares, x), x[:, 0]], 1)
    hidden = np.tanh(
        both @ weights["answer_class/dense_0/kernel"]
        + weights["answer_class/dense_0/bias"]
    )
    hidden = drop(hidden, 0.3, fold(SEED, HEAD, 1))
    expected = (hidden @ weights["answer_class/dense_1/kernel"])[:, 0]
    passes.assert_close(model(batch, **TRAINING)["cls_logits"], expected)


# Updates.


class Number(keras.Model):
    """A model of one number."""

    def __init__(self):
        super().__init__()
        self.number = self.add_weight(name="number", initializer="ones")


def seeds_of_updates(replicas, parts, seed, steps=3):
    """The seeds that reach the model: step, replica and part to seed."""
    noted = {}

    def forward(model, batch, dropout_seed):
        place = tuple(batch["place"][0].numpy().tolist())
        noted[int(step.optimizer.iterations.numpy()), *place] = tuple(
            dropout_seed.numpy().tolist()
        )
        return {"loss": model.number * tf.ones([1])}, batch

    objective = objectives.Objective(
        losses={"loss": 1.0},
        metrics=(),
        sample_weights=lambda batch: {"loss": tf.ones([1])},
        of_outputs=lambda outputs, batch: outputs,
        forward=forward,
    )
    strategy = make_replicas(replicas)
    with strategy.scope():
        model, optimizer = Number(), optimization.AdamW(0.1)
        optimizer.build(model.trainable_variables)
        guard = train_step.Guard("float32")
    step = train_step.TrainStep(model, optimizer, objective, guard, parts, seed)

    def share(context):
        """Rows that know the replica and the part they are for."""
        replica = context.replica_id_in_sync_group
        return tf.constant([[replica, part] for part in range(parts)])

    for _ in range(steps):
        places = strategy.experimental_distribute_values_from_function(share)
        strategy.run(step, [{"place": places}])
    assert len(noted) == steps * replicas * parts
    return noted


@pytest.mark.parametrize(("replicas", "parts"), [(1, 1), (1, 3), (2, 2)])
def test_seed_of_an_update_is_of_run_step_replica_and_part(replicas, parts):
    first = seeds_of_updates(replicas, parts, seed=5)
    for (step, replica, part), seed in first.items():
        expected = fold([5, step], replica * parts + part)
        assert seed == tuple(expected.numpy().tolist())
    other = seeds_of_updates(replicas, parts, seed=6)
    assert len({*first.values(), *other.values()}) == 2 * len(first)
