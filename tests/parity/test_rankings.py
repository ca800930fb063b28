"""Scores of rankings against trec_eval's, by pytrec_eval: `make test-torch`.

Of equal scores trec_eval ranks the later name first. The mean over all names is
what the rank is here.
"""

import itertools

import numpy as np
import pytest

from albert_tf.common import imports
from albert_tf.tasks.embedding import retrieval
from albert_tf.tasks.embedding import task as embedding

pytrec_eval = imports.later("pytrec_eval")
pytestmark = pytest.mark.torch


def trec(scores, relevant, names, measures):
    """Return what trec_eval says of each list of names for the same texts."""
    evaluator = pytrec_eval.RelevanceEvaluator(
        {str(n): {one[i]: 1 for i in relevant} for n, one in enumerate(names)},
        measures,
    )
    found = evaluator.evaluate(
        {
            str(n): dict(zip(one, scores.tolist(), strict=True))
            for n, one in enumerate(names)
        }
    )
    return [found[str(n)] for n in range(len(names))]


@pytest.mark.parametrize("seed", range(12))
def test_scores_without_ties_between_right_and_wrong(seed):
    """Equal right ones and equal wrong ones, among 30 texts."""
    generator = np.random.default_rng(seed)
    scores = generator.permutation(15).repeat(2) / 16
    chosen = generator.choice(15, 3, replace=False)
    relevant = [*(2 * chosen), *(2 * chosen + 1)]
    places = retrieval.places(scores, relevant)
    names = [f"{i:02}" for i in range(30)]
    measures = {"recip_rank", "recall.1,10"}
    (theirs,) = trec(scores, relevant, [names], measures)
    assert retrieval.of_ranks([places]) == pytest.approx(
        {
            "mrr": theirs["recip_rank"],
            "recall_at_1": theirs["recall_1"],
            "recall_at_10": theirs["recall_10"],
        }
    )


@pytest.mark.parametrize("seed", range(12))
def test_ranks_of_ties_are_the_mean_over_names(seed):
    """Right and wrong ones are equal; six texts have 720 lists of names."""
    generator = np.random.default_rng(seed)
    scores = generator.integers(3, size=6) / 4
    relevant = generator.choice(6, generator.integers(1, 5), replace=False)
    names = [*itertools.permutations("abcdef")]
    depths = range(1, 7)
    measures = {f"recall.{','.join(map(str, depths))}"}
    theirs = [
        [one[f"recall_{depth}"] for depth in depths]
        for one in trec(scores, relevant, names, measures)
    ]
    # The first depth with n right ones is the rank of the n-th.
    numbers = np.round(np.array(theirs) * len(relevant))
    ranks = [
        1 + (numbers < n).sum(1).mean() for n in range(1, len(relevant) + 1)
    ]
    places = retrieval.places(scores, relevant)
    np.testing.assert_allclose(places, ranks)


def test_ranks_of_pairs_whose_texts_come_again():
    """Other right answers, and the text itself, are left out."""
    generator = np.random.default_rng(3)
    width, vectors = 3, {}
    texts = [
        tuple(f"t{n}" for n in pair)
        for pair in generator.integers(9, size=[40, 2])
        if pair[0] != pair[1]
    ]
    for text in sorted({text for pair in texts for text in pair}):
        one = generator.integers(-1, 2, size=width) + [0.0, 0.0, 3.0]
        vectors[text] = one / 4  # Many cosines are equal, to the bit.
    found = embedding.ranks(
        np.array([[vectors[text] for text in pair] for pair in texts]), texts
    )
    for rank, (first, second) in zip(found, texts, strict=True):
        right = {b for a, b in texts if a == first} - {second}
        candidates = {b for _, b in texts} - right - {first, second}
        order = [second, *sorted(candidates)]
        scores = np.array([vectors[first] @ vectors[text] for text in order])
        ends = trec(
            scores,
            [0],
            [[name, *order[1:]] for name in ("a", "z")],  # Behind, before.
            {"recip_rank"},
        )
        assert rank == np.mean([1 / one["recip_rank"] for one in ends])
