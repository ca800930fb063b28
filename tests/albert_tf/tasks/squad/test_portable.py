"""From outputs for windows to answers: NumPy against plain Python."""

import dataclasses
import json
import math

import numpy as np
import pytest

from albert_tf.finetuning import base, overlaps, packing
from albert_tf.tasks.squad import data as squad_data
from albert_tf.tasks.squad import features as squad_features
from albert_tf.tasks.squad import portable
from albert_tf.tasks.squad import task as squad
from albert_tf.text import tokenization, tokenizer_check
from tests.conftest import FIXTURES

LENGTH = 40
WINDOWS = squad_features.PassageWindows(10, 12)
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


def n_best(
    questions, windows, outputs, size=20, longest=30, *, white_space=True
):
    search = portable.Search(size, longest, "start_logits" not in outputs)
    found = portable.n_best(
        [question.context for question in questions],
        windows,
        portable.blocks(outputs),
        search,
        white_space=white_space,
    )
    return list(found)


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


def plain_n_best(question, number, windows, outputs, size, longest):
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
        for start, end, x, y in plain_pairs(outputs, row, size, stop):
            start, end = start - first, end - first
            if start >= length or end >= length or start < 0:
                continue
            if not best[window][start] or end < start:
                continue
            if end - start + 1 > longest:
                continue
            found.append((begin + start, begin + end, x, y))
    found.sort(key=lambda entry: entry[2] + entry[3], reverse=True)
    entries = {}
    for start, end, x, y in found:
        if len(entries) == size:
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
    lists = n_best(questions, windows, outputs, size, longest)
    assert len(lists) == len(questions)
    nothing = 0
    for number, entries in enumerate(lists):
        expected = plain_n_best(
            questions[number], number, windows, outputs, size, longest
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
    whole = n_best(questions, windows, outputs)
    monkeypatch.setattr(portable, "_BLOCK", block)
    parts = n_best(questions, windows, outputs)
    assert parts == whole


def test_padding_never_takes_a_place(questions, windows):
    """The best of SQuAD 1.1 are those up to the last [SEP]."""
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
    expected = n_best(questions, windows, plain, 1)
    assert all(entries[0].text != "empty" for entries in expected)
    actual = n_best(questions, windows, loud, 1)
    assert actual == expected
    # The [SEP] itself takes one, as in the original: nothing is left of it.
    for logits in plain.values():
        logits[rows, stop - 1] = 99
    for entries in n_best(questions, windows, plain, 1):
        assert [entry.text for entry in entries] == ["empty"]


def test_an_answer_has_a_character_at_least():
    """The first piece may come from no character, as "▁" alone may."""
    question = squad_data.Question("q", "?", "ab", (), True)
    pieces = portable.Pieces(
        np.array([5, 6]), np.array([0, 0]), np.array([0, 2])
    )
    ones = np.ones(1, np.int32)
    windows = portable.Windows(
        [pieces], [np.array([7])], 0 * ones, 0 * ones, 2 * ones, ()
    )
    logits = np.array([[0, 0, 0, 9, 0, 0]], np.float32)
    outputs = {"start_logits": logits, "end_logits": logits}
    (entries,) = n_best([question], windows, outputs)
    assert entries[0].text == "a"


def test_equal_spans_are_merged_where_the_first_stood():
    columns = [
        [1, 0, 1, 0, 1, 0],
        [5, 2, 5, 3, 0, 6],
        [6, 2, 6, 3, 6, 6],
        [1.0, 7, 3, 7, 8, 9],
        [0.0, 0, 4, 0, 1, 2],
    ]
    found = portable._merge_equal(np.array(columns))
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
    pieces = portable.Pieces(
        np.arange(count), np.arange(count), np.arange(count) + 1
    )
    zeros = np.zeros(1, np.int32)
    windows = portable.Windows(
        [pieces], [np.array([7])], zeros, zeros, zeros + count, ()
    )
    best = [[0, 0, 0, *(9 * c.isspace() for c in context), 0]]
    logits = np.array(best, np.float32)
    outputs = {"start_logits": logits, "end_logits": logits}
    for white_space, more in ((False, []), (True, [""])):
        (entries,) = n_best(
            [question], windows, outputs, 20, 1, white_space=white_space
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
    for entries in n_best(questions, windows, outputs, 1):
        expected = portable.Candidate(text, 1.0, score, score)
        assert entries == [expected]


def test_equal_spans_of_several_models_have_the_mean_score(questions, windows):
    one = v2_outputs(windows, 1)
    other = {**one, "start_top_log_probs": one["start_top_log_probs"] - 1}
    both = {
        name: np.concatenate([one[name], other[name]], axis=1)
        for name in one
        if name != "cls_logits"
    }
    alone = n_best(questions, windows, one)
    together = n_best(questions, windows, both)
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
    for make_outputs, text in [(v1_outputs, "empty"), (v2_outputs, "")]:
        outputs = make_outputs(windows)
        (entries,) = n_best([question], windows, outputs)
        assert entries[0].text == text
    scores = portable.null_scores(windows, np.zeros(0, np.float32))
    assert scores == [1e6]


def test_null_score_is_the_lowest_of_the_windows(questions, windows):
    logits = np.arange(len(windows), dtype=np.float32)[::-1].copy()
    scores = portable.null_scores(windows, logits)
    expected = [float(logits[span.stop - 1]) for span in windows.spans]
    assert scores == expected
    json.dumps(scores)


def test_null_score_of_several_models_is_the_mean_of_their_lowest(
    questions, windows
):
    draws = np.random.default_rng(4)
    logits = draws.normal(size=[len(windows), 2])
    one, other, both = (
        portable.null_scores(windows, values)
        for values in (logits[:, 0], logits[:, 1], logits)
    )
    of_means = portable.null_scores(windows, logits.mean(1))
    assert both != pytest.approx(of_means)
    assert both == pytest.approx((np.array(one) + other) / 2)


# Spans of single windows.


def pairs(outputs, first, length, size=4, longest=3):
    """Windows and pieces of the spans, and the sums of their scores."""
    window, start, end, *scores = portable.find(
        outputs,
        np.array(first),
        np.array(length),
        n_best_size=size,
        max_answer_length=longest,
    )
    columns = window, start, end, np.round(sum(scores), 3)
    return [*zip(*(each.tolist() for each in columns), strict=True)]


def by_hand(starts, ends, first, length, size, longest):
    """The same of one window with logits, span by span."""
    real = first + length + 1
    best, last = (
        sorted(range(real), key=lambda i: -values[i])[:size]
        for values in (starts, ends)
    )
    return [
        (0, a - first, b - first, round(float(starts[a] + ends[b]), 3))
        for a in best
        for b in last
        if first <= a <= b < first + length and b - a < longest
    ]


@pytest.mark.parametrize("size", [1, 4, 50])
@pytest.mark.parametrize("longest", [1, 3, 50])
@pytest.mark.parametrize("length", [1, 5, 9])
def test_spans_inside_a_window_are_found(size, longest, length):
    logits = np.random.default_rng(length).normal(size=(2, 16))
    outputs = {"start_logits": logits[:1], "end_logits": logits[1:]}
    found = pairs(outputs, [4], [length], size, longest)
    assert found == by_hand(*logits, 4, length, size, longest)


def test_spans_that_the_model_chose():
    outputs = {
        "start_top_index": np.array([[2, 3], [3, 0]]),
        "start_top_log_probs": np.array([[-1.0, -2.0], [-1.0, -2.0]]),
        # Ends of the first start, then of the second one.
        "end_top_index": np.array([[2, 6, 4, 2], [4, 3, 3, 0]]),
        "end_top_log_probs": np.array([[-0.1, -0.2, -0.3, -0.4]] * 2),
    }
    assert pairs(outputs, [2, 3], [4, 2]) == [
        (0, 0, 0, -1.1),
        (0, 1, 2, -2.3),
        (1, 0, 1, -1.1),
        (1, 0, 0, -1.2),
    ]


def test_answers_in_contexts_are_those_of_the_task():
    pieces = tokenization.Tokenizer(str(FIXTURES / "own_text/spm.model"))
    texts = tokenizer_check.HARD_TEXTS
    window = squad_features.PassageWindows(7, 8)
    best = squad.AnswerOptions(5, 4)
    given = squad.SquadOptions("1.1", windows=window, answers=best)
    task = squad.SquadTask(pieces, 32, given)
    settings = {**dataclasses.asdict(window), **dataclasses.asdict(best)}
    about = {"max_seq_length": 32, "options": settings}
    ours = portable.Decoder(about, pieces)
    draws = np.random.default_rng(3)
    for text in ("\u00e9  the rain", *texts, "  ".join(texts[:9])):
        asked = squad_data.Question("q", "Where? " * 3, text, None)
        rows, rest = ours.lay_out(asked.text, text)
        blocks = list(task.featurize([asked], base.PREDICT))
        ids = [row for block in blocks for row in block["input_ids"]]
        packed = packing.pack(rows, pieces, 32)["input_ids"]
        np.testing.assert_array_equal(np.reshape(ids, [-1, 32]), packed)
        names = "start_logits", "end_logits"
        outputs = {n: draws.normal(size=(len(ids), 32)) for n in names}
        wanted = [{"text": "empty"}]
        if ids:
            (one,) = task.answers(outputs, [asked])
            wanted = one["n_best"]
        several = [{n: outputs[n][i] for n in names} for i in range(len(ids))]
        found = ours.conclude(rest, several)
        places = zip(found["n_best_start"], found["n_best_end"], strict=True)
        texts = [text.encode()[begin:end].decode() for begin, end in places]
        assert texts == found["n_best_answers"]
        expected = [entry["text"].replace("empty", "") for entry in wanted]
        assert texts == [*expected, *[""] * 5][:5]
