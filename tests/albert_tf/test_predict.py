"""Prediction of a user's file, with a run and with a SavedModel."""

import dataclasses
import functools
import json
import os
import shutil

import pytest
import tensorflow as tf

from albert_tf import predict
from albert_tf.common import errors, scores
from albert_tf.finetuning import predictions
from albert_tf.model.checkpoints import checkpoint_files
from albert_tf.serving.client import ask as asking
from albert_tf.tasks.squad import task as squad
from albert_tf.training import memory_check
from tests import export_options, row_files
from tests.conftest import python, refused

CONTEXT = "In spring at the mill Mara gave Ivo the ring. Ivo slept at the farm."
QUESTIONS = ["Where did Ivo sleep?", "What did Mara give?", "Who slept?"]


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return str(path)


def json_lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def run(path, **values):
    values = {"input_file": str(path), "overwrite": True, **values}
    predict.run(predict.PredictOptions(**values))


def ask(folder, path, output, **values):
    run(path, run_dir=folder, output_file=str(output), **values)
    return row_files.read(output)


# A run that answers questions.


@pytest.fixture(scope="module")
def squad_runs(tmp_path_factory, small_config, tiny_vocab):
    config = dataclasses.replace(small_config, num_hidden_layers=2)

    @functools.cache
    def make(version):
        folder = str(tmp_path_factory.mktemp("runs") / "squad")
        values = {"squad_version": version, "doc_stride": 8}
        if version == "2.0":
            values["null_score_diff_threshold"] = 100.0
        values["max_query_length"] = 10
        export_options.make_run(folder, config, tiny_vocab, "squad", **values)
        return folder

    return make


@pytest.fixture
def squad_run(squad_runs):
    return squad_runs("2.0")


@pytest.mark.parametrize("version", squad.VERSIONS)
def test_questions_of_the_user(squad_runs, tmp_path, version):
    """Official, here; other layouts: test_squad_data.py."""
    entries = [{"id": f"q{n}", "question": q} for n, q in enumerate(QUESTIONS)]
    paragraphs = [{"context": CONTEXT, "qas": entries}]
    text = json.dumps({"data": [{"paragraphs": paragraphs}]})
    path = write(tmp_path / "official.json", text)
    found = ask(squad_runs(version), path, tmp_path / "out")
    assert [answer["id"] for answer in found] == ["q0", "q1", "q2"]
    for answer in found:
        assert answer["prediction"] in CONTEXT
        assert answer["prediction"] == answer["n_best"][0]["text"]
        assert ("null_score" in answer) == (version == "2.0")


def test_bad_questions_have_errors_in_their_places(squad_run, tmp_path):
    row = {"question": QUESTIONS[0], "context": CONTEXT}
    good = [json.dumps({**row, "id": id_}) for id_ in (1, "b")]
    bad = ['{"id": "\\ud83d"}', '{"id": NaN}', "[" * 10**5, '{"id": 7}', "\xff"]
    path = tmp_path / "in.jsonl"
    path.write_bytes("\n".join([good[0], *bad, good[1]]).encode("latin-1"))
    with refused("in.jsonl, line 2: .*surrogate"):
        ask(squad_run, path, tmp_path / "out.jsonl", strict=True)
    assert [p.name for p in tmp_path.iterdir()] == ["in.jsonl"]
    first, *wrong, last = ask(squad_run, path, tmp_path / "out.jsonl")
    assert (first["id"], last["id"]) == (1, "b")
    assert first["prediction"] == last["prediction"]
    assert [answer["line"] for answer in wrong] == [2, 3, 4, 5, 6]
    errors_found = [answer.pop("error") for answer in wrong]
    assert wrong[3] == {"id": 7, "line": 5}
    parts = ["surrogate", "unexpected", "depth", "'context' is mi", "not UTF-8"]
    for part, found in zip(parts, errors_found, strict=True):
        assert part in found and "in.jsonl, line" in found


def test_batch_that_no_memory_holds_is_refused(
    squad_run, tmp_path, monkeypatch
):
    """Before a model is built."""
    monkeypatch.setattr(memory_check, "free_host_memory", lambda: 2**31)
    monkeypatch.setattr(predictions, "AlbertModel", None)
    row = {"question": QUESTIONS[0], "context": CONTEXT}
    path = write(tmp_path / "own.jsonl", json_lines([row]))
    message = (
        "`batch_size=1048576`: a batch needs about .* and 2.0 GiB are free. "
        r"Use a smaller `batch_size`\.$"
    )
    with refused(message):
        ask(squad_run, path, tmp_path / "out.jsonl", batch_size=2**20)


def test_table_of_answers_has_the_errors_too(squad_run, tmp_path):
    text = f"id\tquestion\tcontext\na\t{QUESTIONS[0]}\t{CONTEXT}\nb\tc\n"
    path = write(tmp_path / "in.tsv", text)
    output = tmp_path / "out.TSV"
    run(path, run_dir=squad_run, output_file=str(output))
    lines = output.read_text().splitlines()
    names, good, bad = [line.split("\t") for line in lines]
    good, bad = (dict(zip(names, row, strict=True)) for row in (good, bad))
    assert good["id"] == "a" and good["prediction"] and not good["error"]
    assert bad["line"] == "3" and "2 columns, but" in bad["error"]
    assert not bad["prediction"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.tsv", "out.TSV"]


@pytest.mark.parametrize(
    ("classes", "columns"),
    [
        (["no", "yes"], ["no", "yes"]),
        (
            ["id", "error", "no"],
            ["probabilities.id", "probabilities.error", "probabilities.no"],
        ),
        (["line"], ["probabilities.line"]),
        (["prediction", "7"], ["probabilities.prediction", "probabilities.7"]),
        (["note"], ["probabilities.note"]),
    ],
)
def test_names_of_classes_and_other_columns_do_not_meet(classes, columns):
    ids = [7, None, {"a": 1}]
    odds = {name: number / 4 for number, name in enumerate(classes)}
    answers = [
        {"id": id_, "prediction": "x", "probabilities": odds, "note": "a b"}
        for id_ in ids
    ]
    table = predict._to_table(answers).splitlines()
    names, *rows = [line.split("\t") for line in table]
    assert names == ["id", "prediction", *columns, "note"]
    assert [row[0] for row in rows] == ["7", "null", '{"a": 1}']
    assert rows[0][2:-1] == [str(n / 4) for n in range(len(classes))]


def test_cells_of_a_table_are_as_they_were_given():
    """But for what divides rows and cells: each becomes one blank."""
    spans = [{"start": 2, "text": "b  c"}]
    breaks = "\t\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029"
    text = f" a\u00a0 b{breaks}c "
    answers = [{"id": "a  b", "text": text, "spans": spans}]
    header, row = predict._to_table(answers).splitlines()
    assert header == "id\ttext\tspans"
    id_, found, *rest = row.split("\t")
    assert id_ == "a  b"
    assert found == " a\u00a0 b" + " " * len(breaks) + "c "
    assert [json.loads(cell) for cell in rest] == [spans]


@pytest.mark.parametrize(
    # As in the original.
    ("version", "expected"),
    [("1.1", "empty"), ("2.0", "")],
)
def test_question_about_nothing_known_has_no_answer(
    squad_runs, tmp_path, version, expected
):
    row = {"question": "a", "context": "\u0301"}
    path = write(tmp_path / "in.jsonl", json_lines([row]))
    (answer,) = ask(squad_runs(version), path, tmp_path / "out.jsonl")
    assert answer["prediction"] == expected


def test_answers_of_a_run_go_to_standard_output(squad_run, tmp_path, capfd):
    row = {"question": QUESTIONS[0], "context": CONTEXT}
    path = write(tmp_path / "in.jsonl", json_lines([row]))
    run(path, run_dir=squad_run)
    (line,) = capfd.readouterr().out.splitlines()
    assert json.loads(line)["line"] == 1


# A SavedModel.


class Echo(tf.Module):
    """A model that says what it was asked."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def echo(self, text):
        return {"said": text}


@pytest.fixture(scope="module")
def echo(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("echo") / "1")
    model = Echo()
    tf.saved_model.save(model, path, signatures=model.echo)
    return path


def test_file_to_file(echo, tmp_path):
    texts = [f"text {n}" for n in range(10)]
    path = write(tmp_path / "in.txt", "\n".join(texts))
    output = tmp_path / "new" / "out.jsonl"
    run(path, saved_model=echo, output_file=str(output), batch_size=4)
    assert row_files.read(output) == [
        {"line": number, "said": text} for number, text in enumerate(texts, 1)
    ]


@pytest.mark.parametrize(
    ("lines", "strict", "message"),
    [
        ("a\nb\n", False, "The power is gone"),
        ('a\nc\n{"txt": "c"}\n', True, "in.txt, line 3 has no 'text'"),
        ("{\n[{\n", False, "No line .*in.txt, line 1"),
    ],
)
def test_a_failure_leaves_the_old_answers(
    echo, tmp_path, monkeypatch, lines, strict, message
):
    output = tmp_path / "out.jsonl"
    output.write_text("old")
    path = write(tmp_path / "in.txt", lines)
    call = asking.Signature.__call__

    def fail(self, requests):
        if requests[0].texts["text"] == "b":
            raise OSError("The power is gone")
        return call(self, requests)

    monkeypatch.setattr(asking.Signature, "__call__", fail)
    given = {"output_file": str(output), "batch_size": 1, "strict": strict}
    with pytest.raises((OSError, errors.UserError), match=message):
        run(path, saved_model=echo, **given)
    assert output.read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.txt", "out.jsonl"]


def test_bad_lines_are_counted(echo, tmp_path, caplog):
    path = write(tmp_path / "in.txt", 'a\n{"id": 3}\n{\n')
    output = tmp_path / "out.jsonl"
    run(path, saved_model=echo, output_file=str(output))
    assert "2 of 3 answers are errors. The first: " in caplog.text
    assert row_files.read(output)[1]["id"] == 3


@pytest.mark.parametrize(
    ("name", "content"),
    [("in.txt", "\n"), ("in.csv", ""), ("in.tsv", "text\n")],
)
def test_input_without_examples(echo, tmp_path, name, content):
    output = tmp_path / "out.jsonl"
    path = write(tmp_path / name, content)
    with refused(f"{name} has no examples. Give"):
        run(path, saved_model=echo, output_file=str(output))
    assert not output.exists()


# Both.


@pytest.fixture(scope="module")
def models(echo, tmp_path_factory, small_config, tiny_vocab):
    folder = tmp_path_factory.mktemp("runs") / "cola"
    export_options.make_run(folder, small_config, tiny_vocab, "cola")
    return {"run_dir": str(folder)}, {"saved_model": echo}


TEXTS = [{"text": "a", "id": id_} for id_ in (7, "7", None, [1], "")]
IDS = [{"id": 7}, {"id": "7"}, {"id": None}, {"id": [1]}, {"id": ""}]
TABLE = "id\ttext\tlabel\n7\tIt rains.\t1\n\n\tWe stay.\t0\n"
REFUSED = "this looks like a table that cannot be read"


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("own.txt", "It rains.\nWe, id, text.\n", [{"line": 1}, {"line": 2}]),
        ("own.tsv", TABLE, [{"id": "7"}, {"id": ""}]),
        ("own", "text\nIt rains.\n", [{"line": 2}]),
        ("own.tsv", "sentence\nIt rains.\n", "line 1 has no 'text'"),
        ("own.txt", TABLE.replace("\t", ","), REFUSED),
        ("own.csv", 'id,text\n7,"a,\nb"\n,c\n', [{"id": "7"}, {"id": ""}]),
        ("own.jsonl", json_lines(TEXTS), IDS),
        ("own.json", json.dumps({"text": "a"}, indent=1), [{"object": 1}]),
    ],
)
def test_a_file_is_the_same_in_both_forms(
    models, tmp_path, name, content, expected
):
    path, output = write(tmp_path / name, content), tmp_path / "out.jsonl"
    for model in models:
        if isinstance(expected, str):
            with refused(expected):
                run(path, output_file=str(output), **model)
            continue
        run(path, output_file=str(output), **model)
        answers = row_files.read(output)
        output.unlink()
        places = ("id", "line", "object")
        found = [{k: a[k] for k in places if k in a} for a in answers]
        assert found == expected


# Runs the script, then tells what it had to load for it.
SCRIPT = """
import sys
from albert_tf.common import options
from albert_tf import predict
try:
    options.run_script(predict.run, predict.PredictOptions)
finally:
    loaded = [name for name in sys.modules if name.startswith("albert_tf.")]
    print(*sorted(loaded), file=sys.stderr)
"""


def test_standard_input_to_standard_output_without_the_network(echo):
    lines = "".join(f"text {n}\n" for n in range(40))
    content = lines + "\nnot the last\n{\n"
    done = python("-c", SCRIPT, f"--saved_model={echo}", input=content)
    *good, bad = map(json.loads, done.stdout.splitlines())
    said = [answer["said"] for answer in good]
    assert said == [*lines.splitlines(), "not the last"]
    assert bad["line"] == 43
    messages = done.stderr.splitlines()
    assert any("1 of 42 answers are errors" in m for m in messages)
    layers = {name.split(".")[1] for name in messages[-1].split()}
    assert layers == {"common", "predict", "serving", "text"}  # `text.words`.
    assert "albert_tf.serving.client.ask" in messages[-1]
    assert "albert_tf.common.rows" in messages[-1]


# The folders of finetuned runs.


def test_folder_of_several_runs_means_the_best_one(new_runs, tmp_path):
    """Wherever it lies, and for all that takes a folder."""
    moved = tmp_path / "moved"
    shutil.copytree(new_runs, moved)
    best = os.path.basename(scores.read(str(new_runs)).best.folder)
    assert scores.read(str(moved)).best.folder == str(moved / best)
    checkpoint = str(moved / best / "model.ckpt-best")
    assert checkpoint_files.find(str(moved)) == checkpoint
    text = "text\ttext_pair\nIt rains.\tIt is wet.\n"
    path = write(tmp_path / "own.tsv", text)
    outer = ask(str(moved), path, tmp_path / "outer")
    assert outer == ask(str(moved / best), path, tmp_path / "inner")


def test_a_line_that_never_ends_is_refused():
    with open("/dev/zero", "rb") as zeros:
        with refused("input: line 1 has more th"):
            next(predict._read_lines(zeros, "standard input"))
