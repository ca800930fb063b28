"""The command: tables, failures, kills, changed commands."""

import concurrent.futures
import csv
import dataclasses
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from albert_tf.common import options, preemption
from albert_tf.text import tokenization
from lab.tables import __main__ as tables
from tests.conftest import FIXTURES, ROOT, refused

WORKER = "tests.lab.tables.worker"
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
def settings(tmp_path, monkeypatch):
    monkeypatch.setenv("JOURNAL", str(tmp_path / "journal"))
    monkeypatch.setenv("GO", str(tmp_path / "go"))
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
    before = len(steps_begun())
    try:
        tables.run(settings)
    except SystemExit as end:
        return steps_begun()[before:], end.code
    return steps_begun()[before:], None


def steps_begun():
    if not os.path.exists(os.environ["JOURNAL"]):
        return []
    with open(os.environ["JOURNAL"]) as lines:
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
        "| blue | 50 | 40 | 60 | +20 (+20 to +20) | 3 | 33.5 |",
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
    dry = dataclasses.replace(settings, dry_run=True)
    tables.run(dry)
    printed = capsys.readouterr().out
    assert "cell 9: green, seed 3" in printed
    assert printed.endswith("3.0 hours, 3.0 of them left\n")
    assert not os.path.exists(settings.output_dir)
    # Cells that differ in nothing are the same: green is red.
    one = dataclasses.replace(settings, cell=4)
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


def start(settings):
    """Start the command; return it when its first training hangs."""
    names = "plan", "output_dir", "corpus_dir"
    words = [f"--{name}={getattr(settings, name)}" for name in names]
    process = subprocess.Popen(
        [sys.executable, "-m", "lab.tables", *words],
        cwd=ROOT,
        env={**os.environ, "HANG": "train"},
        start_new_session=True,
    )
    while steps_begun() != ["records", "train"]:
        assert process.poll() is None
        time.sleep(0.1)
    return process


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_after_a_kill_it_goes_on(settings, number):
    process = start(settings)
    if number == signal.SIGKILL:
        os.killpg(process.pid, number)
        assert process.wait() == -number
    else:
        process.send_signal(number)
        assert process.wait(60) == preemption.EXIT_CODE
        with pytest.raises(ProcessLookupError):  # No command is left.
            os.killpg(process.pid, 0)
    assert run(settings)[0].count("records") == 1  # Those of blue.
    assert "| red | 30 | 20 | 40 | – | 3 | – |" in table_of(settings)


def test_a_command_that_was_left_alone_is_waited_for(settings):
    process = start(settings)
    process.kill()
    process.wait()
    with concurrent.futures.ThreadPoolExecutor() as threads:
        task = tables.plan.read(settings.plan, "default").cells(
            {**vars(settings), "data_dir": "none"}
        )[0]
        waiting = threads.submit(
            tables.execute, task.tasks["train"], settings.output_dir
        )
        time.sleep(0.5)
        assert not waiting.done() and steps_begun().count("train") == 1
        with open(os.environ["GO"], "w"):
            pass
        assert waiting.result() is None
    assert steps_begun().count("train") == 2


def test_a_number_that_is_not_finite_is_a_hole(settings):
    with open(settings.plan, "w") as plan:
        plan.write(PLAN.replace("--score=3", "--score=nan"))
    run(settings)
    assert "| blue | – | – | – | – | 0 | 33.5 |" in table_of(settings)


def test_a_column_that_matches_nothing_is_told(settings):
    with open(settings.plan, "w") as plan:
        plan.write(PLAN.replace("sco*", "socre"))
    run(settings)
    line = "- score: no 'socre' in train. There are score.\n"
    assert line in table_of(settings)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("--cell=10", "--cell=10 is not there. Give 1 to 9."),
        ("--corpus_dir=/nowhere", "--corpus_dir=/nowhere/train.txt is not"),
        ("--data_dir=/nowhere", "--data_dir=/nowhere is not a folder."),
        ("--plan=no.toml", "--plan=no.toml is not a file"),
        ("--size=night", "'night' is no size. There are default."),
    ],
)
def test_mistakes_have_one_message_and_status_2(
    settings, capsys, change, message
):
    names = "plan", "output_dir", "corpus_dir"
    words = [f"--{name}={getattr(settings, name)}" for name in names]
    status = options.run_inside(
        tables.run, tables.TablesOptions, [*words, change]
    )
    assert status == 2
    last = capsys.readouterr().err.strip().split("\n")[-1]
    assert last.startswith("error: ") and message in last
    assert not os.path.exists(settings.output_dir)


def test_a_wrong_option_is_found_before_any_command_runs(settings):
    with open(settings.plan, "w") as plan:
        plan.write(
            PLAN.replace('"--fail"', '"--fail --sed=1"').replace(
                f'"""{WORKER}',
                '"""data_prep.train_sentencepiece --input_file=a',
            )
        )
    settings = dataclasses.replace(settings, dry_run=True)
    with refused("Step train of red: .*'output_dir'"):
        tables.run(settings)
    assert not steps_begun()


@pytest.mark.parametrize(
    ("command", "package"),
    [("labb.train --x=1", "labb"), ("./train.sh", ""), ("", "")],
)
def test_a_command_that_is_no_module_is_refused(settings, command, package):
    known = f"{WORKER} --output_dir={{records}} --score=1"
    with open(settings.plan, "w") as plan:
        plan.write(PLAN.replace(known, command))
    with refused(f"Step records of red: there is no module '{package}'"):
        tables.run(settings)
    assert not steps_begun()


TINY = """
title = "Does sharing help?"
seeds = [1]
[config]
file = "configs/models/albert_tiny.json"
vocab_size = 500
hidden_size = 16
[steps]
records = '''data_prep.create_pretraining_data
  --input_file={corpus_dir}/held_out.txt --output_file={records}/a.tfrecord
  --spm_model_file={corpus_dir}/spm.model --max_seq_length=32
  --max_predictions_per_seq=5 --dupe_factor=1'''
train = '''albert_tf.run_pretraining --flagfile=configs/pretraining/tiny.flags
  --albert_config_file={config} --input_file={records}/a.tfrecord --seed={seed}
  --output_dir={train} --max_seq_length=32 --num_train_steps=2
  --num_warmup_steps=1 --train_batch_size=2 --max_eval_steps=1'''
[axes.share.none]
config = { share = "none" }
[columns."masked pieces right, %"]
step = "train"
key = "masked_lm_accuracy"
scale = 100
[columns.parameters]
step = "train"
key = "parameters"
[curves]
step = "train"
key = "masked_lm_loss"
"""


def test_a_tiny_plan_of_real_commands(settings, monkeypatch):
    """From text to curves."""
    monkeypatch.chdir(ROOT)
    own = FIXTURES / "own_text"
    shutil.copy(own / "spm.model", settings.corpus_dir)
    lines = (own / "corpus.txt").read_text().split("\n")[:100]
    with open(f"{settings.corpus_dir}/held_out.txt", "w") as text:
        text.write("\n".join(lines))
    vocab_size = tokenization.Tokenizer(str(own / "spm.model")).vocab_size
    with open(settings.plan, "w") as plan:
        plan.write(TINY.replace("500", str(vocab_size)))
    tables.run(settings)
    rows = csv.DictReader(table_of(settings, "table.csv").splitlines())
    found = {(row["column"], row["row"]): row for row in rows}
    masked, none = (
        found[column, "none"]
        for column in ("masked pieces right, %", "parameters")
    )
    assert 0 <= float(masked["median"]) <= 100
    assert float(none["median"]) > 10_000
    folder = f"{settings.output_dir}/tables/plan-default"
    with open(f"{folder}/curves.png", "rb") as picture:
        assert picture.read().startswith(b"\x89PNG")
    assert "Not there" not in table_of(settings)
