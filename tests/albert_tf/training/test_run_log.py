"""The record of a run: what it keeps over restarts, and how it reads."""

import dataclasses
import math
import resource

import pytest
import tensorflow as tf

from albert_tf.training import run_log

FACTS = run_log.Provenance(
    command="run",
    parameters=5,
    data="made up",
    python="3",
    machine="x",
    devices="CPU",
    versions="1",
    training_data="a",
)


@pytest.fixture
def log(tmp_path):
    log = run_log.RunLog(str(tmp_path), batch_size=8)
    log.start(0, 10, FACTS)
    return log


def splits_and_steps(folder):
    return [(line["split"], line["step"]) for line in run_log.read(str(folder))]


def test_lines_are_kept_in_a_file(log, tmp_path):
    log.write("train", 5, {"loss": 2.5}, steps_per_second=3.0)
    log.write("eval", 5, {"loss": 2.0})
    facts, train, evaluated = run_log.read(str(tmp_path))
    assert facts == {
        "split": "facts",
        "step": 0,
        **{k: v for k, v in dataclasses.asdict(FACTS).items() if v is not None},
        "examples_per_step": 8,
    }
    assert "entropy_of_labels" not in facts and "loss" not in facts
    assert train["loss"] == 2.5 and train["examples_per_second"] == 24
    assert "examples_per_second" not in evaluated
    assert run_log.final_step(str(tmp_path)) is None
    log.end(4)
    assert run_log.final_step(str(tmp_path)) == 4
    for split, loss in (("train", 2.5), ("eval", 2.0)):
        (path,) = (tmp_path / split).glob("events*")
        _, event = tf.compat.v1.train.summary_iterator(str(path))
        (value,) = event.summary.value
        assert (event.step, value.tag) == (5, "loss")
        assert tf.make_ndarray(value.tensor) == loss


def test_rates_of_packed_rows_count_instances(tmp_path, capsys):
    """2 rows of 128 tokens with about 1.5 instances each."""
    work = run_log.ExampleCost(tokens=128 / 1.5002, flops=1e9 / 1.5002)
    log = run_log.RunLog(str(tmp_path), 2 * 1.5002, work)
    log.start(0, 10)
    log.write("train", 5, {"loss": 2.5}, steps_per_second=2.0)
    facts, train = run_log.read(str(tmp_path))
    assert facts["examples_per_step"] == 3.0
    assert facts["tokens_per_step"] == 256
    assert train["examples_per_second"] == 4 * 1.5002
    assert train["tokens_per_second"] == pytest.approx(512)
    assert train["gigaflops"] == pytest.approx(4)
    assert 100 < train["peak_memory_mb"] < 20_000
    assert "6.0 examples/s  512 tokens/s  4 GFLOP/s" in capsys.readouterr().out


def test_restart_forgets_what_lies_after_its_step(log, tmp_path):
    for step in (2, 4, 6):
        log.write("train", step, {"loss": 1.0})
    log.end(4)
    again = run_log.RunLog(str(tmp_path), batch_size=8)
    again.start(4, 10)
    assert splits_and_steps(tmp_path) == [
        ("facts", 0),
        ("train", 2),
        ("train", 4),
        ("facts", 4),
    ]


def test_a_line_says_what_was_measured(log, tmp_path, capsys):
    """One that does not say it may be the same."""
    log.write("eval", 1, {"loss": 1.0})
    log.write("eval", 2, {"loss": 2.0}, measured="loss on dev")
    log.write("eval", 3, {"loss": 3.0}, measured="loss on test")
    assert "dev" not in capsys.readouterr().out
    again = run_log.RunLog(str(tmp_path), batch_size=8)
    every = [(1, 1.0), (2, 2.0), (3, 3.0)]
    assert again.column("eval", "loss") == every
    assert again.column("eval", "loss", "loss on dev") == every[:2]


def test_line_of_the_same_step_is_replaced(log):
    log.write("eval", 5, {"loss": 2.0})
    log.write("train", 5, {"loss": 3.0})
    log.write("eval", 5, {"loss": 1.0})
    assert log.column("eval", "loss") == [(5, 1.0)]
    assert log.column("train", "loss") == [(5, 3.0)]


@pytest.mark.parametrize(
    "damage",
    [
        b'{"split": "tra',
        b"\xff\xfe\x00garbage",
        b"[" * 100_000,
        b"[1]",
        b'{"split": "train"}',
        b'{"step": 5, "loss": 1.0}',
        b'{"split": 1, "step": 5}',
        b'{"split": "train", "step": "5"}',
        b'{"split": "train", "step": true}',
        b'{"split": "train", "step": 5, "loss": "low"}',
        b'{"split": "facts", "step": 5, "tokens_per_step": "8"}',
        b'{"split": "facts", "step": 5, "entropy_of_labels": "8"}',
        b'{"split": "facts", "step": 5, "entropy_of_labels": null}',
        b'{"split": "train", "step": 5, "loss": \xff}',
    ],
    ids=lambda damage: damage[:30],
)
def test_damaged_lines_are_left_out(log, tmp_path, caplog, damage):
    log.write("train", 5, {"loss": 2.5})
    path = tmp_path / run_log.FILE_NAME
    facts, train = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([facts, damage, damage, train, b""]))
    again = run_log.RunLog(str(tmp_path), batch_size=8)
    assert "left out 2 damaged lines; the first is line 2" in caplog.text
    again.start(5, 10)
    assert splits_and_steps(tmp_path) == [
        ("facts", 0),
        ("train", 5),
        ("facts", 5),
    ]
    assert again.column("train", "loss") == [(5, 2.5)]


def test_number_that_is_not_finite_is_null_in_the_file(log, tmp_path):
    log.write("train", 5, {"loss": math.nan, "gradient_norm": math.inf})
    text = (tmp_path / run_log.FILE_NAME).read_text()
    assert '"loss": null, "gradient_norm": null' in text
    again = run_log.RunLog(str(tmp_path), batch_size=8)
    ((step, loss),) = again.column("train", "loss")
    assert step == 5 and math.isnan(loss)


def test_terminal_shows_progress(log, capsys):
    numbers = {"masked_lm_accuracy": 0.4121, "learning_rate": 1e-3}
    log.write("train", 5, numbers, steps_per_second=0.5)
    assert capsys.readouterr().out == (
        "train step  5/10  mlm acc 41.2%  lr 1.00e-03  4.0 examples/s  "
        "ETA 0:00:10\n"
    )
    log.write("train", 5, numbers, 0.5, seconds_left=7)
    assert "ETA 0:00:07" in capsys.readouterr().out
    log.write("eval", 5, {"loss": 2.34567, "sentence_order_accuracy": 0.5})
    assert "loss 2.346  sop acc 50.0%\n" in capsys.readouterr().out
    seconds = [run_log.format_seconds(n) for n in (0.4, 59.6, 61, 90_000)]
    assert seconds == ["0:00:00", "0:01:00", "0:01:01", "25:00:00"]
    for name, text in (
        ("next_sentence_loss", "nsp loss 0.500"),
        ("replaced_token_accuracy", "rtd acc 50.0%"),
        ("sentence_distance_loss", "distance loss 0.500"),
    ):
        assert run_log.format_number(name, 0.5) == text


def test_eval_results_are_sorted_lines(tmp_path, capsys):
    run_log.write_eval_results(str(tmp_path), 4, {"score": 0.5, "loss": 1.0})
    text = (tmp_path / "eval_results.txt").read_text()
    assert text == "global_step = 4\nloss = 1.0\nscore = 0.5\n"
    assert capsys.readouterr().out == text


def test_a_full_disk_is_named_by_the_folder_of_the_events(log, tmp_path):
    numbers = {f"number_{index}": 0.5 for index in range(100)}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, limits[1]))
    try:  # The line fits, its events do not.
        with pytest.raises(OSError, match="too large.*bytes are free") as error:
            log.write("train", 5, numbers)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert error.value.filename == str(tmp_path / "train")
    again = run_log.RunLog(str(tmp_path), batch_size=8)
    again.start(0, 10, FACTS)
    again.write("train", 5, numbers)
    assert splits_and_steps(tmp_path)[-1] == ("train", 5)
