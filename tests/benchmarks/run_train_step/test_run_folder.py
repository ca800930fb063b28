"""The folder of a run, and its card."""

import fcntl
import json
import shutil

import pytest

from albert_tf import write_run_card
from albert_tf.training import run_folder, run_log
from tests.exported_steps import (
    BATCH,
    CONFIG,
    RUNNER,
    run_code,
    run_program,
    start_program,
)


def drop_times(lines):
    """Lines of a log without what differs between two runs."""
    kept = ("split", "step", "loss", "masked_lm_loss", "gradient_norm")
    return [{k: line[k] for k in kept if k in line} for line in lines]


@pytest.fixture
def command(with_evaluation):
    return [
        f"--program={with_evaluation}",
        f"--batches={with_evaluation}/batches",
        f"--eval_batches={with_evaluation}/batches/[01].npz",
        *("--log_steps=2", "--save_steps=2", "--eval_steps=2"),
        "--matrix_size=0",
    ]


@pytest.mark.jax
def test_card_is_made_from_the_folder(jax_python, command, tmp_path, capsys):
    run_program(jax_python, *command, f"--output_dir={tmp_path}")
    found = run_folder.read(str(tmp_path))
    assert (found.program, found.config) == ("run_train_step", CONFIG)
    assert found.options["num_train_steps"] == 20
    lines = run_log.read(str(tmp_path))
    assert [(line["split"], line["step"]) for line in lines] == [
        *(("facts", 0), ("train", 2), ("eval", 2), ("train", 4), ("eval", 4)),
        *(("train", 5), ("eval", 5), ("end", 5)),
    ]
    write_run_card.run(write_run_card.RunCardOptions(str(tmp_path)))
    card = (tmp_path / "run_card.md").read_text()
    assert card.startswith("# Run card: run_train_step")
    for text in (
        "## Last evaluation",
        f"| examples_seen | {5 * BATCH} |",
        "| tokens_per_second, median |",
        "| sentence_order_accuracy |",
    ):
        assert text in card
    assert (tmp_path / "learning_curves.png").exists()


@pytest.mark.jax
def test_lines_after_the_saved_step_are_made_again(
    jax_python, command, tmp_path
):
    run_program(jax_python, *command, f"--output_dir={tmp_path}/whole")
    part = f"--output_dir={tmp_path}/part"
    run_program(jax_python, *command, "--steps=4", part)
    # As after a kill: lines of updates that no variables have, the last one
    # cut off.
    with open(tmp_path / "part/metrics.jsonl", "a") as log:
        log.write(json.dumps({"split": "train", "step": 5, "loss": 7.0}))
        log.write('\n{"split": "ev')
    # Nor was the last evaluation made.
    kept = [
        line
        for line in (tmp_path / "part/metrics.jsonl").read_text().splitlines()
        if '"eval", "step": 4' not in line and '"end"' not in line
    ]
    (tmp_path / "part/metrics.jsonl").write_text("\n".join(kept))
    run_program(jax_python, *command, part)
    whole, continued = (
        drop_times(
            line
            for line in run_log.read(str(tmp_path / name))
            if line["split"] != "facts"
        )
        for name in ("whole", "part")
    )
    assert continued == whole


@pytest.mark.jax
def test_a_folder_of_fewer_updates_is_refused(
    jax_python, command, with_evaluation, tmp_path
):
    run_program(jax_python, *command, f"--output_dir={tmp_path}/a")
    run_program(jax_python, *command, "--steps=1", f"--output_dir={tmp_path}/b")
    # As after an export with --init_schedule=continue.
    later = shutil.copytree(with_evaluation, tmp_path / "later")
    shutil.copy(tmp_path / "a/variables.npz", later)
    done = start_program(
        jax_python, *command, f"--program={later}", f"--output_dir={tmp_path}/b"
    )
    assert done.returncode == 1
    assert "has fewer updates than" in done.stderr


@pytest.mark.jax
def test_a_folder_of_another_training_is_refused(
    jax_python, command, with_evaluation, tmp_path
):
    output = f"--output_dir={tmp_path}/run"
    run_program(jax_python, *command, "--steps=1", output)
    before = read_all(tmp_path / "run")
    other = shutil.copytree(with_evaluation, tmp_path / "other")
    description = json.loads((other / "train_step.json").read_text())
    description["options"]["learning_rate"] = 0.5
    (other / "train_step.json").write_text(json.dumps(description))
    for change, message in (
        (f"--program={other}", "another value of learning_rate: 0.01, now 0.5"),
        (f"--variables={other}/variables.npz", "another value of variables"),
    ):
        done = start_program(jax_python, *command, output, change)
        assert done.returncode == 1
        assert message in done.stderr
    (tmp_path / "run/run_options.json").unlink()
    done = start_program(jax_python, *command, output)
    assert done.returncode == 1
    assert "is not a whole folder of a training" in done.stderr
    before.pop("run_options.json")
    assert read_all(tmp_path / "run") == before


@pytest.mark.jax
def test_one_training_at_a_time_and_none_when_all_is_done(
    jax_python, command, tmp_path
):
    output = f"--output_dir={tmp_path}/run"
    run_program(jax_python, *command, output)
    before = read_all(tmp_path / "run")
    with open(tmp_path / "run/run.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = start_program(jax_python, *command, output)
    assert done.returncode == 1
    assert "is in use by another training" in done.stderr
    done = start_program(jax_python, *command, output)
    assert done.returncode == 0
    assert "Nothing is left to do" in done.stderr
    assert read_all(tmp_path / "run") == before


@pytest.mark.jax
def test_a_disk_without_room_is_named_before_training(
    jax_python, command, tmp_path
):
    arguments = [*command, f"--output_dir={tmp_path}"]
    program = f"""
import runpy, shutil, sys
shutil.disk_usage = lambda _: shutil._ntuple_diskusage(10**9, 10**9, 2000)
sys.argv[1:] = {arguments!r}
runpy.run_path({str(RUNNER)!r}, run_name="__main__")
"""
    done = run_code(jax_python, program)
    assert done.returncode == 1
    assert f"--output_dir={tmp_path} has 0.0 MB free, but" in done.stderr
    assert "Traceback" not in done.stderr
    assert not done.stdout


@pytest.mark.jax
def test_the_folder_of_another_program_is_refused(
    jax_python, command, tmp_path
):
    folder = tmp_path / "pretraining"
    folder.mkdir()
    (folder / "run_options.json").write_text('{"program": "run_pretraining"}')
    (folder / "metrics.jsonl").write_text('{"split": "train", "step": 1}\n')
    before = read_all(folder)
    done = start_program(jax_python, *command, f"--output_dir={folder}")
    assert done.returncode == 1
    assert "holds a training by run_pretraining" in done.stderr
    after = read_all(folder)
    after.pop("run.lock")
    assert after == before


@pytest.mark.jax
def test_an_evaluation_that_is_added_at_the_end_is_made(
    jax_python, command, tmp_path
):
    output = f"--output_dir={tmp_path}"
    without = [c for c in command if not c.startswith("--eval")]
    run_program(jax_python, *without, output)
    lines = run_program(jax_python, *command, output)
    assert [line["split"] for line in lines if "split" in line] == ["eval"]
    done = start_program(jax_python, *command, output)
    assert "Nothing is left to do" in done.stderr


def read_all(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}
