"""Prediction of a user's file, with a run and with a SavedModel."""

import dataclasses
import functools
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import predict, run_squad
from albert_tf.common import errors, options, scores
from albert_tf.finetuning import predictions, registry, task_models
from albert_tf.finetuning.squad import squad
from albert_tf.model.checkpoints import checkpoint_files
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.serving.client import ask as asking
from albert_tf.text import tokenization
from albert_tf.training import memory_check, run_folder
from tests.albert_tf.finetuning import small_runs
from tests.conftest import LAYER_ATOL, ROOT

CONTEXT = "In spring at the mill Mara gave Ivo the ring. Ivo slept at the farm."
QUESTIONS = ["Where did Ivo sleep?", "What did Mara give?", "Who slept?"]


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return str(path)


def json_lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def read_lines(path):
    with open(path, encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]


# Which options go together.


@pytest.mark.parametrize(
    "values, message",
    [
        ({}, "exactly one of the two"),
        ({"run_dir": "r", "saved_model": "s"}, "exactly one of the two"),
        ({"run_dir": "r"}, "--run_dir needs a file as --input_file"),
        ({"run_dir": "r", "input_file": "-"}, "--run_dir needs a file"),
        (
            {"run_dir": "r", "input_file": ""},
            r"--input_file is empty. Name a file\.$",
        ),
        (
            {"saved_model": "s", "input_file": ""},
            "--input_file is empty. Name a file, or leave it out: standard",
        ),
        (
            {"run_dir": "r", "input_file": "i", "signature": "fill_mask"},
            "`signature=fill_mask` is only used with `saved_model`",
        ),
        (
            {"saved_model": "s", "checkpoint": "model.ckpt-3"},
            "`checkpoint=model.ckpt-3` is only used with `run_dir`",
        ),
        (
            {"saved_model": "s", "task_module": "my_task"},
            "`task_module=my_task` is only used with `run_dir`",
        ),
        (
            {"saved_model": "s", "output_file": "o.tsv"},
            "--output_file=o.tsv: tables are written with --run_dir only",
        ),
        ({"saved_model": "s", "batch_size": 0}, "`batch_size=0` is below 1"),
    ],
)
def test_options_that_do_not_go_together(values, message):
    with pytest.raises(errors.UserError, match=message):
        predict.PredictOptions(**values)


def test_files_that_cannot_be_used_are_named_before_the_model(tmp_path):
    path = write(tmp_path / "in.jsonl", "a\n")
    binary = tmp_path / "picture.jsonl"
    binary.write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    for model in ({"run_dir": "nowhere"}, {"saved_model": "nowhere"}):
        for name, output, message in (
            (tmp_path / "missing.txt", "out", "--input_file=.* no.* file"),
            (tmp_path, "out", "--input_file=.* no.* file"),
            (path, path, "is one of the input files"),
            (binary, "out", "picture.jsonl is not text"),
        ):
            settings = predict.PredictOptions(
                input_file=str(name),
                output_file=str(tmp_path / output),
                **model,
            )
            with pytest.raises(errors.UserError, match=message):
                predict.run(settings)


# A run that answers questions.


@pytest.fixture(scope="module")
def squad_runs(tmp_path_factory, small_config, tiny_vocab):
    """Makes the folder of a SQuAD run of a version, with new weights."""
    config = dataclasses.replace(small_config, num_hidden_layers=2)

    @functools.cache
    def make(version):
        folder = str(tmp_path_factory.mktemp("runs") / "squad")
        values = {
            "train_file": "train.json",
            "squad_version": version,
            "doc_stride": 8,
            "max_query_length": 10,
            "albert_config_file": "config.json",
            "output_dir": folder,
            "max_seq_length": 32,
            "do_train": True,
            "spm_model_file": tiny_vocab,
        }
        if version == "2.0":
            values["null_score_diff_threshold"] = 100.0
        settings = options.from_dict(run_squad.RunSquadOptions, values)
        vocabulary = settings.finetuning.vocabulary
        run_folder.claim(folder, "run_squad", settings, config, vocabulary)
        task = registry.make(
            options.to_dict(settings), tokenization.Tokenizer(tiny_vocab)
        )
        model = task_models.make_model(task, AlbertModel(config))
        tf.train.Checkpoint(model=model).write(f"{folder}/model.ckpt-best")
        return folder

    return make


@pytest.fixture
def squad_run(squad_runs):
    return squad_runs("2.0")


def ask(folder, path, output, **values):
    predict.run(
        predict.PredictOptions(
            run_dir=folder, input_file=path, output_file=str(output), **values
        )
    )
    return read_lines(output)


@pytest.mark.parametrize("version", squad.VERSIONS)
def test_questions_of_the_user_in_every_layout(squad_runs, tmp_path, version):
    folder = squad_runs(version)
    rows = [
        {"id": f"q{n}", "question": q, "context": CONTEXT}
        for n, q in enumerate(QUESTIONS)
    ]
    entries = [{"id": row["id"], "question": row["question"]} for row in rows]
    paragraphs = [{"context": CONTEXT, "qas": entries}]
    table = [["id", "question", "context"], *(row.values() for row in rows)]
    contents = {
        "official.json": json.dumps({"data": [{"paragraphs": paragraphs}]}),
        "lines.jsonl": json_lines(rows),
        "list.json": json.dumps(rows, indent=1),
        "table.tsv": "".join("\t".join(row) + "\n" for row in table),
    }
    found = {
        name: ask(
            folder, write(tmp_path / name, text), tmp_path / f"{name}.out"
        )
        for name, text in contents.items()
    }
    first = found["lines.jsonl"]
    assert [answer["id"] for answer in first] == ["q0", "q1", "q2"]
    for answer in first:
        assert answer["prediction"] in CONTEXT
        assert answer["prediction"] == answer["n_best"][0]["text"]
        assert ("null_score" in answer) == (version == "2.0")
    assert all(answers == first for answers in found.values())


def test_windows_do_not_depend_on_the_batch(squad_run, tmp_path):
    rows = [{"question": q, "context": CONTEXT} for q in QUESTIONS]
    path = write(tmp_path / "in.jsonl", json_lines(rows))
    one = ask(squad_run, path, tmp_path / "a.jsonl", batch_size=2)
    other = ask(squad_run, path, tmp_path / "b.jsonl", batch_size=50)
    assert [answer["id"] for answer in one] == ["0", "1", "2"]
    for a, b in zip(one, other, strict=True):
        assert a["prediction"] == b["prediction"]
        assert a["n_best"][0]["probability"] == pytest.approx(
            b["n_best"][0]["probability"], abs=LAYER_ATOL
        )


def test_bad_question_is_named(squad_run, tmp_path):
    content = '{"question": "a", "context": "b"}\n{"context": ""}\n'
    path = write(tmp_path / "in.jsonl", content)
    message = "in.jsonl, line 2: the context is empty"
    with pytest.raises(errors.UserError, match=message):
        ask(squad_run, path, tmp_path / "out.jsonl", strict=True)
    assert [p.name for p in tmp_path.iterdir()] == ["in.jsonl"]


def test_bad_questions_have_errors_in_their_places(squad_run, tmp_path):
    row = {"question": QUESTIONS[0], "context": CONTEXT}
    good = [json.dumps({**row, "id": id_}) for id_ in (1, "b")]
    bad = ['{"id": "\\ud83d"}', '{"id": NaN}', "[" * 10**5, '{"id": 7}', "\xff"]
    path = tmp_path / "in.jsonl"
    path.write_bytes("\n".join([good[0], *bad, good[1]]).encode("latin-1"))
    first, *wrong, last = ask(squad_run, str(path), tmp_path / "out.jsonl")
    assert (first["id"], last["id"]) == (1, "b")
    assert first["prediction"] == last["prediction"]
    assert [answer["line"] for answer in wrong] == [2, 3, 4, 5, 6]
    errors_found = [answer.pop("error") for answer in wrong]
    assert wrong[3] == {"id": 7, "line": 5}
    for part, found in zip(
        (
            "surrogate",
            "unexpected character",
            "depth",
            "'context' is missing",
            "not UTF-8",
        ),
        errors_found,
        strict=True,
    ):
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
    with pytest.raises(errors.UserError, match=message):
        ask(squad_run, path, tmp_path / "out.jsonl", batch_size=2**20)


def test_table_of_answers_has_the_errors_too(squad_run, tmp_path):
    text = f"id\tquestion\tcontext\na\t{QUESTIONS[0]}\t{CONTEXT}\nb\tc\n"
    path = write(tmp_path / "in.tsv", text)
    output = tmp_path / "out.tsv"
    predict.run(
        predict.PredictOptions(
            run_dir=squad_run, input_file=path, output_file=str(output)
        )
    )
    names, good, bad = [
        line.split("\t") for line in output.read_text().splitlines()
    ]
    good, bad = (dict(zip(names, row, strict=True)) for row in (good, bad))
    assert good["id"] == "a" and good["prediction"] and not good["error"]
    assert bad["line"] == "3" and "2 columns, but" in bad["error"]
    assert not bad["prediction"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.tsv", "out.tsv"]


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
    predict.run(predict.PredictOptions(run_dir=squad_run, input_file=path))
    (line,) = capfd.readouterr().out.splitlines()
    assert json.loads(line)["id"] == "0"


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
    settings = predict.PredictOptions(
        saved_model=echo,
        input_file=write(tmp_path / "in.txt", "\n".join(texts)),
        output_file=str(tmp_path / "new" / "out.jsonl"),
        batch_size=4,
    )
    predict.run(settings)
    assert read_lines(tmp_path / "new" / "out.jsonl") == [
        {"line": number, "said": text} for number, text in enumerate(texts, 1)
    ]


def test_a_failure_leaves_the_old_answers(echo, tmp_path, monkeypatch):
    output = tmp_path / "out.jsonl"
    output.write_text("old")
    settings = predict.PredictOptions(
        saved_model=echo,
        input_file=write(tmp_path / "in.txt", "a\nb\n"),
        output_file=str(output),
        batch_size=1,
    )
    call = asking.Signature.__call__

    def fail(self, requests):
        if requests[0].texts["text"] == "b":
            raise OSError("The power is gone")
        return call(self, requests)

    monkeypatch.setattr(asking.Signature, "__call__", fail)
    with pytest.raises(OSError, match="power"):
        predict.run(settings)
    assert output.read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.txt", "out.jsonl"]


@pytest.mark.parametrize("output", ["out.jsonl", "-"])
def test_file_without_a_good_line_is_refused(echo, tmp_path, output, capfd):
    output = output if output == "-" else str(tmp_path / output)
    settings = predict.PredictOptions(
        saved_model=echo,
        input_file=write(tmp_path / "in.txt", "{\n[{\n"),
        output_file=output,
    )
    with pytest.raises(errors.UserError, match="No line .*in.txt, line 1"):
        predict.run(settings)
    assert [p.name for p in tmp_path.iterdir()] == ["in.txt"]


def test_bad_lines_are_counted(echo, tmp_path, caplog):
    settings = predict.PredictOptions(
        saved_model=echo,
        input_file=write(tmp_path / "in.txt", 'a\n{"id": 3}\n{\n'),
        output_file=str(tmp_path / "out.jsonl"),
    )
    predict.run(settings)
    assert "2 of 3 answers are errors. The first: " in caplog.text
    assert read_lines(tmp_path / "out.jsonl")[1]["id"] == 3


def test_bad_line_leaves_the_old_answers(echo, tmp_path):
    old = write(tmp_path / "out.jsonl", "old")
    settings = predict.PredictOptions(
        saved_model=echo,
        input_file=write(tmp_path / "in.txt", 'a\nb\n{"txt": "c"}\n'),
        output_file=old,
        batch_size=1,
        strict=True,
    )
    with pytest.raises(errors.UserError, match="in.txt, line 3 has no 'text'"):
        predict.run(settings)
    assert [p.name for p in sorted(tmp_path.iterdir())] == [
        "in.txt",
        "out.jsonl",
    ]
    assert (tmp_path / "out.jsonl").read_text() == "old"


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
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, f"--saved_model={echo}"],
        input=lines + "\nnot the last\n{\n",
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0
    *good, bad = map(json.loads, done.stdout.splitlines())
    said = [answer["said"] for answer in good]
    assert said == [*lines.splitlines(), "not the last"]
    assert bad["line"] == 43
    messages = done.stderr.splitlines()
    assert any("1 of 42 answers are errors" in m for m in messages)
    layers = {name.split(".")[1] for name in messages[-1].split()}
    assert layers == {"common", "finetuning", "predict", "serving"}
    assert "albert_tf.serving.client.ask" in messages[-1]
    assert "albert_tf.finetuning.text_files" in messages[-1]
    assert "albert_tf.finetuning.base" not in messages[-1]


# The folders of finetuned runs.


def test_folder_alone_predicts_as_the_script_did(world, two_runs, tmp_path):
    lines = small_runs.open_lines(f"{world.glue}/RTE/test.tsv")[1:]
    own = ["id\ttext\ttext_pair", *lines]
    small_runs.write(tmp_path / "own.tsv", "".join(f"{line}\n" for line in own))
    moved = tmp_path / "moved"
    shutil.copytree(two_runs / "run_1", moved)
    for name in ("own.jsonl", "own_out.tsv"):
        predict.run(
            predict.PredictOptions(
                run_dir=str(moved),
                input_file=str(tmp_path / "own.tsv"),
                output_file=str(tmp_path / name),
                batch_size=4,
            )
        )
    answers = list(
        map(json.loads, small_runs.open_lines(tmp_path / "own.jsonl"))
    )
    expected = small_runs.open_lines(two_runs / "run_1/RTE.tsv")[1:]
    assert [f"{a['id']}\t{a['prediction']}" for a in answers] == expected
    odds = [
        [float(number) for number in line.split("\t")]
        for line in small_runs.open_lines(two_runs / "run_1/test_results.tsv")
    ]
    np.testing.assert_allclose(
        [list(a["probabilities"].values()) for a in answers],
        odds,
        atol=LAYER_ATOL,
    )
    table = [
        line.split("\t")
        for line in small_runs.open_lines(tmp_path / "own_out.tsv")
    ]
    assert table[0] == ["id", "prediction", "entailment", "not_entailment"]
    assert [row[:2] for row in table[1:]] == [e.split("\t") for e in expected]
    assert float(table[1][2]) == answers[0]["probabilities"]["entailment"]


def test_folder_of_several_runs_means_the_best_one(world, two_runs, tmp_path):
    """Wherever it lies, and for all that takes a folder."""
    moved = tmp_path / "moved"
    shutil.copytree(two_runs, moved)
    best = os.path.basename(scores.read(str(two_runs)).best.folder)
    assert scores.read(str(moved)).best.folder == str(moved / best)
    assert checkpoint_files.find(str(moved)) == str(
        moved / best / "model.ckpt-best"
    )
    small_runs.write(
        tmp_path / "own.tsv", "text\ttext_pair\nIt rains.\tIt is wet.\n"
    )
    for folder, name in ((moved, "outer"), (moved / best, "inner")):
        predict.run(
            predict.PredictOptions(
                run_dir=str(folder),
                input_file=str(tmp_path / "own.tsv"),
                output_file=str(tmp_path / name),
            )
        )
    assert small_runs.open_lines(tmp_path / "outer") == small_runs.open_lines(
        tmp_path / "inner"
    )


def test_prediction_names_what_is_no_finetuned_model(tmp_path):
    small_runs.write(tmp_path / "own.tsv", "text\nIt rains.\n")
    settings = predict.PredictOptions(
        run_dir=str(tmp_path),
        input_file=str(tmp_path / "own.tsv"),
        output_file=str(tmp_path / "out.jsonl"),
    )
    with pytest.raises(errors.UserError, match="is not the folder of a run"):
        predict.run(settings)
