"""Minimal pairs: files, samples, accuracies; scores are in test_scoring.py."""

import collections
import json
import lzma

import pytest

from lab.measure import minimal_pairs
from lab.measure.minimal_pairs import Pair


def test_packed_pairs_are_read(tmp_path):
    content = {
        "sentence_good": "Cats sleep.",
        "sentence_bad": "Cats sleeps.",
        "field": "syntax/semantics",
        "linguistics_term": "agreement",
    }
    lines = [json.dumps({**content, "UID": uid}) for uid in ("one", "two")]
    path = tmp_path / "b.jsonl.xz"
    path.write_bytes(lzma.compress("\n".join(lines).encode()))
    texts = "Cats sleep.", "Cats sleeps.", "syntax_semantics", "agreement"
    found = minimal_pairs.read(str(path))
    assert found == [Pair(*texts, "one"), Pair(*texts, "two")]


def make_pairs(**sizes):
    """Pairs of paradigms named PHENOMENON_NUMBER."""
    return [
        Pair(f"{name} {n} a", f"{name} {n} b", "f", name.split("_")[0], name)
        for name, size in sizes.items()
        for n in range(size)
    ]


def test_sample_is_divided_among_the_paradigms_of_a_phenomenon():
    pairs = make_pairs(x_1=50, x_2=50, x_3=2, y_1=50)
    drawn = minimal_pairs.draw(pairs, 10, 1)
    counts = collections.Counter(pair.paradigm for pair in drawn)
    assert counts == {"x_1": 4, "x_2": 4, "x_3": 2, "y_1": 10}
    assert drawn == [pair for pair in pairs if pair in drawn]
    assert drawn == minimal_pairs.draw(pairs, 10, 1)
    assert drawn != minimal_pairs.draw(pairs, 10, 2)
    assert minimal_pairs.draw(pairs, 0, 1) == pairs
    # Another paradigm does not change the draws of this one.
    alone = minimal_pairs.draw(make_pairs(y_1=50), 10, 1)
    assert alone == [pair for pair in drawn if pair.paradigm == "y_1"]


def test_accuracies_by_hand():
    pairs = make_pairs(x_1=4, x_2=1, y_1=2)
    scores = {text: 0.0 for p in pairs for text in (p.good, p.bad)}
    scores |= {"x_1 0 a": 1.0, "x_1 1 a": 1.0, "x_1 2 b": 1.0, "y_1 0 b": 1.0}
    found = minimal_pairs.summarize(pairs, scores)
    # x_1: two right, one wrong, one tie.
    assert found["paradigms"] == {"x_1": 62.5, "x_2": 50.0, "y_1": 25.0}
    assert found["phenomena"] == {"x": 56.25, "y": 25.0}
    assert found["overall"] == pytest.approx((62.5 + 50 + 25) / 3)
    assert found["fields"] == {"f": found["overall"]}
    assert (found["pairs"], found["ties"]) == (7, 3)
