"""Tables of a user's: rows, labels, the part that is not learnt, weights."""

import re

import numpy as np
import pytest
from sklearn import metrics
from sklearn.utils import class_weight

from albert_tf.common import options as options_of
from albert_tf.common import rows
from albert_tf.finetuning import base, packing, probabilities
from albert_tf.finetuning.packing import TextExample
from albert_tf.tasks.table import data, labels
from tests import row_files
from tests.albert_tf.tasks.glue.small_tasks import Markers
from tests.conftest import refused

ROWS = [
    {"nr": "a", "title": 'He said "go"', "body": "x, y", "mood": "glad"},
    {"nr": "b", "title": "Two\nlines", "body": "", "mood": " sad"},
    {"nr": "c", "title": "—", "body": "It rains; it pours.", "mood": "glad"},
]


def options(**values):
    given = {"text_columns": "title,body", "label_column": "mood", **values}
    return data.TableOptions(**given)


def task_of(**values):
    return labels.LabelTask(
        Markers(), 16, options(**{"labels": "glad,sad", **values})
    )


def write(folder, kind, rows=ROWS):
    separator = ";" if kind.startswith("semicolon") else ","
    name = f"own.{kind.removeprefix('semicolon.')}"
    return row_files.write(folder / name, rows, separator)


@pytest.mark.parametrize("kind", ["csv", "semicolon.csv", "jsonl", "parquet"])
def test_all_kinds_of_files_have_the_same_rows(tmp_path, kind):
    path = write(tmp_path, kind)
    assert data.find_labels(path, options()) == ("glad", "sad")
    examples = task_of().read(path, base.DEV)
    assert [(*e.texts, e.label) for e in examples] == [
        ('He said "go"', "x, y", 0),
        ("Two\nlines", "", 1),
        ("—", "It rains; it pours.", 0),
    ]
    named = task_of(id_column="nr").read(path, base.TEST)
    assert [e.guid for e in named] == ["a", "b", "c"]
    assert {e.label for e in named} == {None}


def test_logs_of_searches_are_tables(tmp_path):
    """Label, query, title: docs/objectives.md, relevance of ERNIE 2.0."""
    path = tmp_path / "searches.tsv"
    path.write_text("0\tred shoes\tShoes in red\n2\tred shoes\tThe weather\n")
    values = {"text_columns": "2,3", "label_column": "1", "labels": "0,1,2"}
    task = task_of(**values, header=False)
    found = task.read(str(path), base.TRAIN)
    assert [(*e.texts, e.label) for e in found] == [
        ("red shoes", "Shoes in red", 0),
        ("red shoes", "The weather", 2),
    ]


def test_columns_may_be_given_one_by_one():
    words = ["--text_columns=title", "--text_columns=body", "--labels=a,b"]
    found = options_of.parse(data.TableOptions, words)
    assert found.inputs == ("title", "body")


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("a, b", ("a", "b")),
        ('"a, b",c', ("a, b", "c")),
        ('" a",b ', (" a", "b ")),
        ('"said ""no"""', ('said "no"',)),
    ],
)
def test_names_of_columns_are_a_row_of_csv(given, names):
    assert options(text_columns=given).inputs == names


@pytest.mark.parametrize(
    ("given", "names"),
    [(None, ()), (" a,b , c", ("a", "b", "c")), ("a, b\tc ", ("a, b", "c"))],
)
def test_labels_stand_between_commas_or_tabs(given, names):
    assert options(labels=given).names == names


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"text_columns": "a,b,c"}, "`text_columns=a,b,c` must name one col"),
        ({"text_columns": "a,mood"}, "name 'mood' twice"),
        ({"label_column": "b,b", "multi_label": True}, "name 'b' twice"),
        ({"query_column": "q"}, "with `query_column` one"),
        ({"labels": "a,b", "regression": True}, "`labels=a,b` .* `regression`"),
        ({"multi_label": True, "regression": True}, "`multi_label=True` does"),
        (
            {"regression": True, "query_column": "q", "text_columns": "a"},
            "`regression=True` does not go with `query_column`",
        ),
        (
            {"class_weights": "balanced", "regression": True},
            "`class_weights=balanced` does not go with `regression`",
        ),
        ({"examples_per_label": 2, "regression": True}, "`examples_per_label="),
        ({"labels_file": "t", "dev_share": 0.2}, "`dev_share=0.2` is about"),
        ({"none_label": "other"}, "`none_label=other`.*`labels_file`"),
        ({"label_mean": 1.0, "regression": True}, "belong together"),
        ({"label_deviation": 1.0, "regression": True}, "belong together"),
        ({"label_deviation": 1.0}, "`label_deviation=1.0`.*`regression`"),
        ({"ndcg_at": 5}, "`ndcg_at=5`.*`query_column`"),
        ({"query_column": "a", "text_columns": "a"}, "name 'a' twice"),
        ({"label_separator": ";"}, "with `multi_label`"),
        ({"label_separator": "", "multi_label": True}, "is empty"),
        (
            {
                "label_separator": ";",
                "multi_label": True,
                "label_column": "a,b",
            },
            "`label_separator=;` divides .* names several",
        ),
        ({"best_score": "micro_f1"}, "Use accuracy or"),
        ({"best_score": "auc", "regression": True}, "Use pearson or spearmanr"),
        ({"best_score": "ndcg", "multi_label": True}, "Use micro_f1 or macro"),
        (
            {"best_score": "auc", "query_column": "q", "text_columns": "a"},
            "Use ndcg or mrr",
        ),
    ],
)
def test_options_that_do_not_go_together(given, message):
    with refused(message):
        options(**given)


def test_settings_of_a_task():
    assert options(multi_label=True).key_metric == "micro_f1"
    assert options(regression=True).key_metric == "pearson"
    assert task_of(header=False).settings == {
        "task_name": "table",
        "max_seq_length": 16,
        "labels": ["glad", "sad"],
        "columns": [["title", "body"], "mood"],
        "header": False,
        "dev_share": [0.0, 12345],
        "kind": ["label", None],
    }


def test_a_line_break_between_names_is_refused():
    with refused("cannot be divided .* quotation"):
        options(text_columns="a\rb,c")


def test_all_bad_rows_are_counted(tmp_path):
    moods = ["glad", "", "gald", None, "sda", "gald", "sad"]
    rows = [{"title": "a", "body": "b", "mood": mood} for mood in moods]
    path = write(tmp_path, "jsonl", rows)
    message = "line 2: the column 'mood' .* holds for 1 more: line 4."
    with refused(message):
        task_of().read(path, base.DEV)
    path = write(tmp_path, "jsonl", [row for row in rows if row["mood"]])
    message = r"line 2: the label 'gald' .* 1 more: 'sda' \(.*, line 3\)\."
    with refused(message):
        task_of().read(path, base.DEV)


def test_a_file_without_header_is_read_with_noheader(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("good,1\n")
    with refused("give `header=False`. The first"):
        task_of().read(str(path), base.DEV)
    with refused(r"'1'\. The first row must"):
        task_of().read_own(str(path))  # `predict` has no such option.


def test_texts_of_nothing_are_told(tiny_tokenizer, caplog):
    texts = [("7", "", ""), ("8", "", "a"), ("9", "a", "")]
    examples = [TextExample(id_, pair, 0) for id_, *pair in texts]
    task = labels.LabelTask(tiny_tokenizer, 16, options(labels="a,b"))
    list(task.featurize(examples, base.TRAIN))
    assert f"1 {packing.EMPTY} (7)" in caplog.text


def test_columns_by_number(tmp_path):
    path = tmp_path / "t.tsv"
    path.write_text('1\t"good"\n0\tbad\n1\tnice\n')
    given = {"text_columns": "2", "label_column": "1", "header": False}
    assert data.find_labels(str(path), options(**given)) == ("0", "1")
    found = task_of(labels="0,1", **given).read(str(path), base.TRAIN)
    assert [(*e.texts, e.label) for e in found] == [
        ('"good"', 1),
        ("bad", 0),
        ("nice", 1),
    ]
    # An export asks for `text`; so this file may, too.
    path = tmp_path / "new.jsonl"
    path.write_text('{"text": "fine"}\n')
    own = task_of(labels="0,1", **given).read_own(str(path))
    assert [e.texts for e in own] == [("fine",)]
    path = tmp_path / "new.csv"
    path.write_text("text,date\nfine,2026\n")
    own = task_of(labels="0,1", **given).read_own(str(path))
    assert [e.texts for e in own] == [("fine",)]


def test_labels_are_text_and_numbers_are_sorted_by_size(tmp_path):
    rows = [{"title": "a", "body": "b", "mood": n} for n in (10, 9.0, 2)]
    path = write(tmp_path, "jsonl", rows)
    assert data.find_labels(path, options()) == ("2", "9", "10")
    rows = [{"title": "a", "body": "b", "mood": n} for n in (True, False)]
    path = write(tmp_path, "parquet", rows)
    assert data.find_labels(path, options()) == ("False", "True")


@pytest.mark.parametrize(
    ("moods", "told"),
    [
        ("aabb", ()),
        ("aab", ("3 examples have 2 different", "1 labels .* such as 'b'")),
        ("abab", ()),
        ("aabbc", ("5 examples have 3 different", "1 labels .* such as 'c'")),
    ],
)
def test_labels_that_look_wrong_are_told(tmp_path, caplog, moods, told):
    rows = [{"title": "a", "body": "b", "mood": mood} for mood in moods]
    data.find_labels(write(tmp_path, "jsonl", rows), options())
    assert len(caplog.messages) == len(told)
    for message, expected in zip(caplog.messages, told, strict=True):
        assert re.search(expected, message)


def test_files_of_one_label_or_without_texts_are_refused(tmp_path):
    rows = [{"title": "", "body": " ", "mood": "a"}] * 3
    with refused("is empty in all 3 rows of"):
        data.find_labels(write(tmp_path, "jsonl", rows), options())
    rows[0] = {"title": "x", "body": "", "mood": "a"}
    message = "has 3 examples and these labels in the column 'mood': a. Two"
    with refused(message):
        data.find_labels(write(tmp_path, "jsonl", rows), options())


def test_new_texts_in_own_columns_or_as_an_export_has_them(tmp_path):
    task = task_of()
    own = write(tmp_path, "csv")
    texts = [e.texts for e in task.read_own(own)]
    named = task_of(id_column="nr").read_own(own)
    assert [e.guid for e in named] == ["a", "b", "c"]
    assert texts[0] == ('He said "go"', "x, y")
    usual = tmp_path / "usual.jsonl"
    usual.write_text('{"id": 7, "text": "a", "text_pair": "b"}\n{"text": 1}\n')
    good, bad = task.read_own(str(usual))
    assert (good.guid, good.texts) == (7, ("a", "b"))
    assert isinstance(bad, rows.BadLine)
    neither = tmp_path / "neither.csv"
    neither.write_text("headline,text\na,b\n")
    with refused("has no 'title'; .*'headline'"):
        task.read_own(str(neither))


def test_both_parts_are_the_file(tmp_path):
    rows = [
        {"title": f"t{n}", "body": "", "mood": "glad" if n % 3 else "sad"}
        for n in range(30)
    ]
    path = write(tmp_path, "jsonl", rows)
    task = task_of(dev_share=0.2)
    learnt, kept = (task.read(path, s) for s in (base.TRAIN, base.HELD_OUT))
    assert len(kept) == 6
    assert {e.texts[0] for e in [*learnt, *kept]} == {
        row["title"] for row in rows
    }
    assert len(learnt) + len(kept) == 30
    assert len(task.read(path, base.DEV)) == 30
    assert task.eval_splits == (base.DEV, base.HELD_OUT)


def test_files_without_rows_or_with_too_few_are_refused(tmp_path):
    (tmp_path / "own.csv").write_text("title,body,mood\n")
    with refused("own.csv has no examples. Give"):
        task_of().read(str(tmp_path / "own.csv"), base.DEV)
    path = write(tmp_path, "jsonl", [{"title": "t", "body": "", "mood": "sad"}])
    task = task_of(dev_share=0.2)
    with refused("no examples for held_out; equ"):
        [task.read(path, split) for split in (base.TRAIN, base.HELD_OUT)]


def test_texts_of_both_files_are_told(tmp_path, caplog):
    task, path = task_of(labels="glad,odd,sad"), write(tmp_path, "csv")
    learnt = task.read(path, base.TRAIN)
    assert "No example of odd in" in caplog.text
    assert task.eval_splits == (base.DEV,)
    task.warn_of_overlap(learnt[:2], learnt[2:], path)
    assert "texts are in the training file" not in caplog.text
    task.warn_of_overlap(learnt, task.read(path, base.DEV), path)
    assert "own.csv: 3 texts are in the training file, too" in caplog.text


def test_balanced_weights_are_those_of_scikit_learn(tmp_path):
    path = write(tmp_path, "csv", ROWS * 3 + ROWS[:1])
    task = task_of(class_weights="balanced")
    assert task.class_weights([]) is None
    learnt = task.read(path, base.TRAIN)
    labels = np.array([e.label for e in learnt])
    expected = class_weight.compute_class_weight(
        "balanced", classes=np.arange(2), y=labels
    )
    found = task.class_weights(learnt)
    np.testing.assert_allclose(found, expected)
    assert np.take(found, labels).mean() == pytest.approx(1)
    assert task_of().class_weights(learnt) is None


@pytest.mark.parametrize("count", [2, 4])
def test_scores_are_those_of_scikit_learn(count):
    random = np.random.default_rng(5)
    labels = random.integers(0, count, 50)
    logits = random.normal(size=(50, count)).round(1) + np.eye(count)[labels]
    names = ",".join(f"l{n}" for n in range(count))
    task = task_of(labels=names, best_score="auc")
    examples = [TextExample(n, ("",), label) for n, label in enumerate(labels)]
    found = task.score({"logits": logits}, examples)
    best, odds = logits.argmax(-1), probabilities.softmax(logits)
    expected = {
        "accuracy": metrics.accuracy_score(labels, best),
        "macro_f1": metrics.f1_score(labels, best, average="macro"),
        "matthew_corr": metrics.matthews_corrcoef(labels, best),
        "auc": metrics.roc_auc_score(
            labels, odds[:, 1] if count == 2 else odds, multi_class="ovr"
        ),
        "loss": metrics.log_loss(labels, odds),
    }
    if count == 2:
        expected["f1"] = metrics.f1_score(labels, best)
    assert found == pytest.approx(expected)
    assert task.key_metric == "auc"
    counts = task.confusion({"logits": logits}, examples).counts
    np.testing.assert_array_equal(
        counts, metrics.confusion_matrix(labels, best)
    )
