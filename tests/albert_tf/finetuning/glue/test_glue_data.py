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


def read_rte(folder, content, split="dev"):
    return read("rte", folder, content, split)


def header(count):
    """A first row with some names of columns."""
    return "\t".join(["name"] * count) + "\n"


def test_read_takes_texts_and_label_of_each_row(tmp_path):
    second = "8\tWe stay.\tWe go.\tnot_entailment\n"
    assert read_rte(tmp_path, HEADER + ROW + second) == [
        glue_data.TextExample("dev-2", "It rains.", "It is wet.", 0),
        glue_data.TextExample("dev-3", "We stay.", "We go.", 1),
    ]


def test_test_rows_have_their_own_index_and_no_label(tmp_path):
    content = "index\tsentence1\tsentence2\n41\tIt rains.\tIt is wet.\n"
    assert read_rte(tmp_path, content, "test") == [
        glue_data.TextExample("41", "It rains.", "It is wet.", None)
    ]


def test_cola_has_no_header_but_in_its_test_file(tmp_path):
    assert read("cola", tmp_path, "gj04\t1\t\tWe sail.\n") == [
        glue_data.TextExample("dev-1", "We sail.", "", 1)
    ]
    content = "index\tsentence\n0\tWe row.\n"
    assert read("cola", tmp_path, content, "test") == [
        glue_data.TextExample("0", "We row.", "", None)
    ]


def test_mnli_takes_the_last_of_several_labels(tmp_path):
    fields = ["7", *["x"] * 7, "A.", "B.", *["neutral"] * 5, "entailment"]
    content = header(16) + "\t".join(fields) + "\n"
    assert read("mnli", tmp_path, content, "dev_mismatched") == [
        glue_data.TextExample("dev_mismatched-2", "A.", "B.", 1)
    ]


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
    def content(*labels):
        row = "\t".join(["x"] * 7 + ["A.", "B."])
        return header(10) + "".join(f"{row}\t{label}\n" for label in labels)

    examples = read("sts-b", tmp_path, content("5.000", "0", "2.4"))
    assert [example.label for example in examples] == [5.0, 0.0, 2.4]
    for wrong in ("5.1", "-0.5", "good", "nan", ""):
        with pytest.raises(
            errors.UserError,
            match=rf"dev.tsv, line 3: the label '{wrong}' is not a number from "
            "0 to 5",
        ):
            read("sts-b", tmp_path, content("1.0", wrong))


QQP_ROW = "1\t2\t3\tWhy?\tHow?\t1\n"


def test_short_rows_of_qqp_are_left_out_and_counted(tmp_path, caplog):
    content = header(6) + QQP_ROW + "1\t2\t3\tWhy\n" + QQP_ROW + "so?\n"
    caplog.set_level("WARNING", "absl")
    examples = read("qqp", tmp_path, content, "train")
    assert [e.guid for e in examples] == ["train-2", "train-4"]
    assert "left out 2 row(s)" in caplog.text
    assert "lines 3, 5" in caplog.text


def test_long_rows_of_qqp_are_refused(tmp_path):
    content = header(6) + QQP_ROW.replace("Why?", "Why\t?")
    with pytest.raises(
        errors.UserError, match="line 2: 7 columns instead of 6"
    ):
        read("qqp", tmp_path, content, "train")


def test_short_rows_of_other_tasks_are_refused(tmp_path):
    with pytest.raises(errors.UserError, match="line 2: 3 columns"):
        read("mrpc", tmp_path, header(5) + "1\t2\t3\n", "train")


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
        glue_data.TextExample("dev-2", "It rains.", "It is wet.", 0)
    ]


def test_byte_order_mark_is_no_part_of_the_first_field(tmp_path):
    (example,) = read("cola", tmp_path, "\ufeff1\t1\t\tWe sail.\n")
    assert example.label == 1


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


@pytest.mark.parametrize(
    "name, split, first, count",
    [
        ("rte", "dev", "header\n", "1 columns instead of 4"),
        ("rte", "test", HEADER, "4 columns instead of 3"),
        ("qqp", "train", header(5), "5 columns instead of 6"),
        ("mnli", "dev_matched", header(12), "12 columns instead of 16"),
        ("sts-b", "dev", "\n", "1 columns instead of 10"),
    ],
)
def test_header_has_the_columns_of_the_rows(
    tmp_path, name, split, first, count
):
    with pytest.raises(errors.UserError, match=f"tsv, line 1: {count}"):
        read(name, tmp_path, first + ROW, split)


@pytest.mark.parametrize(
    "name, split, row, column",
    [
        ("rte", "dev", ROW, "4 holds 'entailment'"),
        ("sst-2", "train", "it rains\t1\n", "2 holds '1'"),
        ("mrpc", "dev", "\ufeff0\t1\t2\tA.\tB.\n", "1 holds '0'"),
        ("qqp", "train", "1\t2\t3\tWhy?\tHow?\t1\n", "6 holds '1'"),
        ("sts-b", "dev", "x\t" * 9 + "2.400\n", "10 holds '2.400'"),
        ("rte", "test", "41\tIt rains.\tIt is wet.\n", "1 holds '41'"),
        ("cola", "test", "0\tWe row.\n", "1 holds '0'"),
    ],
)
def test_missing_header_is_noticed(tmp_path, name, split, row, column):
    with pytest.raises(
        errors.UserError, match=f"line 1: column {column}.* header is missing"
    ):
        read(name, tmp_path, row * 2, split)


def test_unknown_label_names_file_line_and_allowed_ones(tmp_path):
    row = "8\tWe stay.\tWe go.\tneutral\n"
    with pytest.raises(
        errors.UserError,
        match="RTE/dev.tsv, line 3: the label 'neutral' .*not_entailment",
    ):
        read_rte(tmp_path, HEADER + ROW + row)


def test_missing_file_names_the_option_and_the_path(tmp_path):
    task = small_tasks.make("rte")
    path = task.sources(small_tasks.write(tmp_path, HEADER + ROW))["train"]
    with pytest.raises(
        errors.UserError, match=r"`data_dir=.*` has no RTE/train\.tsv"
    ):
        task.read(path, "train")


@pytest.mark.parametrize(
    "name, content",
    [
        ("sst-2", "sentence\tlabel\nit rains\t1\n"),
        ("mrpc", "\ufeffQuality\t#1 ID\t#2 ID\tx\ty\n1\t2\t3\ta\tb\n"),
    ],
)
def test_labelled_file_in_the_place_of_the_test_file(tmp_path, name, content):
    with pytest.raises(errors.UserError, match="line 1: .* holds labels"):
        read(name, tmp_path, content, "test")


@pytest.mark.parametrize("content", ["", HEADER, "\ufeff"])
def test_file_without_examples_is_refused(tmp_path, content):
    with pytest.raises(errors.UserError, match="dev.tsv has no examples"):
        read_rte(tmp_path, content)


def test_other_encodings_are_refused(tmp_path):
    content = (HEADER + ROW).replace("rains", "pl\u00fct").encode("latin-1")
    with pytest.raises(
        errors.UserError,
        match="dev.tsv, line 2 is not UTF-8: byte [0-9]+ of the line is 0x",
    ):
        read_rte(tmp_path, content)


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


@pytest.mark.parametrize("name, split", sorted(REAL_ROWS))
def test_real_files_are_read_completely(real_dir, name, split):
    task = small_tasks.make(name)
    examples = task.read(task.sources(real_dir)[split], split)
    assert len(examples) == REAL_ROWS[name, split]
    assert all(e.text_a for e in examples)
    assert all(bool(e.text_b) == task.has_pairs for e in examples)
    labels = {e.label for e in examples}
    if split in task.test_splits:
        assert labels == {None}
    elif task.is_regression:
        assert (min(labels), max(labels)) == (0, 5)
    else:
        assert labels == set(range(len(task.labels)))


def test_no_real_file_is_forgotten(real_dir):
    there = {
        (name, split)
        for name in glue_tasks.TASKS
        for split, path in small_tasks.make(name).sources(real_dir).items()
        if files.exists(path)
    }
    assert there == set(REAL_ROWS)


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


OWN_ANSWERS = [
    glue_data.TextExample("a", "It rains.", "It is wet."),
    glue_data.TextExample("b", "We stay.", "We go."),
]


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
        (
            "own.json",
            '[{"id": "a", "text": "It rains.", "text_pair": "It is wet."},\n'
            '{"id": "b", "text": "We stay.", "text_pair": "We go."}]',
        ),
    ],
)
def test_own_texts_as_table_or_json(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    read = small_tasks.make("rte").read(str(tmp_path / name), base.PREDICT)
    assert read == OWN_ANSWERS


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
    "name, content, message",
    [
        (
            "own.tsv",
            "sentence\nWe sail.\n",
            "line 2 has no text 'text'; .*sent",
        ),
        ("own.tsv", "text\nWe sail.\n", "line 2 has no text 'text_pair'"),
        ("own.tsv", "text\ttext_pair\nA.\n", "line 2: 1 columns, .* names 2"),
        ("own.tsv", "text\ttext_pair\n", "has no examples"),
        (
            "own.tsv",
            "text\ttext_pair\ttext\nA.\tB.\tC.\n",
            "line 1: the column 'text' is there 2 times",
        ),
        (
            "own.json",
            '[{"text": "A",\n"text_pair": }]',
            r"own.json: this is not JSON \(Expecting value: line 2",
        ),
        (
            "own.jsonl",
            '{"text": "A", "text_pair": "B"}\n{"text"\n',
            "line 2: this is not JSON",
        ),
        ("own.jsonl", '{"text": 3, "text_pair": "A"}', "has no text 'text'"),
        ("own.jsonl", '["A", "B"]', "object 1: str instead of a JSON object"),
    ],
)
def test_unusable_own_texts_are_refused(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(errors.UserError, match=message):
        small_tasks.make("rte").read(str(tmp_path / name), base.PREDICT)


@pytest.mark.parametrize(
    ("name", "content", "keys"),
    [
        ("own.tsv", b"id\ttext\na\tA.\nb\n\xff\t.\nd\tD.", [3, 4]),
        (
            "own.jsonl",
            b'{"id": "a", "text": "A."}\n{"text": 5, "id": 1}\n\n'
            b'\xff\n{"id": "d", "text": "D."}',
            [2, 4],
        ),
    ],
)
def test_bad_lines_of_own_texts_stay_in_their_places(
    tmp_path, name, content, keys
):
    (tmp_path / name).write_bytes(content)
    first, *bad, last = small_tasks.make("cola").read_own(str(tmp_path / name))
    assert (first.guid, last.guid) == ("a", "d")
    assert [line.key["line"] for line in bad] == keys
    for line, number in zip(bad, keys, strict=True):
        assert f"{name}, line {number}" in line.answer["error"]


def test_bad_objects_of_a_list_stay_in_their_places(tmp_path):
    (tmp_path / "own.json").write_text('[{"id": 1},\n3, {"text": "A."}]')
    *bad, good = small_tasks.make("cola").read_own(str(tmp_path / "own.json"))
    assert [line.key for line in bad] == [{"id": 1, "object": 1}, {"object": 2}]
    assert good.text_a == "A."
