import json
import math

import numpy as np
import pytest

from albert_tf.finetuning import overlaps
from albert_tf.finetuning.squad import squad_answers, squad_data, squad_features

LENGTH = 40
WINDOWS = squad_features.WindowOptions(10, 12)
CONTEXTS = [
    "The rain falls on the hill and the rain feeds the river. " * 3,
    "A hill.",
    "It was the house of the old man and of the old woman who lived there.",
]


@pytest.fixture
def questions():
    return [
        squad_data.Question(
            f"q{number}",
            text,
            CONTEXTS[place],
            (squad_data.Answer("hill", CONTEXTS[place].find("hill")),)
            if number % 2
            else (),
            is_impossible=number % 2 == 0,
        )
        for number, (text, place) in enumerate(
            [("What falls?", 0), ("Where?", 0), ("What?", 1), ("Who?", 2)]
        )
    ]


@pytest.fixture
def windows(questions, tiny_tokenizer):
    windows = squad_features.make_windows(
        questions, tiny_tokenizer, WINDOWS, LENGTH
    )
    assert len(windows) > 2 * len(questions)
    return windows


def v1_outputs(windows, seed=0):
    """Logits with many ties."""
    draws = np.random.default_rng(seed)
    shape = [len(windows), LENGTH]
    return {
        f"{edge}_logits": draws.integers(-3, 4, shape).astype(np.float32) / 2
        for edge in ("start", "end")
    }


def v2_outputs(windows, seed=0, starts=5, ends=5):
    draws = np.random.default_rng(seed)
    index = np.argsort(draws.random([len(windows), starts + 1, LENGTH]), -1)
    return {
        "start_top_index": index[:, 0, :starts].astype(np.int32),
        "start_top_log_probs": -draws.random([len(windows), starts]),
        "end_top_index": index[:, 1:, :ends].reshape(-1, starts * ends),
        "end_top_log_probs": -draws.random([len(windows), starts * ends]),
        "cls_logits": draws.normal(size=len(windows)).astype(np.float32),
    }


def plain_pairs(outputs, row, size, stop):
    """Start, end and their scores, in the original's order; no padding."""
    if "start_logits" in outputs:
        tops = []
        for name in ("start_logits", "end_logits"):
            values = enumerate(outputs[name][row, :stop].tolist())
            tops.append(sorted(values, key=lambda v: v[1], reverse=True)[:size])
        return [(s, e, x, y) for s, x in tops[0] for e, y in tops[1]]
    starts = outputs["start_top_index"][row].tolist()
    ends = outputs["end_top_index"][row].tolist()
    width = len(ends) // len(starts)
    return [
        (
            start,
            ends[i * width + j],
            float(outputs["start_top_log_probs"][row, i]),
            float(outputs["end_top_log_probs"][row, i * width + j]),
        )
        for i, start in enumerate(starts)
        for j in range(width)
    ]


def plain_n_best(question, number, windows, outputs, options):
    """The rules of original-release.md 5.10 and 5.12, one pair at a time."""
    span = windows.spans[number]
    pieces = windows.paragraphs[number]
    places = list(
        zip(
            windows.begin[span].tolist(),
            windows.length[span].tolist(),
            strict=True,
        )
    )
    best = overlaps.max_context(tuple(places))
    found = []
    for window, (begin, length) in enumerate(places):
        row = span.start + window
        first = int(windows.first[row])
        stop = first + length + 1
        for start, end, x, y in plain_pairs(
            outputs, row, options.n_best_size, stop
        ):
            start, end = start - first, end - first
            if start >= length or end >= length or start < 0:
                continue
            if not best[window][start] or end < start:
                continue
            if end - start + 1 > options.max_answer_length:
                continue
            found.append((begin + start, begin + end, x, y))
    found.sort(key=lambda entry: entry[2] + entry[3], reverse=True)
    entries = {}
    for start, end, x, y in found:
        if len(entries) == options.n_best_size:
            break
        last = max(pieces.ends[end], 1)
        text = question.context[pieces.starts[start] : last].strip()
        entries.setdefault(text, (x, y))
    return entries


@pytest.mark.parametrize("make_outputs", [v1_outputs, v2_outputs])
@pytest.mark.parametrize("size, longest", [(20, 30), (3, 4), (20, 1)])
def test_n_best_follows_the_rules(
    make_outputs, size, longest, questions, windows
):
    outputs = make_outputs(windows)
    options = squad_answers.AnswerOptions(size, longest)
    lists = list(squad_answers.n_best(questions, windows, outputs, options))
    assert len(lists) == len(questions)
    nothing = 0
    for number, entries in enumerate(lists):
        expected = plain_n_best(
            questions[number], number, windows, outputs, options
        )
        if not expected:
            nothing += 1
            continue
        found = {e.text: (e.start_log_prob, e.end_log_prob) for e in entries}
        assert list(found.items()) == list(expected.items())
        assert len(entries) == len(found) <= size
        assert sum(e.probability for e in entries) == pytest.approx(1)
        for entry in entries:
            log_odds = math.log(entry.probability / entries[0].probability)
            gap = sum(expected[entry.text]) - sum(expected[entries[0].text])
            assert log_odds == pytest.approx(gap)
    assert nothing < len(questions)


@pytest.mark.parametrize("make_outputs", [v1_outputs, v2_outputs])
@pytest.mark.parametrize("block", [1, 2, 5])
def test_windows_may_come_in_blocks(
    make_outputs, block, questions, windows, monkeypatch
):
    outputs = make_outputs(windows)
    options = squad_answers.AnswerOptions()
    whole = list(squad_answers.n_best(questions, windows, outputs, options))
    assert options == squad_answers.AnswerOptions(20, 30)
    monkeypatch.setattr(squad_answers, "_BLOCK", block)
    parts = list(squad_answers.n_best(questions, windows, outputs, options))
    assert parts == whole


def test_padding_never_takes_a_place(questions, windows):
    """The best of SQuAD 1.1 are those up to the last [SEP]."""
    options = squad_answers.AnswerOptions(1)
    plain = v1_outputs(windows)
    rows, stop = np.arange(len(windows)), windows.first + windows.length + 1
    is_padding = np.arange(LENGTH) >= stop[:, None]
    # Not only windows that others of the question stand in for.
    assert is_padding[windows.spans[2]].any()
    for logits in plain.values():
        logits[rows, windows.first] = 50
    loud = {
        name: np.where(is_padding, np.float32(100), logits)
        for name, logits in plain.items()
    }
    expected = list(squad_answers.n_best(questions, windows, plain, options))
    assert all(entries[0].text != "empty" for entries in expected)
    actual = list(squad_answers.n_best(questions, windows, loud, options))
    assert actual == expected
    # The [SEP] itself takes one, as in the original: nothing is left of it.
    for logits in plain.values():
        logits[rows, stop - 1] = 99
    for entries in squad_answers.n_best(questions, windows, plain, options):
        assert [entry.text for entry in entries] == ["empty"]


def test_an_answer_has_a_character_at_least():
    """The first piece may come from no character, as "▁" alone may."""
    question = squad_data.Question("q", "?", "ab", (), True)
    pieces = squad_features.Pieces(
        np.array([5, 6]), np.array([0, 0]), np.array([0, 2])
    )
    ones = np.ones(1, np.int32)
    windows = squad_features.Windows(
        [pieces], [np.array([7])], 0 * ones, 0 * ones, 2 * ones, ()
    )
    logits = np.array([[0, 0, 0, 9, 0, 0]], np.float32)
    outputs = {"start_logits": logits, "end_logits": logits}
    options = squad_answers.AnswerOptions()
    (entries,) = squad_answers.n_best([question], windows, outputs, options)
    assert entries[0].text == "a"


def test_equal_spans_are_merged_where_the_first_stood():
    columns = [
        [1, 0, 1, 0, 1, 0],
        [5, 2, 5, 3, 0, 6],
        [6, 2, 6, 3, 6, 6],
        [1.0, 7, 3, 7, 8, 9],
        [0.0, 0, 4, 0, 1, 2],
    ]
    found = squad_answers._merge_equal(np.array(columns))
    expected = [
        [1, 0, 0, 1, 0],
        [5, 2, 3, 0, 6],
        [6, 2, 3, 6, 6],
        [2, 7, 7, 8, 9],
        [2, 0, 0, 1, 2],
    ]
    assert found.tolist() == expected


@pytest.mark.parametrize("context", ["a \u3000 b", "\u3000\n \t "])
def test_white_space_alone_is_no_answer(context):
    """A piece for each character; the white ones have the best scores."""
    count = len(context)
    question = squad_data.Question("q", "?", context, (), True)
    pieces = squad_features.Pieces(
        np.arange(count), np.arange(count), np.arange(count) + 1
    )
    zeros = np.zeros(1, np.int32)
    windows = squad_features.Windows(
        [pieces], [np.array([7])], zeros, zeros, zeros + count, ()
    )
    best = [[0, 0, 0, *(9 * c.isspace() for c in context), 0]]
    logits = np.array(best, np.float32)
    outputs = {"start_logits": logits, "end_logits": logits}
    options = squad_answers.AnswerOptions(20, 1)
    for given, more in (({"white_space": False}, []), ({}, [""])):
        (entries,) = squad_answers.n_best(
            [question], windows, outputs, options, **given
        )
        found = [entry.text for entry in entries]
        letters = [c for c in context if c.isalpha()]
        assert found == (more + letters or ["empty"])
        assert sum(entry.probability for entry in entries) == pytest.approx(1)


@pytest.mark.parametrize(
    "make_outputs, text, score",
    [(v1_outputs, "empty", 0.0), (v2_outputs, "", -1e6)],
)
def test_nothing_proposed(make_outputs, text, score, questions, windows):
    outputs = make_outputs(windows)
    # Ends before starts only.
    if "start_logits" in outputs:
        outputs["start_logits"][:, LENGTH - 1] = 99
        outputs["end_logits"][:, 0] = 99
    else:
        outputs["start_top_index"][:] = 39
        outputs["end_top_index"][:] = 0
    options = squad_answers.AnswerOptions(1)
    for entries in squad_answers.n_best(questions, windows, outputs, options):
        expected = squad_answers.Candidate(text, 1.0, score, score)
        assert entries == [expected]


def test_equal_spans_of_several_models_have_the_mean_score(questions, windows):
    one = v2_outputs(windows, 1)
    other = {**one, "start_top_log_probs": one["start_top_log_probs"] - 1}
    both = {
        name: np.concatenate([one[name], other[name]], axis=1)
        for name in one
        if name != "cls_logits"
    }
    options = squad_answers.AnswerOptions()
    alone = list(squad_answers.n_best(questions, windows, one, options))
    together = list(squad_answers.n_best(questions, windows, both, options))
    for entries, means in zip(alone, together, strict=True):
        assert [e.text for e in entries] == [e.text for e in means]
        for entry, mean in zip(entries, means, strict=True):
            if entry.start_log_prob == -1e6:
                continue
            assert mean.start_log_prob == pytest.approx(
                entry.start_log_prob - 0.5
            )
            assert mean.end_log_prob == pytest.approx(entry.end_log_prob)


def test_a_question_without_windows(tiny_tokenizer):
    question = squad_data.Question("q", "What?", "\u0301", (), True)
    windows = squad_features.make_windows(
        [question], tiny_tokenizer, WINDOWS, LENGTH
    )
    options = squad_answers.AnswerOptions()
    for make_outputs, text in [(v1_outputs, "empty"), (v2_outputs, "")]:
        outputs = make_outputs(windows)
        (entries,) = squad_answers.n_best([question], windows, outputs, options)
        assert entries[0].text == text
    scores = squad_answers.null_scores(
        [question], windows, np.zeros(0, np.float32)
    )
    assert scores == {"q": 1e6}


def test_null_score_is_the_lowest_of_the_windows(questions, windows):
    logits = np.arange(len(windows), dtype=np.float32)[::-1].copy()
    scores = squad_answers.null_scores(questions, windows, logits)
    expected = [float(logits[span.stop - 1]) for span in windows.spans]
    assert list(scores.values()) == expected
    assert list(scores) == [question.id for question in questions]
    json.dumps(scores)


def test_null_score_of_several_models_is_the_mean_of_their_lowest(
    questions, windows
):
    draws = np.random.default_rng(4)
    logits = draws.normal(size=[len(windows), 2])
    one, other, both = (
        squad_answers.null_scores(questions, windows, values)
        for values in (logits[:, 0], logits[:, 1], logits)
    )
    of_means = squad_answers.null_scores(questions, windows, logits.mean(1))
    assert both != pytest.approx(of_means)
    for id_, score in both.items():
        assert score == pytest.approx((one[id_] + other[id_]) / 2)
