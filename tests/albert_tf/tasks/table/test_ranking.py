"""Tables with queries: rows, parts, pairs, scores."""

import numpy as np
import pytest

from albert_tf.data import layouts
from albert_tf.finetuning import base
from albert_tf.finetuning.packing import TextExample
from albert_tf.tasks.table import data, numbers
from albert_tf.text import tokenization
from tests import row_files
from tests.albert_tf.tasks.glue.small_tasks import Markers
from tests.conftest import refused


def options(**values):
    given = {
        "query_column": "question",
        "text_columns": "text",
        "label_column": "relevance",
        **values,
    }
    return data.TableOptions(**given)


def task_of(tokenizer=None, **values):
    return numbers.RankingTask(tokenizer or Markers(), 16, options(**values))


def write(folder, *groups):
    """A file in which query N has texts of the relevances of group N."""
    rows = [
        {"question": f"q{n}", "text": f"q{n} t{m}", "relevance": relevance}
        for n, group in enumerate(groups)
        for m, relevance in enumerate(group)
    ]
    return row_files.write(folder / "t.jsonl", rows)


def test_a_query_is_in_one_part_only(tmp_path):
    path = write(tmp_path, *[[0, 1, 2]] * 20)
    task = task_of(dev_share=0.25, ranking_loss="pointwise")
    learnt, kept = (task.read(path, s) for s in (base.TRAIN, base.HELD_OUT))
    queries = [{e.texts[0] for e in part} for part in (learnt, kept)]
    assert [len(q) for q in queries] == [15, 5]
    assert not queries[0] & queries[1]
    assert [len(learnt), len(kept)] == [45, 15]
    query, text = kept[0].texts
    assert text.startswith(query)


def test_pairs_are_of_one_query_and_in_order(tmp_path):
    path = write(tmp_path, [0, 1, 2, 0], [1], [1, 1], [5, 0])
    pairs = task_of(pairs_per_text=9).read(path, base.TRAIN)
    found = {(better.texts[1], worse.texts[1]) for better, worse in pairs}
    assert found == {
        ("q0 t1", "q0 t0"),
        ("q0 t1", "q0 t3"),
        ("q0 t2", "q0 t0"),
        ("q0 t2", "q0 t1"),
        ("q0 t2", "q0 t3"),
        ("q3 t0", "q3 t1"),
    }
    assert len(pairs) == len(found)
    path = write(tmp_path, [1, *[0] * 50])
    few = task_of().read(path, base.TRAIN)
    assert len({worse.texts[1] for _, worse in few}) == len(few) == 4
    assert task_of().read(path, base.TRAIN) == few
    assert task_of(split_seed=3).read(path, base.TRAIN) != few


def test_queries_that_do_not_count_are_told(tmp_path, caplog):
    path = write(tmp_path, [0, 1], [1], [2, 2], [0])
    message = (
        "3 of 4 queries do not count: 2 have one text, 1 have several texts "
        "of the same relevance"
    )
    for split in (base.TRAIN, base.DEV):
        caplog.clear()
        task_of().read(path, split)
        assert f"t.jsonl, {split}: {message}" in caplog.text
    path = write(tmp_path, [0], [1], [2])
    for split in (base.TRAIN, base.DEV):
        with refused("none of 3 queries has"):
            task_of().read(path, split)


def test_queries_of_both_files_are_told(tmp_path, caplog):
    path, task = write(tmp_path, [0, 1], [1, 0]), task_of()
    learnt = task.read(path, base.TRAIN)
    task.warn_of_overlap(learnt, task.read(path, base.DEV), path)
    assert "t.jsonl: 2 queries are in the training file, too" in caplog.text


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (-1, "holds -1. A relevance is 0, for"),
        ("very", "'very', which is no number"),
        (None, "None, which is no number"),
    ],
)
def test_bad_relevances_are_named_with_their_line(tmp_path, cell, message):
    path = write(tmp_path, [1, cell])
    with refused(f"line 2: .* {message}"):
        task_of().read(path, base.TRAIN)


def test_a_missing_column_is_named(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("query,text,relevance\na,b,1\n")
    message = "line 1 has no 'question'; there are 'query', 'text', 'relevance'"
    with refused(message):
        task_of().read(str(path), base.TRAIN)


def test_records_of_pairs_have_the_better_text_first(tmp_path, tiny_vocab):
    tokenizer = tokenization.load(
        tokenization.VocabularyOptions(spm_model_file=tiny_vocab)
    )
    task = task_of(tokenizer, pairs_per_text=1)
    examples = task.read(write(tmp_path, *[[0, 1]] * 300), base.TRAIN)
    batches = list(task.featurize(examples, base.TRAIN))
    ids = np.concatenate([batch["input_ids"] for batch in batches])
    assert ids.shape == (300, 2, 16)
    texts = [text for pair in examples for text in pair]
    alone = task.featurize(texts, base.DEV)
    expected = np.concatenate([batch["input_ids"] for batch in alone])
    np.testing.assert_array_equal(ids.reshape(600, 16), expected)
    assert task.layout(base.TRAIN) == layouts.choice_layout(16, 2)
    shapes = {f.name: f.shape for f in task.layout(base.DEV)}
    assert shapes["input_ids"] == (16,)
    assert [task.sequences_at_once, task.is_pairwise] == [2, True]
    alone = task_of(ranking_loss="pointwise")
    assert alone.layout(base.TRAIN) == alone.layout(base.DEV)


def test_reciprocal_rank():
    relevance = np.array([0, 2, 0, 1])
    for scores, expected in (
        ([1, 4, 3, 2], 1),
        ([4, 1, 3, 2], 1 / 3),
        ([4, 1, 1, 2], 1 / 2),
        ([1, 1, 1, 1], 1 / 3),  # A model that knows nothing gains nothing.
    ):
        found = numbers.reciprocal_rank(relevance, np.array(scores))
        assert found == pytest.approx(expected)


def test_scores_are_means_over_queries():
    groups = {"a": [0, 1], "b": [3], "c": [2, 0, 0], "d": [1, 1]}
    examples = [
        TextExample(f"{name}{n}", (name, f"t{n}"), label)
        for name, labels in groups.items()
        for n, label in enumerate(labels)
    ]
    examples = examples[::2] + examples[1::2]  # In any order.
    values = {"a0": 5.0, "a1": 1.0, "c0": 2.0, "c1": 3.0, "c2": 2.5}
    logits = np.array([[values.get(e.guid, 0.0)] for e in examples])
    found = task_of(ndcg_at=2).score({"logits": logits}, examples)
    assert found == {
        "ndcg": pytest.approx(1 / np.log2(3) / 2),  # c's is the third.
        "mrr": pytest.approx((1 / 2 + 1 / 3) / 2),
    }
    assert task_of(best_score="mrr").key_metric == "mrr"
    assert task_of(pairs_per_text=9).settings["pairs"] == [None, 9]
    # Ten places count where nothing else is said.
    long = [TextExample(n, ("q", "t"), float(n == 10)) for n in range(11)]
    outputs = {"logits": -np.arange(11.0)[:, None]}
    assert task_of().score(outputs, long)["ndcg"] == 0
    assert task_of(ndcg_at=11).score(outputs, long)["ndcg"] > 0
