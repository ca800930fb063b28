"""Strict reading of GLUE's files and of a user's own."""

import numpy as np
import pytest

from albert_tf.finetuning import packing
from albert_tf.tasks.glue import data, specs
from tests import row_files
from tests.albert_tf.tasks.glue import small_tasks
from tests.conftest import refused

HEADER = "index\tsentence1\tsentence2\tlabel\n"
ROW = "7\tIt rains.\tIt is wet.\tentailment\n"


def read(name, folder, content, split="dev"):
    """Write the file of a split and read it."""
    task = small_tasks.make(name)
    data_dir = small_tasks.write(
        folder, content, specs.TASKS[name].splits[split].file
    )
    return task.read(task.sources(data_dir)[split], split)


def header(name, split):
    """The official first row of a file."""
    return "\t".join(specs.TASKS[name].splits[split].columns) + "\n"


@pytest.mark.parametrize(
    "name, split, content, example",
    [
        (
            "rte",
            "dev",
            HEADER + "8\tWe stay.\tWe go.\tnot_entailment\n",
            ("dev-2", "We stay.", "We go.", 1),
        ),
        (
            "rte",
            "test",
            "index\tsentence1\tsentence2\n41\tIt rains.\tIt is wet.\n",
            ("41", "It rains.", "It is wet.", None),
        ),
        # CoLA has no header but in its test file.
        ("cola", "dev", "gj04\t1\t\tWe sail.\n", ("dev-1", "We sail.", "", 1)),
        (
            "cola",
            "test",
            "index\tsentence\n0\tWe row.\n",
            ("0", "We row.", "", None),
        ),
        (
            "sts-b",
            "train",
            header("sts-b", "train") + "x\t" * 7 + "A.\tB.\t2.4\n",
            ("train-2", "A.", "B.", 2.4),
        ),
        (
            "mrpc",
            "test",
            header("mrpc", "test") + "7\tx\tx\tA.\tB.\n",
            ("7", "A.", "B.", None),
        ),
        # The last of several labels counts.
        (
            "mnli",
            "dev_mismatched",
            header("mnli", "dev_mismatched")
            + "7\t"
            + "x\t" * 7
            + "A.\tB.\t"
            + "neutral\t" * 5
            + "entailment\n",
            ("dev_mismatched-2", "A.", "B.", 1),
        ),
    ],
)
def test_row_of_each_layout(tmp_path, name, split, content, example):
    found = read(name, tmp_path, content, split)
    guid, first, second, label = example
    texts = (first, second) if second else (first,)
    assert found == [packing.TextExample(guid, texts, label)]


@pytest.mark.parametrize(
    "name, split, header, row, example",
    [
        (
            "rte",
            "dev",
            "label sentence2 index sentence1",
            "not_entailment B 7 A",
            1,
        ),
        ("rte", "test", "sentence2 sentence1 Index", "B A 7", None),
        ("qnli", "test", "sentence number question", "B 7 A", None),
        ("qqp", "test", "question2 question1 id", "B A 7", None),
        ("sst-2", "dev", "label sentence", "1 A", 1),
        ("sst-2", "test", "sentence index", "A 7", None),
        ("ax", "ax", "sentence1 index sentence2", "A 7 B", None),
        (
            "sts-b",
            "test",
            "genre index filename year old source1 source2 sentence2 sentence1",
            "x 7 x x x x x B A",
            None,
        ),
    ],
)
def test_columns_are_found_by_their_names(
    tmp_path, name, split, header, row, example
):
    content = f"{header}\n{row}\n".replace(" ", "\t")
    (found,) = read(name, tmp_path, content, split)
    texts = ("A",) if name == "sst-2" else ("A", "B")
    guid = "7" if example is None else f"{split}-2"
    assert found == packing.TextExample(guid, texts, example)


def own_spec():
    """An own task of one text, without the names of its columns."""
    train = specs.Split("r/train.tsv", 2, 0, None, 1)
    test = specs.Split("r/test.tsv", 2, 1, None, None)
    return specs.TaskSpec(("0", "1"), {"train": train, "test": test})


@pytest.mark.parametrize(
    "train, test, message",
    [
        ("text\tmood\nA.\t1\n", "id\tText\nr0\tB.\n", None),
        ("text\tmood\nA.\t1\n", "r0\tB.\nr1\tC.\n", "'B.' and 'text'"),
        ("text\tmood\nA.\t1\n", "text\tid\nB.\tr0\n", "'id' and 'text'"),
        ("A.\tperhaps\nA.\t1\n", "id\ttext\nr0\tB.\n", "'text' and 'A.'"),
    ],
)
def test_files_of_an_own_task_name_the_same_columns(
    tmp_path, caplog, train, test, message
):
    (tmp_path / "r").mkdir()
    path = tmp_path / "r/test.tsv"
    path.write_text(test)
    with caplog.at_level("INFO", "absl"):
        list(data.read(own_spec(), "r", str(path), "test"))
    names = test.split("\n")[0].replace("\t", ", ")
    assert f"the first row is taken for the names of columns: {names}" in (
        caplog.text
    )
    (tmp_path / "r/train.tsv").write_text(train)
    if message is None:
        (example,) = data.read(own_spec(), "r", str(path), "test")
        assert (example.guid, example.texts) == ("r0", ("B.",))
        return
    with refused(f"text_a, but have {message}"):
        list(data.read(own_spec(), "r", str(path), "test"))


def test_an_own_task_has_numbers_between_its_bounds(tmp_path):
    split = specs.Split("stars.tsv", 2, 0, None, 1, header=False)
    spec = specs.TaskSpec((), {"dev": split}, ("pearson",), bounds=(1, 10))
    path = tmp_path / "stars.tsv"
    path.write_text("Fine.\t10\n")
    (example,) = data.read(spec, "stars", str(path), "dev")
    assert example.label == 10
    path.write_text("Fine.\t0\n")
    with refused("'0' is not .* from 1 to 10"):
        list(data.read(spec, "stars", str(path), "dev"))


def test_sts_b_has_numbers_from_0_to_5(tmp_path):
    rows = ["x\t" * 9 + label + "\n" for label in ("5.000", "0")]
    content = header("sts-b", "dev") + "".join(rows)
    examples = read("sts-b", tmp_path, content)
    assert [example.label for example in examples] == [5.0, 0.0]


QQP_ROW = "1\t2\t3\tWhy?\tHow?\t1\n"


def test_short_rows_of_qqp_are_left_out_and_counted(tmp_path, caplog):
    content = header("qqp", "train") + QQP_ROW + "1\t2\t3\tWhy\n"
    content += QQP_ROW + "so?\n"
    caplog.set_level("WARNING", "absl")
    examples = read("qqp", tmp_path, content, "train")
    assert [e.guid for e in examples] == ["train-2", "train-4"]
    assert "left out 2 row(s)" in caplog.text
    assert "lines 3, 5" in caplog.text


# Task, split and content of a file; where and why it is refused.
REFUSED = [
    ("rte", "dev", "", "dev.tsv has no examples"),
    ("rte", "dev", "\ufeff" + HEADER, "dev.tsv has no examples"),
    # Columns.
    ("rte", "dev", HEADER + ROW + "\n", r"line 3: 1 columns .* 4\."),
    ("rte", "dev", HEADER + "8\tA.\tentailment\n", r"line 2: 3 columns .* 4\."),
    ("rte", "dev", HEADER + ROW.replace(" ", "\t", 1), "line 2: 5 columns"),
    ("mrpc", "dev", header("mrpc", "dev") + "1\t2\t3\n", "line 2: 3 columns"),
    ("qqp", "dev", header("qqp", "dev") + "\t" * 6 + "\n", "2: 7 columns"),
    # The first row.
    ("rte", "dev", "header\n" + ROW, "line 1: 1 columns instead of 4"),
    ("rte", "test", HEADER, "line 1: 4 columns instead of 3"),
    ("rte", "dev", ROW, "column 4 holds 'entailment'.* header is missing"),
    # No header, but ids that are texts, or a label that no other row has.
    ("rte", "test", "r0\tA.\tB.\n", "line 1 must name the .*'sentence1' is th"),
    ("rte", "dev", "7\tA.\tB.\tperhaps\n", "line 1 must name the columns"),
    ("sst-2", "test", "r0\tA.\n", "'sentence' is there 0 times: r0, A\\."),
    ("mnli", "ax", "index\tsentence1\tsentence1\n", "'sentence1' .* 2 times"),
    # A column that is needed has another name.
    ("sst-2", "dev", "text\tlabel\nA.\t1\n", "'sentence' is there 0 times"),
    ("mrpc", "dev", "\ufeff0\t1\t2\tA.\tB.\n", "column 1 holds '0'"),
    ("sts-b", "dev", "x\t" * 9 + "2.400\n", "column 10 holds '2.400'"),
    ("cola", "test", "0\tWe row.\n", "column 1 holds '0'"),
    ("sst-2", "test", "sentence\tlabel\nA\t1\n", "line 1: .* holds labels"),
    ("mrpc", "test", "Quality\t#\t#\tx\ty\n", "line 1: .* holds labels"),
    # Labels.
    (
        "rte",
        "dev",
        HEADER + ROW + ROW.replace("ent", "neut"),
        "RTE/dev.tsv, line 3: the label 'neutailm.*not_entailment",
    ),
    *(
        (
            "sts-b",
            "dev",
            header("sts-b", "dev") + "x\t" * 9 + f"{label}\n",
            f"line 2: the label '{label}' is not a number from 0 to 5",
        )
        for label in ("5.1", "-0.5", "good", "nan")
    ),
    # Bytes.
    (
        "rte",
        "dev",
        (HEADER + ROW).replace("rains", "pl\u00fct").encode("latin-1"),
        "line 2 is not UTF-8: byte 8 of the line is 0xfc",
    ),
]


@pytest.mark.parametrize("name, split, content, message", REFUSED)
def test_files_in_another_layout_are_refused(
    tmp_path, name, split, content, message
):
    with refused(message):
        read(name, tmp_path, content, split)


def test_missing_file_names_the_option_and_the_path(tmp_path):
    task = small_tasks.make("rte")
    path = task.sources(small_tasks.write(tmp_path, HEADER + ROW))["train"]
    with refused(r"`data_dir=.*` has no RTE/train\.tsv"):
        task.read(path, "train")


def test_own_texts(tmp_path):
    """In other kinds of files: test_rows.py."""
    path = tmp_path / "own.tsv"
    path.write_text("text_pair\tid\ttext\nIt is wet.\ta\tIt rains.\n")
    (read,) = small_tasks.make("rte").read_own(str(path))
    assert read == packing.TextExample("a", ("It rains.", "It is wet."))


@pytest.mark.parametrize("name", ["cola", "sts-b"])
def test_answers_have_the_ids_as_given_or_the_lines(tmp_path, name):
    task = small_tasks.make(name)
    ids = [7, "7", None, ["a"], "2"]
    texts = {"text": "We sail.", "text_pair": "We row."}
    rows = [*({**texts, "id": id_} for id_ in ids), texts]
    path = row_files.write(tmp_path / "own.jsonl", rows)
    examples = task.read_own(path)
    logits = np.zeros([6, max(len(task.labels), 1)])
    answers = list(task.answers({"logits": logits}, examples))
    assert [answer.get("id", "none") for answer in answers] == [*ids, "none"]
    assert [answer.get("line") for answer in answers] == [None] * 5 + [6]


def test_own_texts_need_all_columns(tmp_path):
    (tmp_path / "own.tsv").write_text("text\nWe sail.\n")
    with refused("line 1 has no 'text_pair'"):
        small_tasks.make("rte").read_own(str(tmp_path / "own.tsv"))
