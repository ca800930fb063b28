"""GLUE classification: strict reading, packing, scores, predictions."""

import dataclasses
import gzip
import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import errors, modeling, tokenization
from albert_tf.heads import classification
from albert_tf.tasks import base, glue, glue_metrics

HEADER = "index\tsentence1\tsentence2\tlabel\n"
ROW = "7\tIt rains.\tIt is wet.\tentailment\n"
# Rows of the real files; a file that is there only compressed is not listed.
REAL_ROWS = {
    ("cola", "train"): 8551,
    ("cola", "dev"): 521,
    ("cola", "test"): 1063,
    ("mrpc", "train"): 3668,
    ("mrpc", "dev"): 204,
    ("mrpc", "test"): 1725,
    ("qnli", "dev"): 2731,
    ("rte", "train"): 2490,
    ("rte", "dev"): 138,
    ("rte", "test"): 3000,
    ("sst-2", "dev"): 436,
    ("sst-2", "test"): 1821,
    ("wnli", "train"): 635,
    ("wnli", "dev"): 35,
    ("wnli", "test"): 146,
}


@dataclasses.dataclass(frozen=True)
class Markers:
    """All that `pack` asks of a tokenizer."""

    cls_id: int = 2
    sep_id: int = 3


def write(folder, content, name="RTE/dev.tsv"):
    """Write a file of a task; returns the data folder as an option's value."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(
        content if isinstance(content, bytes) else content.encode("utf-8")
    )
    return str(folder)


def read_rte(folder, content, split="dev"):
    return glue.GlueTask("rte").read(
        write(folder, content, f"RTE/{split}.tsv"), split
    )


# Names.


def test_task_name_may_be_in_any_case():
    assert glue.GlueTask("CoLA").name == "cola"
    assert glue.GlueTask("SST-2").name == "sst-2"


def test_unknown_task_name_lists_the_known_ones():
    with pytest.raises(errors.UserError, match="--task_name=rtf .*mrpc, .*rte"):
        glue.GlueTask("rtf")


@pytest.mark.parametrize("name", sorted(glue.TASKS))
def test_pairs_follow_from_the_table(name):
    assert glue.GlueTask(name).has_pairs == (name not in ("cola", "sst-2"))


# Reading.


def test_read_takes_texts_and_label_of_each_row(tmp_path):
    second = "8\tWe stay.\tWe go.\tnot_entailment\n"
    assert read_rte(tmp_path, HEADER + ROW + second) == [
        base.Example("dev-2", "It rains.", "It is wet.", 0),
        base.Example("dev-3", "We stay.", "We go.", 1),
    ]


def test_test_rows_have_their_own_index_and_no_label(tmp_path):
    content = "index\tsentence1\tsentence2\n41\tIt rains.\tIt is wet.\n"
    assert read_rte(tmp_path, content, "test") == [
        base.Example("41", "It rains.", "It is wet.", None)
    ]


def test_cola_has_no_header_but_in_its_test_file(tmp_path):
    task = glue.GlueTask("cola")
    folder = write(tmp_path, "gj04\t1\t\tWe sail.\n", "CoLA/dev.tsv")
    write(tmp_path, "index\tsentence\n0\tWe row.\n", "CoLA/test.tsv")
    assert task.read(folder, "dev") == [
        base.Example("dev-1", "We sail.", "", 1)
    ]
    assert task.read(folder, "test") == [base.Example("0", "We row.", "", None)]


@pytest.mark.parametrize(
    "content",
    [
        (HEADER + ROW).replace("\n", "\r\n"),
        "\ufeff" + HEADER + ROW,
        (HEADER + ROW).removesuffix("\n"),
    ],
    ids=["line ends of Windows", "byte order mark", "no last line end"],
)
def test_harmless_variants_are_read(tmp_path, content):
    assert read_rte(tmp_path, content) == [
        base.Example("dev-2", "It rains.", "It is wet.", 0)
    ]


def test_byte_order_mark_is_no_part_of_the_first_field(tmp_path):
    folder = write(tmp_path, "\ufeff1\t1\t\tWe sail.\n", "CoLA/dev.tsv")
    assert glue.GlueTask("cola").read(folder, "dev")[0].label == 1


def test_quotes_are_ordinary_characters(tmp_path):
    row = '7\t"It rains.\tHe said "wet".\tentailment\n'
    (example,) = read_rte(tmp_path, HEADER + row)
    assert (example.text_a, example.text_b) == ('"It rains.', 'He said "wet".')


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\x0b"])
def test_only_line_feeds_end_a_row(tmp_path, separator):
    text = f"It{separator}rains."
    row = f"7\t{text}\tIt is wet.\tentailment\n"
    assert [e.text_a for e in read_rte(tmp_path, HEADER + row)] == [text]


@pytest.mark.parametrize(
    "row, count",
    [
        ("8\tWe stay.\tentailment\n", 3),
        ("8\tWe\tstay.\tWe go.\tentailment\n", 5),
        ("\n", 1),
    ],
)
def test_wrong_column_count_names_file_line_and_counts(tmp_path, row, count):
    with pytest.raises(
        errors.UserError, match=rf"RTE/dev.tsv, line 3: {count} columns .* 4\."
    ):
        read_rte(tmp_path, HEADER + ROW + row)


def test_unknown_label_names_file_line_and_allowed_ones(tmp_path):
    row = "8\tWe stay.\tWe go.\tneutral\n"
    with pytest.raises(
        errors.UserError,
        match="RTE/dev.tsv, line 3: the label 'neutral' .*not_entailment",
    ):
        read_rte(tmp_path, HEADER + ROW + row)


def test_missing_file_names_the_option_and_the_path(tmp_path):
    with pytest.raises(errors.UserError, match=r"--data_dir=.*RTE/train\.tsv"):
        glue.GlueTask("rte").read(write(tmp_path, HEADER + ROW), "train")


@pytest.mark.parametrize("content", ["", HEADER, "\ufeff"])
def test_file_without_examples_is_refused(tmp_path, content):
    with pytest.raises(errors.UserError, match="dev.tsv has no examples"):
        read_rte(tmp_path, content)


def test_other_encodings_are_refused(tmp_path):
    content = (HEADER + ROW).replace("rains", "pl\u00fct").encode("latin-1")
    with pytest.raises(errors.UserError, match="dev.tsv is not UTF-8"):
        read_rte(tmp_path, content)


@pytest.mark.parametrize("name, split", sorted(REAL_ROWS))
def test_real_files_are_read_completely(shared_dir, name, split):
    task = glue.GlueTask(name)
    examples = task.read(str(shared_dir / "data" / "glue"), split)
    assert len(examples) == REAL_ROWS[name, split]
    assert all(e.text_a for e in examples)
    assert all(bool(e.text_b) == task.has_pairs for e in examples)
    labels = {e.label for e in examples}
    assert labels == ({None} if split == "test" else {0, 1})


def test_no_real_file_is_forgotten(shared_dir):
    data_dir = shared_dir / "data" / "glue"
    there = {
        (name, split)
        for name in glue.TASKS
        for split in base.SPLITS
        if tf.io.gfile.exists(glue.GlueTask(name).source(str(data_dir), split))
    }
    assert there == set(REAL_ROWS)


# Features.


def test_pack_worked_example():
    packed = glue.pack([11, 12, 13], [21, 22, 23], Markers(), 8)
    assert {name: value.tolist() for name, value in packed.items()} == {
        "input_ids": [2, 11, 12, 13, 3, 21, 22, 3],
        "input_mask": [1, 1, 1, 1, 1, 1, 1, 1],
        "segment_ids": [0, 0, 0, 0, 0, 1, 1, 1],
    }
    assert all(value.dtype == np.int64 for value in packed.values())


@pytest.mark.parametrize(
    "first, second, length, expected",
    [
        ([11, 12, 13, 14], [21], 7, [2, 11, 12, 13, 3, 21, 3]),
        ([11], [21, 22, 23, 24], 7, [2, 11, 3, 21, 22, 23, 3]),
        ([11, 12], [21, 22], 6, [2, 11, 12, 3, 21, 3]),
        ([11, 12, 13, 14], [21, 22], 7, [2, 11, 12, 3, 21, 22, 3]),
        ([11, 12, 13, 14], [], 5, [2, 11, 12, 13, 3]),
        ([11], [], 5, [2, 11, 3, 0, 0]),
        ([], [], 4, [2, 3, 0, 0]),
    ],
)
def test_pack_cuts_the_longer_text(first, second, length, expected):
    packed = glue.pack(first, second, Markers(), length)
    assert packed["input_ids"].tolist() == expected


def test_pack_marks_padding():
    packed = glue.pack([11], [21], Markers(), 7)
    assert packed["input_mask"].tolist() == [1, 1, 1, 1, 1, 0, 0]
    assert packed["segment_ids"].tolist() == [0, 0, 0, 1, 1, 0, 0]


def test_pack_leaves_its_arguments_alone():
    first, second = [11, 12, 13], [21, 22, 23]
    glue.pack(first, second, Markers(), 6)
    assert (first, second) == ([11, 12, 13], [21, 22, 23])


def test_features_fill_the_layout(tiny_tokenizer):
    task = glue.GlueTask("rte")
    examples = [
        base.Example("a", "It rains.", "It is wet.", 1),
        base.Example("b", "It rains.", "", None),
    ]
    known, unknown = task.featurize(examples, tiny_tokenizer, 32)
    assert set(known) == {feature.name for feature in task.layout(32)}
    text = tiny_tokenizer.encode("It rains.")
    assert known["input_ids"][: len(text) + 2].tolist() == [
        tiny_tokenizer.cls_id,
        *text,
        tiny_tokenizer.sep_id,
    ]
    assert (known["label_ids"], unknown["label_ids"]) == (1, 0)
    assert known["is_real_example"] == unknown["is_real_example"] == 1
    assert unknown["segment_ids"].sum() == 0


@pytest.mark.parametrize("name", ["cola", "mrpc"])
def test_features_equal_the_original(shared_dir, name):
    fixture = shared_dir / "fixtures/original_glue" / f"{name}_dev_64.jsonl.gz"
    with gzip.open(fixture, "rt") as stream:
        recorded = [json.loads(line) for line in stream]
    task = glue.GlueTask(name)
    examples = task.read(str(shared_dir / "data" / "glue"), "dev")
    tokenizer = tokenization.Tokenizer(
        str(shared_dir / "data/vocab/30k-clean.model")
    )
    chosen = [examples[line["row"]] for line in recorded]
    features = task.featurize(chosen, tokenizer, 64)
    assert len(recorded) > 50
    for values, line in zip(features, recorded, strict=True):
        used = int(values["input_mask"].sum())
        assert values["input_ids"][:used].tolist() == line["input_ids"]
        assert values["segment_ids"][:used].tolist() == line["segment_ids"]
        assert not values["input_ids"][used:].any()
        assert not values["segment_ids"][used:].any()
        assert values["label_ids"] == line["label_id"]


# Scores and predictions.


def test_accuracy_by_hand():
    scores = glue_metrics.score(
        "accuracy", np.array([0, 1, 1, 0]), np.array([0, 1, 0, 0])
    )
    assert scores == {"accuracy": 0.75}


@pytest.mark.parametrize(
    "predicted, expected, correlation",
    [
        # tp 2, tn 1, fp 1, fn 1: (2 - 1) / sqrt(3 * 3 * 2 * 2).
        ([1, 1, 0, 1, 0], [1, 1, 0, 0, 1], 1 / 6),
        # tp 1, tn 1, fp 2, fn 0: 1 / sqrt(3 * 1 * 3 * 1).
        ([1, 1, 1, 0], [1, 0, 0, 0], 1 / 3),
        ([1, 0], [1, 0], 1.0),
        ([1, 0], [0, 1], -1.0),
        # Only one class was predicted: the denominator is zero.
        ([1, 1, 1], [1, 0, 1], 0.0),
        ([0, 0], [0, 0], 0.0),
    ],
)
def test_matthews_correlation_by_hand(predicted, expected, correlation):
    scores = glue_metrics.score(
        "matthew_corr", np.array(predicted), np.array(expected)
    )
    assert scores["matthew_corr"] == pytest.approx(correlation)
    assert scores["accuracy"] == np.mean(np.equal(predicted, expected))


@pytest.mark.parametrize("name", sorted(glue.TASKS))
def test_score_holds_the_key_metric(name):
    task = glue.GlueTask(name)
    examples = [base.Example("a", "x", "", 1), base.Example("b", "y", "", 0)]
    outputs = {"logits": np.array([[0.0, 1.0], [2.0, 1.0]])}
    assert task.score(outputs, examples)[task.key_metric] == 1.0


def test_prediction_files(tmp_path):
    examples = [
        base.Example("41", "It rains.", "It is wet.", None),
        base.Example("52", "We stay.", "We go.", None),
    ]
    logits = np.log(np.array([[3.0, 1.0], [1.0, 4.0]], np.float32))
    glue.GlueTask("rte").write_predictions(
        {"logits": logits}, examples, str(tmp_path)
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "submit_results.tsv",
        "test_results.tsv",
    ]
    rows = (tmp_path / "test_results.tsv").read_text().splitlines()
    odds = [[float(number) for number in row.split("\t")] for row in rows]
    np.testing.assert_allclose(odds, [[0.75, 0.25], [0.2, 0.8]], rtol=1e-6)
    assert (tmp_path / "submit_results.tsv").read_text() == (
        "index\tprediction\n41\tentailment\n52\tnot_entailment\n"
    )


def test_huge_logits_give_finite_probabilities(tmp_path):
    examples = [base.Example("0", "x", "", None)]
    logits = np.array([[1000.0, 0.0]], np.float32)
    glue.GlueTask("cola").write_predictions(
        {"logits": logits}, examples, str(tmp_path)
    )
    assert (tmp_path / "test_results.tsv").read_text() == "1.0\t0.0\n"


def test_model_has_one_output_for_each_label(small_config):
    model = glue.GlueTask("rte").make_model(modeling.AlbertModel(small_config))
    assert isinstance(model, classification.AlbertClassifier)
    assert model.output_bias.shape == [2]
