"""Exact match and F1 of SQuAD answers, as the official scripts compute them.

The last step of a SQuAD run. The two versions differ: 1.1 counts a question
without a prediction as wrong and takes every word of the texts; 2.0 leaves it
out, has questions without an answer, and a threshold on the score for "no
answer". All sums go in the order of the data set, so that results are equal to
the last digit.

Source: rajpurkar.github.io/SQuAD-explorer, evaluate-v1.1.py and
evaluate-v2.0.py, which the original carries in squad_utils. Scripts of Chinese
and Japanese sets count characters; see `characters`.
"""

import collections
import math
import re
import string
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence

from albert_tf.data import masking
from albert_tf.tasks.squad import data

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")

# The official script compares probabilities: nothing lies above 1, and the
# search for the best threshold begins at 0.
OFFICIAL_THRESHOLD = 1.0
OFFICIAL_FLOOR = 0.0


def words(text: str) -> list[str]:
    """Return what counts: no case, punctuation, articles.

    Example:
        words("The  U.S. dollar!") = ["us", "dollar"]
    """
    return _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split()


def characters(text: str) -> list[str]:
    """Return what counts where scripts have no spaces: each character.

    No case, punctuation and spaces. Words of other scripts stay whole.

    Example:
        characters("《红楼梦》 in 1791") = ["红", "楼", "梦", "in", "1791"]

    Source: mixed_segmentation of cmrc2018_evaluate.py (CMRC, DRCD) and of
    mlqa_evaluation_v1.py. F1 is that of bags, as in the latter and for JSQuAD;
    that of CMRC counts the longest common part.
    """
    spaced = "".join(
        " "
        if _is_punctuation(c)
        else f" {c} "
        if masking.has_no_spaces(c)
        else c
        for c in text.lower()
    )
    return spaced.split()


def _is_punctuation(character: str) -> bool:
    plain = unicodedata.normalize("NFKC", character)
    kind = unicodedata.category(character)
    return kind.startswith("P") or plain in string.punctuation


UNITS: dict[str, Callable[[str], list[str]]] = {
    "words": words,
    "characters": characters,
}


def units_of(questions: Iterable[data.Question]) -> str:
    """Return the units that go with the paragraphs of a data set."""
    letters = without_spaces = 0
    for context in dict.fromkeys(question.context for question in questions):
        for character, count in collections.Counter(context).items():
            letters += count * character.isalpha()
            without_spaces += count * masking.has_no_spaces(character)
    return "characters" if 2 * without_spaces > letters else "words"


def exact_match(gold: str, predicted: str, units: str = "words") -> int:
    return int(UNITS[units](gold) == UNITS[units](predicted))


def f1(gold: str, predicted: str, units: str = "words") -> float:
    """Return the harmonic mean of precision and recall over units.

    Example:
        f1("late 1990s", "the late nineties") = 0.5
        f1("", "") = f1("the", "a") = 1.0, where nothing is left of both
    """
    right, answered = UNITS[units](gold), UNITS[units](predicted)
    if not right or not answered:
        return float(right == answered)
    return _overlap(right, answered)


def _overlap(gold_words: Sequence[str], words: Sequence[str]) -> float:
    common = collections.Counter(gold_words) & collections.Counter(words)
    num_same = sum(common.values())
    if num_same == 0:
        return 0.0
    precision = num_same / len(words)
    recall = num_same / len(gold_words)
    return (2 * precision * recall) / (precision + recall)


def score_version_1(
    questions: Sequence[data.Question],
    predictions: Mapping[str, str],
    units: str = "words",
) -> dict[str, float]:
    """Return `exact_match` and `f1` of SQuAD 1.1 in percent of all questions.

    A question without a prediction, id to text, counts as wrong.
    """
    exact, overlap = 0.0, 0.0
    for question in questions:
        if question.id not in predictions:
            continue
        text = predictions[question.id]
        golds = [answer.text for answer in question.answers or ()]
        exact += max(exact_match(gold, text, units) for gold in golds)
        divide = UNITS[units]  # Unlike `f1`, 0 where nothing is left of one.
        overlap += max(_overlap(divide(gold), divide(text)) for gold in golds)
    total = len(questions)
    return {"exact_match": 100.0 * exact / total, "f1": 100.0 * overlap / total}


def raw_scores(
    questions: Sequence[data.Question],
    predictions: Mapping[str, str],
    measure: Callable[[str, str, str], float],
    units: str = "words",
) -> dict[str, float]:
    """Return id to the best score, 0 to 1, over the annotators' answers.

    A text "" stands for no answer; questions without a prediction are left out.
    """
    scores = {}
    for question in questions:
        if question.id in predictions:
            text = predictions[question.id]
            golds = [a.text for a in question.answers or ()]
            golds = [gold for gold in golds if UNITS[units](gold)] or [""]
            scores[question.id] = max(measure(g, text, units) for g in golds)
    return scores


def score_version_2(
    questions: Sequence[data.Question],
    predictions: Mapping[str, str],
    null_scores: Mapping[str, float] | None = None,
    *,
    threshold: float = OFFICIAL_THRESHOLD,
    floor: float = OFFICIAL_FLOOR,
    units: str = "words",
) -> dict[str, float]:
    """Score answers to SQuAD 2.0.

    Args:
        null_scores: Id to the score for "no answer"; without it all are 0, as
            in the official script.
        threshold: A question with a higher score counts as not answered,
            whatever its text is.
        floor: Where the search for the best thresholds begins: 0.0 for
            probabilities, minus infinity for logits.

    Returns:
        `exact`, `f1`, `total`; the same for questions with and without an
        answer (`HasAns_...`, `NoAns_...`), where there are any; and, given
        `null_scores`, `best_exact`, `best_exact_thresh`, `best_f1`,
        `best_f1_thresh`. In percent, totals and thresholds aside.
    """
    has_answer = {q.id: bool(q.answers) for q in questions}
    null = null_scores or dict.fromkeys(predictions, 0.0)
    raw = {
        "exact": raw_scores(questions, predictions, exact_match, units),
        "f1": raw_scores(questions, predictions, f1, units),
    }
    applied = {
        name: {
            id_: float(not has_answer[id_]) if null[id_] > threshold else score
            for id_, score in scores.items()
        }
        for name, scores in raw.items()
    }
    results = _averages_by_kind(applied, has_answer)
    if null_scores is not None:
        for name, scores in raw.items():
            best, at = best_threshold(
                scores, predictions, null_scores, has_answer, floor
            )
            results |= {f"best_{name}": best, f"best_{name}_thresh": at}
    return results


def _averages_by_kind(
    scores: Mapping[str, Mapping[str, float]], has_answer: Mapping[str, bool]
) -> dict[str, float]:
    results = _averages(scores, scores["exact"])
    for prefix, answerable in (("HasAns", True), ("NoAns", False)):
        ids = [id_ for id_ in scores["exact"] if has_answer[id_] is answerable]
        if ids:
            part = _averages(scores, ids)
            results |= {f"{prefix}_{k}": v for k, v in part.items()}
    return results


def _averages(
    scores: Mapping[str, Mapping[str, float]], ids: Iterable[str]
) -> dict[str, float]:
    ids = list(ids)
    averages: dict[str, float] = {}
    for name, values in scores.items():
        total = 0.0  # Not sum(): since Python 3.12 it rounds in another way.
        for id_ in ids:
            total += values[id_]
        averages[name] = 100.0 * total / len(ids)
    return {**averages, "total": len(ids)}


def best_threshold(
    scores: Mapping[str, float],
    predictions: Mapping[str, str],
    null_scores: Mapping[str, float],
    has_answer: Mapping[str, bool],
    floor: float = -math.inf,
) -> tuple[float, float]:
    """Find the threshold with the best score.

    Questions whose score for "no answer" is at most the threshold count as
    answered with their text, the others as not answered.

    Example, one question of each kind, floor -inf:
        scores {"a": 0.8, "b": 0}, null scores {"a": -2.0, "b": 3.0}, the first
        has an answer: result = (90.0, -2.0)

    Source: find_best_thresh of evaluate-v2.0.py.

    Returns:
        The best score in percent of all questions with a score, and its
        threshold; the lowest one of several.
    """
    unanswerable = sum(not has for has in has_answer.values())
    current = best = float(unanswerable)
    threshold = floor
    for id_ in sorted(null_scores, key=null_scores.__getitem__):
        if id_ not in scores:
            continue
        if has_answer[id_]:
            current += scores[id_]
        elif predictions[id_]:
            current -= 1
        if current > best:
            best, threshold = current, null_scores[id_]
    return 100.0 * best / len(scores), threshold
