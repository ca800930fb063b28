"""Negatives of pairs, compared with their definition on the whole matrix."""

import numpy as np
import pytest

from albert_tf.common import packed_vectors
from albert_tf.tasks.embedding import negatives, retrieval
from tests.conftest import refused

RANDOM = np.random.default_rng(3)
# Questions with several answers, answers of several questions, and a text that
# is on both sides.
FIRSTS = [f"q{n % 25}" for n in range(40)]
SECONDS = [f"a{n * n % 31}" for n in range(40)]
PAIRS = [*zip(FIRSTS, SECONDS, strict=True), ("a4", "a1")]
CANDIDATES = [*dict.fromkeys(second for _, second in PAIRS)]
VECTORS = {
    text: packed_vectors.unit(RANDOM.normal(size=3) + [0.8, 0, 0])
    for text in [*FIRSTS, *CANDIDATES]
}


def mined(**options):
    return list(
        negatives.mine(
            PAIRS,
            [*VECTORS],
            np.stack([*VECTORS.values()]),
            negatives.NegativeOptions(**options),
        )
    )


def allowed(pair, max_share, skip_ranks):
    """All texts that may be negatives, the nearest first."""
    first, second = PAIRS[pair]
    answers = {b for a, b in PAIRS if a == first}
    cosines = {t: float(VECTORS[first] @ VECTORS[t]) for t in CANDIDATES}
    ranked = sorted(
        {*CANDIDATES} - answers - {first}, key=lambda t: -cosines[t]
    )
    most = min(cosines[second] * max_share, cosines[second])
    return [text for text in ranked[skip_ranks:] if cosines[text] <= most]


@pytest.mark.parametrize("skip", [0, 2, 9])
@pytest.mark.parametrize("share", [0.5, 0.95, 1.0])
def test_the_nearest_within_the_share(monkeypatch, share, skip):
    monkeypatch.setattr(retrieval, "_BATCH", 7)
    expected = [allowed(n, share, skip)[:3] for n in range(len(PAIRS))]
    assert mined(negatives=3, max_share=share, skip_ranks=skip) == expected
    assert {0, 3} <= {*map(len, expected)}


def test_draws_depend_on_the_seed_and_the_pair_alone(monkeypatch):
    options = {"negatives": 2, "max_share": 1.0, "draw_from": 6}
    found = mined(**options)
    for number, texts in enumerate(found):
        near = allowed(number, 1.0, 0)[:6]
        assert texts == sorted({*texts}, key=near.index)
        assert len(texts) == min(2, len(near))
    assert (
        len(
            {
                tuple(allowed(n, 1.0, 0)[:2]) == (*t,)
                for n, t in enumerate(found)
            }
        )
        == 2
    )
    monkeypatch.setattr(retrieval, "_BATCH", 7)
    assert mined(**options) == found
    assert mined(**options, random_seed=1) != found


def test_draws_are_from_enough():
    with refused("`draw_from=2` is less than `negatives=3`"):
        negatives.NegativeOptions(negatives=3, draw_from=2)
