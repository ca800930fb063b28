"""Stopping early against all layers and the rule applied afterwards."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.execution import adaptive
from albert_tf.model.heads import classification
from albert_tf.model.network import pooling
from albert_tf.model.network.encoder import AlbertModel
from tests.albert_tf.model import passes
from tests.conftest import PARITY_ATOL, tiny_config

EXITS = (1, 2, 4, 5)
RULES = [
    adaptive.Rule(patience=1),
    adaptive.Rule(patience=2),
    adaptive.Rule(patience=9),
    adaptive.Rule(entropy=0.85),
    adaptive.Rule(entropy=0.0),
    adaptive.Rule(patience=2, entropy=0.8),
]


def make_model(own_heads=False, **changes):
    config = tiny_config(num_hidden_layers=EXITS[-1], **changes)
    model = classification.AlbertClassifier(AlbertModel(config), 3)
    model.add_exits(EXITS[:-1], own_heads=own_heads)
    passes.fill(model, 0.4)
    # No label is the likeliest of nearly all sequences.
    logits = [every_depth(model, batch) for batch in batches()]
    means = np.concatenate(logits, 1).mean(1)
    for depth, mean in zip(EXITS, means, strict=True):
        _, bias = model.output_of(depth)
        bias.assign_sub(mean if own_heads else mean / len(EXITS))
    return model


def batches():
    """Batches of several sizes and lengths, with padding, and an empty one."""
    generator = np.random.default_rng(4)
    for count, length in ((1, 6), (7, 13), (20, 5), (0, 4)):
        lengths = generator.integers(1, length + 1, count)
        mask = np.arange(length) < lengths[:, None]
        ids = generator.integers(5, 400, [count, length])
        yield {
            "input_ids": tf.constant(ids * mask, tf.int32),
            "input_mask": tf.constant(mask, tf.int32),
            "segment_ids": tf.constant(
                mask & (np.arange(length) > 2), tf.int32
            ),
        }


def every_depth(model, batch):
    """Logits at every exit, float32 [exits, B, labels]."""
    encoder, found = model.encoder, []
    states = encoder(batch)["all_encoder_layers"]
    for depth in EXITS:
        x = states[depth * encoder.config.inner_group_num - 1]
        pooled = encoder.pooler(pooling.pool(encoder.config.pooling, x, batch))
        found.append(model.logits(pooled, depth).numpy())
    return np.stack(found)


def apply(rule, logits):
    """What is answered for one sequence, float32 [exits, labels], and where."""
    agreed, before = 0, None
    for depth, row in zip(EXITS, logits.astype(np.float64), strict=True):
        chances = np.exp(row - row.max())
        chances /= chances.sum()
        entropy = -(chances * np.log(chances)).sum() / np.log(len(row))
        agreed = agreed + 1 if row.argmax() == before else 0
        before = row.argmax()
        has_patience = rule.patience is not None and agreed >= rule.patience
        is_clear = rule.entropy is not None and entropy <= rule.entropy
        if has_patience or is_clear or depth == EXITS[-1]:
            return row, depth
    raise AssertionError


@pytest.mark.parametrize(
    ("changes", "freeze"),
    [
        ({"position_bias": "alibi"}, False),
        ({"position_bias": "alibi"}, True),
        ({"position_bias": "relative", "pooling": "pair"}, True),
        ({"position_bias": "buckets", "own_heads": True}, False),
        ({"share": "none", "own_heads": True}, False),
        ({"share": "attention", "inner_group_num": 2, "pooling": "pair"}, True),
    ],
)
def test_answers_are_those_of_the_rule_applied_to_every_depth(changes, freeze):
    model = make_model(**changes)
    expected = [(batch, every_depth(model, batch)) for batch in batches()]
    for rule in RULES[:: 1 if "alibi" in changes.values() else 5]:
        encoder = adaptive.AdaptiveEncoder(
            model.encoder, model, EXITS, rule, freeze=freeze
        )
        used = []
        for batch, logits in expected:
            rows = [
                apply(rule, logits[:, row]) for row in range(logits.shape[1])
            ]
            for unpad in (False, True):
                found = encoder(batch, unpad=unpad)
                layers = found["layers"].numpy().tolist()
                assert layers == [depth for _, depth in rows]
                wanted = np.reshape([row for row, _ in rows], [-1, 3])
                passes.assert_close(found["logits"], wanted, PARITY_ATOL)
            used += layers
        if rule not in RULES[2::2]:
            assert len(set(used)) > 1  # Or the rule would not be tested.
        else:
            assert set(used) == {EXITS[-1]}


@pytest.mark.parametrize(("patience", "depth"), [(1, 2), (2, 5), (3, 6)])
def test_exits_that_agree_are_counted_in_a_row(patience, depth):
    config = tiny_config(num_hidden_layers=6)
    model = classification.AlbertClassifier(AlbertModel(config), 3)
    model.add_exits(range(1, 6), own_heads=True)
    for number, label in enumerate((0, 0, 1, 1, 1, 2), 1):
        model.output_of(number)[1].assign(100 * tf.one_hot(label, 3))
    rule = adaptive.Rule(patience)
    encoder = adaptive.AdaptiveEncoder(model.encoder, model, range(1, 7), rule)
    assert encoder({"input_ids": tf.constant([[2, 5, 3]])})["layers"] == depth
