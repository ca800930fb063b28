"""The command: tables, failures, kills, changed commands."""

import csv
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from albert_tf.common import preemption
from lab.tables import __main__ as tables
from tests.conftest import FIXTURES, ROOT

WORKER = "tests.lab.tables.worker --journal={corpus_dir}/journal"
PLAN = f'''
title = "A table"
seeds = [1, 2, 3]
base = {{ color = "red" }}
[budget]
train = 30
[steps]
records = "{WORKER} --output_dir={{records}} --score=1"
train = """{WORKER} --output_dir={{train}} --input_dir={{records}}
  --score={{seed}}"""
[axes.color.red]
[axes.color.blue]
records = "--score=3"
[axes.color.green]
train = "--fail"
[columns.score]
step = "train"
key = "sco*"
scale = 10
paper = {{ blue = 33.5 }}
'''


@pytest.fixture
def settings(tmp_path):
    for name in ("train.txt", "held_out.txt"):
        (tmp_path / name).write_text("text")
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    return tables.TablesOptions(
        plan=str(path),
        output_dir=str(tmp_path / "out"),
        corpus_dir=str(tmp_path),
    )


def run(settings):
    """Run the plan; return the steps that ran, and the status."""
    journal = f"{settings.corpus_dir}/journal"
    before = len(steps_of(journal))
    try:
        tables.run(settings)
    except SystemExit as end:
        return steps_of(journal)[before:], end.code
    return steps_of(journal)[before:], None


def steps_of(journal):
    if not os.path.exists(journal):
        return []
    with open(journal) as lines:
        return lines.read().split()


def table_of(settings, name="table.md"):
    with open(f"{settings.output_dir}/tables/plan-default/{name}") as stream:
        return stream.read()


def test_the_table_has_medians_intervals_the_paper_and_holes(settings):
    ran, status = run(settings)
    assert sorted(ran) == ["records"] * 2 + ["train"] * 9
    assert status == "Some commands failed; the table names them."
    table = table_of(settings)
    for line in (
        "| red | 30 | 20 | 40 | – | 3 | – |",
        "| blue | 50 | 40 | 60 | +20.00 (+20.00 to +20.00) | 3 | 33.5 |",
        "| green | – | – | – | – | 0 | – |",
    ):
        assert f"{line}\n" in table
    assert table.count(": no score today\n") == 3
    assert "- green, seed 1: train/" in table
    rows = list(csv.DictReader(table_of(settings, "table.csv").splitlines()))
    assert [row["median"] for row in rows] == ["30.0", "50.0", ""]
    assert (rows[1]["column"], rows[1]["mean"]) == ("score", "20.0")


def test_only_what_is_missing_or_changed_runs_again(settings, capsys):
    text = PLAN.replace('train = "--fail"\n', "")
    with open(settings.plan, "w") as plan:
        plan.write(text)
    dry = tables.dataclasses.replace(settings, dry_run=True)
    tables.run(dry)
    printed = capsys.readouterr().out
    assert "cell 9: green, seed 3" in printed
    assert printed.endswith("3.0 hours, 3.0 of them left\n")
    assert not os.path.exists(settings.output_dir)
    # Cells that differ in nothing are the same: green is red.
    one = tables.dataclasses.replace(settings, cell=4)
    assert run(one) == (["records", "train"], None)
    assert (
        run(settings)[0]
        == ["records", "train", "train", "train"] + ["train"] * 2
    )
    assert run(settings) == ([], None)
    tables.run(dry)
    assert "3.0 hours, 0.0 of them left" in capsys.readouterr().out
    # Of red and green; blue has another.
    with open(settings.plan, "w") as plan:
        plan.write(text.replace("--score=1", "--score=2"))
    assert run(settings)[0].count("train") == 6
    assert "| red | 40 |" in table_of(settings)


def start(settings, tmp_path):
    """Start the command, whose training hangs; return it when it does."""
    with open(settings.plan, "w") as plan:
        plan.write(
            PLAN.replace("=[1, 2, 3]", "=[1]").replace(
                "--score={seed}",
                "--score={seed} --hang_without={corpus_dir}/go",
            )
        )
    names = "plan", "output_dir", "corpus_dir"
    words = [f"--{name}={getattr(settings, name)}" for name in names]
    process = subprocess.Popen(
        [sys.executable, "-m", "lab.tables", *words],
        cwd=ROOT,
        start_new_session=True,
    )
    journal = f"{settings.corpus_dir}/journal"
    for _ in range(600):
        if steps_of(journal) == ["records", "train"]:
            return process
        assert process.poll() is None
        time.sleep(0.1)
    raise AssertionError("The training has not started.")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_after_a_kill_it_goes_on(settings, tmp_path, number):
    process = start(settings, tmp_path)
    if number == signal.SIGKILL:
        os.killpg(process.pid, number)
        assert process.wait() == -number
    else:
        process.send_signal(number)
        assert process.wait(60) == preemption.EXIT_CODE
        with pytest.raises(ProcessLookupError):  # No command is left.
            os.killpg(process.pid, 0)
    (tmp_path / "go").touch()
    assert run(settings)[0].count("records") == 1  # Of blue.
    assert "| red | 30 | 20 | 40 | – | 3 | – |" in table_of(settings)


def test_mistakes_have_one_message_and_status_2(settings, tmp_path):
    for change, message in (
        ("--cell=10", "--cell=10 is not there: the plan has 9 cells."),
        ("--corpus_dir=/nowhere", "/nowhere/train.txt"),
        ("--plan=no.toml", "no.toml"),
    ):
        names = "plan", "output_dir", "corpus_dir"
        words = [f"--{name}={getattr(settings, name)}" for name in names]
        done = subprocess.run(
            [sys.executable, "-m", "lab.tables", *words, change],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 2
        last = done.stderr.strip().split("\n")[-1]
        assert last.startswith("error: ") and message in last
    assert not os.path.exists(settings.output_dir)


def test_a_tiny_plan_of_real_commands(tmp_path, monkeypatch):
    """Table 5 of one cell, from text to curves."""
    monkeypatch.chdir(ROOT)
    shutil.copy(FIXTURES / "own_text/corpus.txt", tmp_path / "train.txt")
    lines = (tmp_path / "train.txt").read_text().split("\n")[:200]
    (tmp_path / "held_out.txt").write_text("\n".join(lines))
    path = tmp_path / "plan.toml"
    path.write_text(
        f'extends = "{ROOT}/lab/tables/plans/table5.toml"\n'
        "[sizes.tiny]\nseeds = [1]\n"
        "config = { vocab_size = 400, hidden_size = 16, embedding_size = 8 }\n"
        'values = { text = "held_out.txt", passes = 1, vocab_size = 400, '
        'updates = 4, warmup = 1, batch = 4, parts = "cost", windows = 2 }\n'
    )
    settings = tables.TablesOptions(
        plan=str(path),
        output_dir=str(tmp_path / "out"),
        corpus_dir=str(tmp_path),
        size="tiny",
        cell=3,  # Trained on nsp, asked nsp.
    )
    tables.run(settings)
    folder = tmp_path / "out/tables/plan-tiny"
    table = (folder / "table.md").read_text()
    rows = csv.DictReader((folder / "table.csv").read_text().splitlines())
    found = {(row["column"], row["row"]): row for row in rows}
    row = found["sentence task right, %", "nsp, nsp"]
    assert 0 <= float(row["median"]) <= 100 and row["paper"] == "90.5"
    assert float(found["minutes of training", "nsp, nsp"]["median"]) > 0
    assert found["sentence task right, %", "sop, sop"]["median"] == ""
    assert "- sop, nsp, seed 1: records/" in table
    assert (folder / "curves.png").read_bytes().startswith(b"\x89PNG")
