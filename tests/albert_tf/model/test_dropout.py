"""Where dropout acts, how much it drops, and that no two draws are the same.

A pass in training is computed again in plain NumPy, with masks drawn from the
keys that are written down here: a change of a place, a rate, the scale of what
is kept, or a key is a change of the numbers.
"""

import dataclasses

import pytest

from albert_tf.model.config import AlbertConfig
from albert_tf.model.network.encoder import AlbertModel
from tests.albert_tf.model import passes
from tests.albert_tf.model.passes import drop, fold
from tests.reference import encoder as reference

# Three layers in two groups; eight blocks in a row would add up roundings to
# just the tolerance.
SHALLOW = {"num_hidden_layers": 3, "inner_group_num": 1}


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
    actual = encoder(batch, **passes.TRAINING)
    drop_all = Dropout(encoder.config, passes.SEED)
    plain = reference.Encoder(encoder.config, passes.values(encoder), drop_all)
    expected = plain.encode(*(tensor.numpy() for tensor in batch.values()))
    passes.assert_close(actual, expected)
