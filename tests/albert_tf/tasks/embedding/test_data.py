"""Files of texts that belong together: what is read, what is refused."""

import json

import pytest

from albert_tf.common import rows
from albert_tf.tasks.embedding import data as embedding_data
from albert_tf.tasks.embedding import task as embedding
from tests.conftest import refused


def read(path, kind, content, **how):
    path.write_text(content)
    items = embedding_data.read(str(path), kind, **how)
    assert all(item.guid == "x" for item in rows.raise_bad_lines(items))
    assert len(items[0].texts) == len(embedding_data.INPUTS[kind])
    return [(item.texts, item.label) for item in items]


ROWS = {
    "scored": (("a", "b"), 2.5),
    "pairs": (("a", "b"), None),
    "triplets": (("a", "c", "d"), None),
    "texts": (("a",), None),
    "retrieval": (("a",), None),
}


@pytest.mark.parametrize("kind", ROWS)
def test_tables_and_objects_are_read_alike(tmp_path, kind):
    """Other columns are left out."""
    values = {
        "id": "x",
        "positive": "c",
        "score": "2.5",
        "text": "a",
        "negative": "d",
        "text_pair": "b",
    }
    table = "\t".join(values) + "\n" + "\t".join(values.values()) + "\n"
    objects = json.dumps({**values, "score": 2.5}) + "\n"
    expected = [ROWS[kind]]
    assert read(tmp_path / "t.tsv", kind, table) == expected
    assert read(tmp_path / "t.csv", kind, table.replace("\t", ",")) == expected
    assert read(tmp_path / "t.jsonl", kind, objects) == expected


def test_a_teacher_reads_another_text(tmp_path, tiny_tokenizer):
    path = tmp_path / "t.tsv"
    path.write_text("text\tteacher_text\nEs regnet.\tIt rains.\nJa.\t\n")
    options = embedding.EmbeddingOptions(train_examples="texts")
    task = embedding.EmbeddingTask(tiny_tokenizer, 8, options)
    examples = task.read(str(path), "train")
    assert [one.texts for one in examples] == [("Es regnet.",), ("Ja.",)]
    asked = task.for_teacher(examples)
    assert [one.texts for one in asked] == [("It rains.",), ("Ja.",)]
    path = tmp_path / "t.jsonl"
    path.write_text('{"text": "a", "teacher_text": 1}')
    with refused("'teacher_text' is 1, which is no text"):
        task.read(str(path), "train")


def test_scores_of_a_test_file_may_be_missing(tmp_path):
    content = "text\ttext_pair\tid\na\tb\tx\n"
    found = read(tmp_path / "t.tsv", "scored", content, has_scores=False)
    assert found == [(("a", "b"), None)]
    with refused("line 1 has no 'score'"):
        read(tmp_path / "t.tsv", "scored", content)


@pytest.mark.parametrize(
    ("kind", "line", "message"),
    [
        ("scored", {"text": "a", "text_pair": "b", "score": "x"}, "score 'x'"),
        ("scored", {"text": "a", "text_pair": "b", "score": "nan"}, "'nan'"),
        ("scored", {"text": "a", "text_pair": "b", "score": True}, "True"),
        ("scored", {"text": "a", "text_pair": "b", "score": "1_0"}, "'1_0'"),
        ("pairs", {"text": "a", "text_pair": 7}, "'text_pair' is 7"),
        ("triplets", {"text": "a", "positive": "b"}, "has no 'negative'"),
    ],
)
def test_bad_lines_are_named(tmp_path, kind, line, message):
    content = "\n" + json.dumps(line) + "\n"
    with refused(f"line 2.*{message}"):
        read(tmp_path / "t.jsonl", kind, content)
