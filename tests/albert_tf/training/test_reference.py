"""What a run is compared with."""

import dataclasses

import numpy as np
import pytest

from albert_tf.model import modeling
from albert_tf.training import reference

ENTROPY = 6.7


@pytest.fixture
def config():
    return modeling.AlbertConfig.from_json_file("albert_hour")


def points():
    return [(m * 1e6, below) for m, below in reference._BELOW_ENTROPY.items()]


def test_known_points_are_on_the_curve(config):
    for tokens, below in points():
        found = reference.loss_at(config, tokens, ENTROPY)
        assert found == pytest.approx(ENTROPY - below)


def test_loss_falls_between_them(config):
    tokens = np.geomspace(points()[0][0], points()[-1][0] * 0.999, 50)
    losses = [reference.loss_at(config, t, ENTROPY) for t in tokens]
    assert np.all(np.diff(losses) < 0)


def test_nothing_is_known_before_them_and_the_last_holds_after_them(config):
    assert reference.loss_at(config, 0.9 * points()[0][0], ENTROPY) is None
    end, below = points()[-1]
    found = reference.loss_at(config, 1.1 * end, ENTROPY)
    assert found == pytest.approx(ENTROPY - below)
    losses = {"masked_lm_loss": 5.5}
    line = reference.describe(losses, config, 1.1 * end, ENTROPY)
    assert f"At its end, after {end / 1e6:.1f} million, configs" in line


def test_only_models_of_the_size_are_compared(config):
    tokens = points()[0][0]
    vocabulary = dataclasses.replace(config, vocab_size=30_000)
    assert reference.loss_at(vocabulary, tokens, ENTROPY)
    for changes in ({"num_hidden_layers": 4}, {"position_bias": "none"}):
        other = dataclasses.replace(config, **changes)
        assert reference.loss_at(other, tokens, ENTROPY) is None
        facts = {"tokens_per_step": 2048, "entropy_of_labels": ENTROPY}
        assert reference.curve(other, facts) == []
    assert reference.loss_at(config, tokens, None) is None


def test_line_has_both_losses(config):
    tokens = points()[-1][0]
    line = reference.describe({"masked_lm_loss": 5.5}, config, tokens, ENTROPY)
    expected = ENTROPY - points()[-1][1]
    assert line.startswith("masked_lm_loss 5.500 after ")
    assert f"had about {expected:.3f}" in line
    assert reference.describe({"loss": 1.0}, config, tokens, ENTROPY) is None


def test_curve_is_by_steps(config):
    facts = {"tokens_per_step": 4096, "entropy_of_labels": ENTROPY}
    found = reference.curve(config, facts)
    steps, losses = zip(*found, strict=True)
    assert steps[0] == points()[0][0] / 4096
    assert losses[-1] == pytest.approx(ENTROPY - points()[-1][1])
    assert reference.curve(config, {"tokens_per_step": 4096}) == []
