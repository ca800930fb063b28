"""Files of queries, and how many of their texts are found."""

import itertools

import numpy as np
import pytest

from albert_tf.common import rows
from albert_tf.finetuning import base
from albert_tf.tasks.embedding import retrieval
from albert_tf.tasks.embedding import task as embedding
from tests import row_files
from tests.conftest import refused

ROWS = [
    {"id": "a", "text": "It rains."},
    {"query": "Is it wet?", "relevant": ["a", 7, "a"]},
    {"id": 7, "text": "Water falls."},
    {"id": "b", "text": "We stay."},
    {"id": "q", "query": "Who leaves?", "relevant": ["b"]},
]


def test_texts_and_queries_in_any_order(tmp_path):
    found = retrieval.read(row_files.write(tmp_path / "dev.jsonl", ROWS))
    assert [entry.texts[0] for entry in found] == [
        row.get("text") or row["query"] for row in ROWS
    ]
    assert [entry.relevant for entry in found] == [
        (),
        ("a", 7),
        (),
        (),
        ("b",),
    ]
    assert found[1].guid == rows.LineKey({"line": 2})
    assert [entry.guid for entry in found if not entry.relevant] == [
        "a",
        7,
        "b",
    ]


def at(*degrees):
    angles = np.radians(degrees)
    return np.stack([np.cos(angles), np.sin(angles)], 1)


def test_scores_by_hand(tmp_path):
    """The first query finds 7, b, a; the second one a and 7 before b."""
    entries = retrieval.read(row_files.write(tmp_path / "dev.jsonl", ROWS))
    #            a  query  7   b  query
    vectors = at(40, 0, 10, 20, 28)
    found = retrieval.score(vectors, entries)
    # Ranks: 3 and 1 of two; b is the first for the second query.
    assert found == {
        "mrr": (1 / 1 + 1 / 1) / 2,
        "recall_at_1": (1 / 2 + 1) / 2,
        "recall_at_10": 1,
    }
    first, second = retrieval.answers(vectors, entries)
    assert first == {"line": 2, "prediction": [7, "b", "a"]}
    assert second == {"id": "q", "prediction": ["b", "a", 7]}
    equal = retrieval.score(np.ones([5, 2]), entries)
    # The mean rank of the first of two relevant texts among three is 4 / 3.
    assert equal["mrr"] == pytest.approx((3 / 4 + 1 / 2) / 2)
    assert equal["recall_at_1"] == 0


@pytest.mark.parametrize(
    ("row", "chosen"),
    [
        ([3, 3, 1], [0, 1]),  # Both right: none stands before the other.
        ([1, 3, 3, 2], [3, 0]),
        ([2, 2, 2, 2], [1, 2]),
        ([2, 3, 2, 3, 2, 1], [0, 1, 4]),
        ([1, 2, 2, 2, 0], [2, 3, 4]),
    ],
)
def test_ranks_of_equal_numbers_are_means_over_their_orders(row, chosen):
    orders = itertools.permutations(range(len(row)))
    ranks = [
        sorted(order.index(number) + 1 for number in chosen)
        for order in orders
        if [row[n] for n in order] == sorted(row, reverse=True)
    ]
    places = retrieval.places(np.array(row), chosen)
    np.testing.assert_allclose(places, np.mean(ranks, 0))


def test_many_queries_are_what_counting_finds():
    """More than are compared together."""
    generator = np.random.default_rng(5)
    vectors = generator.normal(size=[700, 4])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    entries = [retrieval.Entry(n, ("x",)) for n in range(300)]
    wanted = generator.integers(300, size=[400, 2]).tolist()
    entries += [
        retrieval.Entry(n, ("x",), relevant=tuple({*ids}))
        for n, ids in enumerate(wanted)
    ]
    expected = []
    for entry, vector in zip(entries[300:], vectors[300:], strict=True):
        order = list(np.argsort(-(vectors[:300] @ vector)))
        places = [order.index(id_) + 1 for id_ in entry.relevant]
        expected.append(
            (
                1 / min(places),
                *(np.mean(np.array(places) <= k) for k in (1, 10)),
            )
        )
    found = retrieval.score(vectors, entries)
    np.testing.assert_allclose(list(found.values()), np.mean(expected, 0))
    *_, last = retrieval.answers(vectors, entries)
    assert last["prediction"] == order[:10]


def test_the_task_reads_scores_and_answers(tmp_path, tiny_tokenizer):
    options = embedding.EmbeddingOptions("pairs", "retrieval")
    task = embedding.EmbeddingTask(tiny_tokenizer, 8, options)
    path = row_files.write(tmp_path / "dev.jsonl", ROWS)
    examples = task.read(path, base.DEV)
    (records,) = task.featurize(examples, base.DEV)
    assert records["input_ids"].shape == (5, 8)
    vectors = at(40, 0, 10, 20, 28)
    for outputs in (vectors, vectors[:, None]):  # Of a model, of an export.
        assert task.score({"embedding": outputs}, examples)["mrr"] == 1
        answers = list(task.answers({"embedding": outputs}, examples))
        assert [answer["prediction"][0] for answer in answers] == [7, "b"]
    assert task.key_metric == "mrr"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"id": "c"}, "line 6 has no 'text'.* It needs id, text"),
        ({"text": "c"}, "line 6 has no 'id'"),
        ({"query": "c"}, "line 6 has no 'relevant'"),
        (
            {"query": 1, "relevant": ["a"]},
            "line 6: .query. is 1, which is no text",
        ),
        ({"query": "c", "relevant": []}, r"line 6: 'relevant' is \[\]"),
        ({"query": "c", "relevant": "a"}, "line 6: 'relevant' is 'a'"),
        ({"query": "c", "relevant": [["a"]]}, r"the id \['a'\] is neither"),
        ({"id": True, "text": "c"}, "the id True is neither"),
        ({"id": "a", "text": "c"}, "has the id 'a' twice"),
        ({"query": "c", "relevant": ["7"]}, "'c' names the id '7', but no t"),
    ],
)
def test_bad_lines_are_named(tmp_path, row, message):
    path = row_files.write(tmp_path / "dev.jsonl", [*ROWS, row])
    with refused(message):
        retrieval.read(path)


def test_a_file_without_queries_is_refused(tmp_path):
    path = row_files.write(tmp_path / "dev.jsonl", ROWS[:1])
    with refused("has no queries"):
        retrieval.read(path)
