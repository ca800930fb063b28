"""Minimal pairs (BLiMP, arXiv 1912.00582), without any training.

Of the two sentences of a pair the model should prefer the grammatical one. The
score of a sentence is its pseudo-log-likelihood (Salazar et al.,
arXiv 1910.14659): each piece is hidden alone, and the logarithms of their
probabilities are added. It is not divided by the length, as published scores
are not. It favours sentences whose words have several pieces, because the
other pieces of a word stay visible; so vocabularies differ here a little.

A tie, which two sentences with the same pieces always give, counts half.

Every paradigm counts the same, as in the original, where each has 1,000 pairs:
the accuracy of a phenomenon, a field or everything is the mean of those of its
paradigms, also if only a sample is used.
"""

import collections
import dataclasses
import json
import random
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from absl import logging

from data_prep.writer import corpus
from lab.measure import scoring

# Names of the members in the original's files.
_MEMBERS = {
    "good": "sentence_good",
    "bad": "sentence_bad",
    "field": "field",
    "phenomenon": "linguistics_term",
    "paradigm": "UID",
}
_SENTENCES_AT_ONCE = 256


@dataclasses.dataclass(frozen=True)
class Pair:
    """Two sentences that differ in one point."""

    good: str
    bad: str
    field: str
    phenomenon: str
    paradigm: str


def read(path: str) -> list[Pair]:
    """Read pairs, one JSON object a line, plain or packed (.xz, .gz, .zst)."""
    pairs = []
    with corpus.open_unpacked(path) as stream:
        for line in filter(bytes.strip, stream):
            content = json.loads(line)
            found = {name: content[key] for name, key in _MEMBERS.items()}
            found["field"] = found["field"].replace("/", "_")
            pairs.append(Pair(**found))
    return pairs


def draw(pairs: Sequence[Pair], sample: int, seed: int) -> list[Pair]:
    """Draw `sample` pairs of each phenomenon, as many of each paradigm.

    Args:
        sample: Pairs of a phenomenon, divided among its paradigms and rounded
            up; a paradigm that has fewer gives all. 0 means all.
    """
    if not sample:
        return list(pairs)
    paradigms = _group(pairs, "paradigm")
    phenomena = {pair.paradigm: pair.phenomenon for pair in pairs}
    sizes = collections.Counter(phenomena.values())
    chosen: list[Pair] = []
    for name, members in paradigms.items():
        count = -(-sample // sizes[phenomena[name]])
        draws = random.Random(f"{seed} {name}")
        numbers = draws.sample(range(len(members)), min(count, len(members)))
        chosen += [members[number] for number in sorted(numbers)]
    return chosen


def _group(pairs: Sequence[Pair], name: str) -> dict[str, list[Pair]]:
    groups: dict[str, list[Pair]] = {}
    for pair in pairs:
        groups.setdefault(getattr(pair, name), []).append(pair)
    return groups


def pseudo_log_likelihoods(
    masked_lm: scoring.MaskedLm, sentences: Sequence[str]
) -> dict[str, float]:
    """Return the score of each sentence.

    Sentences with the same pieces have exactly the same score.
    """
    unique = list(dict.fromkeys(sentences))
    rows = masked_lm.tokenizer.encode_batch(unique)
    texts = dict(zip(unique, map(tuple, rows), strict=True))
    assert all(rows), "Cleaning leaves nothing of a sentence."
    ordered = sorted(set(texts.values()), key=lambda ids: (len(ids), ids))
    scores: dict[tuple[int, ...], float] = {}
    for start in range(0, len(ordered), _SENTENCES_AT_ONCE):
        part = ordered[start : start + _SENTENCES_AT_ONCE]
        scores |= _score(masked_lm, part)
        if start // _SENTENCES_AT_ONCE % 20 == 0:
            logging.info("%d of %d sentences", start, len(ordered))
    return {sentence: scores[ids] for sentence, ids in texts.items()}


def _score(
    masked_lm: scoring.MaskedLm, texts: Sequence[tuple[int, ...]]
) -> dict[tuple[int, ...], float]:
    queries = [
        scoring.Query(ids, [place])
        for ids in texts
        for place in range(len(ids))
    ]
    scores = dict.fromkeys(texts, 0.0)
    answers = masked_lm.score(queries)
    for query, answer in zip(queries, answers, strict=True):
        scores[tuple(query.ids)] += float(answer.log2[0])
    return scores


def summarize(
    pairs: Sequence[Pair], scores: Mapping[str, float]
) -> dict[str, Any]:
    """Return accuracies in percent.

    Returns:
        `overall`; `fields`, `phenomena` and `paradigms` by name; the number of
        `pairs` and of `ties`.
    """
    points = {
        name: [_points(scores[pair.good], scores[pair.bad]) for pair in members]
        for name, members in _group(pairs, "paradigm").items()
    }
    paradigms = {name: 100 * statistics.fmean(p) for name, p in points.items()}

    def means(name: str) -> dict[str, float]:
        return {
            key: statistics.fmean(
                paradigms[paradigm] for paradigm in _group(members, "paradigm")
            )
            for key, members in sorted(_group(pairs, name).items())
        }

    return {
        "overall": statistics.fmean(paradigms.values()),
        "fields": means("field"),
        "phenomena": means("phenomenon"),
        "paradigms": dict(sorted(paradigms.items())),
        "pairs": len(pairs),
        "ties": sum(part.count(0.5) for part in points.values()),
    }


def _points(good: float, bad: float) -> float:
    return 0.5 if good == bad else float(good > bad)
