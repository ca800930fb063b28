"""Minimal pairs: files, samples, accuracies; scores are in test_scoring.py."""

import collections
import json
import lzma

import pytest

from albert_tf.common import errors
from lab.measure import minimal_pairs
from lab.measure.minimal_pairs import Pair


def line(**changes):
    content = {
        "sentence_good": "Cats sleep.",
        "sentence_bad": "Cats sleeps.",
        "field": "syntax/semantics",
        "linguistics_term": "agreement",
        "UID": "number",
    }
    return json.dumps({**content, **changes}) + "\n"


def test_files_are_read_packed_or_not(tmp_path):
    (tmp_path / "a.jsonl").write_text(line() + "\n")
    packed = lzma.compress(line(UID="tense", field="syntax").encode())
    (tmp_path / "b.jsonl.xz").write_bytes(packed)
    found = minimal_pairs.read(f"{tmp_path}/*")
    good, bad = "Cats sleep.", "Cats sleeps."
    assert found == [
        Pair(good, bad, "syntax_semantics", "agreement", "number"),
        Pair(good, bad, "syntax", "agreement", "tense"),
    ]


@pytest.mark.parametrize(
    "content, message",
    [
        ("", "holds no pair"),
        (line() + "{", "line 2 is not a JSON object"),
        ("[]\n", "line 1 is not a JSON object"),
        (line(UID=3), "line 1 is not a JSON object with the texts .*UID"),
        (line(sentence_bad=" "), "line 1 is not a JSON object"),
    ],
)
def test_other_files_are_refused(tmp_path, content, message):
    (tmp_path / "a.jsonl").write_text(content)
    with pytest.raises(errors.UserError, match=message):
        minimal_pairs.read(f"{tmp_path}/a.jsonl")


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
