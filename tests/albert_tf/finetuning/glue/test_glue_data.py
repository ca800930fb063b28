"""Strict reading of GLUE's files and of a user's own."""

import lzma
import shutil

import pytest

from albert_tf.common import errors, files
from albert_tf.finetuning import base
from albert_tf.finetuning.glue import glue_data, glue_tasks
from tests.albert_tf.finetuning.glue import small_tasks

HEADER = "index\tsentence1\tsentence2\tlabel\n"
ROW = "7\tIt rains.\tIt is wet.\tentailment\n"
# Rows of the real files. Train and test files are whole, except QQP's, and have
# the official numbers; of MNLI there is only one.
REAL_ROWS = {
    ("ax", "ax"): 1104,
    ("cola", "train"): 8551,
    ("cola", "dev"): 521,
    ("cola", "test"): 1063,
    ("mnli", "dev_matched"): 4907,
    ("mnli", "ax"): 1104,
    ("mrpc", "train"): 3668,
    ("mrpc", "dev"): 204,
    ("mrpc", "test"): 1725,
    ("qnli", "dev"): 2731,
    ("qnli", "test"): 5463,
    ("qqp", "train"): 12000,
    ("qqp", "dev"): 2000,
    ("rte", "train"): 2490,
    ("rte", "dev"): 138,
    ("rte", "test"): 3000,
    ("sst-2", "train"): 67349,
    ("sst-2", "dev"): 436,
    ("sst-2", "test"): 1821,
    ("sts-b", "train"): 5749,
    ("sts-b", "dev"): 750,
    ("sts-b", "test"): 1379,
    ("wnli", "train"): 635,
    ("wnli", "dev"): 35,
    ("wnli", "test"): 146,
}


def read(name, folder, content, split="dev"):
    """Write the file of a split and read it."""
    task = small_tasks.make(name)
    data_dir = small_tasks.write(
        folder, content, glue_tasks.TASKS[name].splits[split].file
    )
    return task.read(task.sources(data_dir)[split], split)


def header(count):
    """A first row with some names of columns."""
    return "\t".join(["name"] * count) + "\n"


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
        (
            "cola",
            "dev",
            "gj04\t1\t\tWe sail.\n",
            ("dev-1", "We sail.", "", 1),
        ),
        (
            "cola",
            "test",
            "index\tsentence\n0\tWe row.\n",
            ("0", "We row.", "", None),
        ),
        (
            "sts-b",
            "train",
            header(10) + "x\t" * 7 + "A.\tB.\t2.4\n",
            ("train-2", "A.", "B.", 2.4),
        ),
        (
            "mrpc",
            "test",
            header(5) + "7\tx\tx\tA.\tB.\n",
            ("7", "A.", "B.", None),
        ),
        # The last of several labels counts.
        (
            "mnli",
            "dev_mismatched",
            header(16)
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
    assert found == [glue_data.TextExample(*example)]


def test_an_own_task_has_numbers_between_its_bounds(tmp_path):
    split = glue_tasks.Split("stars.tsv", 2, 0, None, 1, header=False)
    spec = glue_tasks.TaskSpec((), {"dev": split}, ("pearson",), bounds=(1, 10))
    path = tmp_path / "stars.tsv"
    path.write_text("Fine.\t10\n")
    (example,) = glue_data.read(spec, "stars", str(path), "dev")
    assert example.label == 10
    path.write_text("Fine.\t0\n")
    with pytest.raises(errors.UserError, match="'0' is not .* from 1 to 10"):
        list(glue_data.read(spec, "stars", str(path), "dev"))


def test_sts_b_has_numbers_from_0_to_5(tmp_path):
    rows = ["x\t" * 9 + label + "\n" for label in ("5.000", "0")]
    examples = read("sts-b", tmp_path, header(10) + "".join(rows))
    assert [example.label for example in examples] == [5.0, 0.0]


QQP_ROW = "1\t2\t3\tWhy?\tHow?\t1\n"


def test_short_rows_of_qqp_are_left_out_and_counted(tmp_path, caplog):
    content = header(6) + QQP_ROW + "1\t2\t3\tWhy\n" + QQP_ROW + "so?\n"
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
    ("mrpc", "train", header(5) + "1\t2\t3\n", "line 2: 3 columns"),
    ("qqp", "train", header(6) + "1\t2\t3\tWhy\t?\tHow?\t1\n", "2: 7 columns"),
    # The first row.
    ("rte", "dev", "header\n" + ROW, "line 1: 1 columns instead of 4"),
    ("rte", "test", HEADER, "line 1: 4 columns instead of 3"),
    ("rte", "dev", ROW, "column 4 holds 'entailment'.* header is missing"),
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
            header(10) + "\t".join(["x"] * 9 + [label]) + "\n",
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
    with pytest.raises(errors.UserError, match=message):
        read(name, tmp_path, content, split)


def test_missing_file_names_the_option_and_the_path(tmp_path):
    task = small_tasks.make("rte")
    path = task.sources(small_tasks.write(tmp_path, HEADER + ROW))["train"]
    with pytest.raises(
        errors.UserError, match=r"`data_dir=.*` has no RTE/train\.tsv"
    ):
        task.read(path, "train")


@pytest.fixture(scope="module")
def real_dir(shared_dir, tmp_path_factory):
    """The real files, unpacked."""
    folder = tmp_path_factory.mktemp("glue")
    for path in (shared_dir / "data/glue").rglob("*.tsv*"):
        target = folder / path.relative_to(shared_dir / "data/glue")
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".xz":
            with (
                lzma.open(path) as packed,
                open(target.with_suffix(""), "wb") as stream,
            ):
                shutil.copyfileobj(packed, stream)
        else:
            target.symlink_to(path)
    return str(folder)


def test_real_files_are_read_completely(real_dir):
    found = {}
    for name in glue_tasks.TASKS:
        task = small_tasks.make(name)
        for split, path in task.sources(real_dir).items():
            if not files.exists(path):
                continue
            examples = task.read(path, split)
            found[name, split] = len(examples)
            assert all(e.text_a for e in examples)
            assert all(bool(e.text_b) == task.has_pairs for e in examples)
            labels = {e.label for e in examples}
            if split in task.test_splits:
                assert labels == {None}
            elif task.is_regression:
                assert (min(labels), max(labels)) == (0, 5)
            else:
                assert labels == set(range(len(task.labels)))
    assert found == REAL_ROWS


@pytest.mark.parametrize(
    "split, label",
    [
        ("train", 2),
        ("dev_matched", 2),
        ("dev_mismatched", 0),
        ("test_matched", None),
        ("test_mismatched", None),
    ],
)
def test_real_mnli_row_with_all_columns(shared_dir, split, label):
    folder = shared_dir / "data/glue/MNLI/full_columns_sample"
    (example,) = small_tasks.make("mnli").read(
        str(folder / f"{split}.tsv"), split
    )
    assert example.label == label
    assert example.text_a[0] not in "( "
    assert example.text_b[0] not in "( "


@pytest.mark.parametrize(
    "name, content",
    [
        (
            "own.tsv",
            "text_pair\tid\ttext\n"
            "It is wet.\ta\tIt rains.\nWe go.\tb\tWe stay.\n",
        ),
        (
            "own.jsonl",
            '{"id": "a", "text": "It rains.", "text_pair": "It is wet."}\n'
            '{"id": "b", "text": "We stay.", "text_pair": "We go.", "x": 1}\n',
        ),
    ],
)
def test_own_texts_as_table_or_json(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    read = small_tasks.make("rte").read(str(tmp_path / name), base.PREDICT)
    assert read == [
        glue_data.TextExample("a", "It rains.", "It is wet."),
        glue_data.TextExample("b", "We stay.", "We go."),
    ]


def test_own_texts_without_ids_are_numbered(tmp_path):
    (tmp_path / "own.tsv").write_text("text\nWe sail.\nWe row.\n")
    examples = small_tasks.make("cola").read(
        str(tmp_path / "own.tsv"), base.PREDICT
    )
    assert [(e.guid, e.text_a) for e in examples] == [
        ("0", "We sail."),
        ("1", "We row."),
    ]


@pytest.mark.parametrize(
    "content, message",
    [
        ("sentence\nWe sail.\n", "line 2 has no text 'text'; .*sentence"),
        ("text\nWe sail.\n", "line 2 has no text 'text_pair'"),
        ("text\ttext_pair\n", "has no examples"),
    ],
)
def test_unusable_own_texts_are_refused(tmp_path, content, message):
    (tmp_path / "own.tsv").write_text(content)
    with pytest.raises(errors.UserError, match=message):
        small_tasks.make("rte").read(str(tmp_path / "own.tsv"), base.PREDICT)
