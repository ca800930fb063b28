"""Which checkpoint is the best."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.common import errors
from albert_tf.model.checkpoints import checkpoint_files
from albert_tf.training import (
    distribution,
    run_checkpoints,
    run_log,
    validation,
)
from tests.albert_tf.training import tiny_training
from tests.conftest import refused


def step_of(path):
    return int(
        tf.train.load_variable(
            path, "optimizer/_iterations/.ATTRIBUTES/VARIABLE_VALUE"
        )
    )


@pytest.mark.parametrize(
    ("name", "numbers"),
    # The first of equal ones; what is no number is never the best.
    [
        ("score", [{"score": np.nan}, {"score": 0.7}, {"score": 0.7}]),
        ("a_loss", [{"a_loss": 0.3}, {"a_loss": 0.1}, {"a_loss": 0.1}]),
        ("score", [{"other": 1.0}, {"score": 0.0}, {"other": 1.0}]),
    ],
)
def test_best_checkpoint_is_that_of_the_best_evaluation(
    make_trainer, caplog, name, numbers
):
    trainer = make_trainer(save_checkpoints_steps=2)
    left = iter(numbers)
    tiny_training.train(
        trainer, tiny_training.STEPS, lambda: dict(next(left)), name
    )
    missing = sum(name not in number for number in numbers)
    assert caplog.text.count(f"Nothing counts for {name} at step") == missing
    best = checkpoint_files.find(trainer.output_dir)
    assert best.endswith("model.ckpt-best")
    assert step_of(best) == step_of(f"{trainer.output_dir}/model.ckpt-4") == 4
    trainer.restore_best()
    assert trainer.step == 4


@pytest.mark.parametrize(
    ("name", "data"), [("score", "others"), ("a_loss", "the same")]
)
def test_evaluations_by_another_metric_or_on_other_data_do_not_count(
    make_trainer, name, data
):
    trainer = make_trainer()
    scores, asked = {}, []

    def evaluate():
        asked.append(trainer.step)
        score = scores[trainer.step]
        return {"score": score, "a_loss": -score}

    def validate(numbers, name, data):
        scores.update(numbers)
        log = run_log.RunLog(trainer.output_dir, 1)
        for step in numbers:
            trainer.optimizer.iterations.assign(step)
            trainer.validation(log, evaluate, name, data).validate()

    best = f"{trainer.output_dir}/model.ckpt-best"
    # An earlier version did not say what it had measured.
    log = run_log.RunLog(trainer.output_dir, 1)
    log.write("eval", 1, {"score": 0.7, "a_loss": -0.7})
    validate({2: 0.9, 4: 0.8}, "score", "the same")
    assert step_of(best) == 2
    validate({4: 0.7, 6: 0.75}, name, data)
    assert step_of(best) == 6
    validate({6: 0.0}, name, data)
    assert asked == [2, 4, 4, 6]


@pytest.mark.parametrize("follows", [False, True])
def test_evaluations_of_training_and_of_a_follower_count_together(
    make_trainer, follows
):
    """Either may have been left for the other one."""
    trainer = make_trainer()
    inner = f"{trainer.output_dir}/{run_log.EVALUATION_FOLDER}"
    folders = [trainer.output_dir, inner]
    logs = [run_log.RunLog(folder, 1) for folder in folders]
    if follows:
        logs.reverse()

    def validate(log, step, score):
        trainer.optimizer.iterations.assign(step)
        made = trainer.validation(log, lambda: {"score": score}, "score", "x")
        made.validate()

    best = f"{trainer.output_dir}/model.ckpt-best"
    validate(logs[0], 2, 0.9)
    validate(logs[1], 4, 0.7)
    assert step_of(best) == 2
    validate(logs[1], 6, 0.95)
    assert step_of(best) == 6


class OtherWorker(distribution.Workers):
    """Beside this process, one whose values are all `value`."""

    def __init__(self, value):
        super().__init__(tf.distribute.get_strategy())
        self.value = value

    def gather(self, *numbers):
        return np.array([numbers, [self.value] * len(numbers)])


@pytest.mark.parametrize("other_has_it", [False, True])
@pytest.mark.parametrize("has_it", [False, True])
def test_a_line_that_one_worker_lacks_is_made_by_all(
    make_trainer, tmp_path, has_it, other_has_it
):
    trainer = make_trainer()
    log = run_log.RunLog(str(tmp_path / "log"), 1)
    if has_it:
        log.write("eval", 0, {"score": 0.5})
    asked = []

    def evaluate():
        asked.append(trainer.step)
        return {"score": 0.7}

    validation.Validation(
        evaluate, "score", log, trainer._saved, OtherWorker(other_has_it)
    ).validate()
    assert asked == ([] if has_it and other_has_it else [0])
    # The line that there was stays.
    assert log.column("eval", "score") == [(0, 0.5 if has_it else 0.7)]
    assert (tmp_path / "run" / "model.ckpt-best.index").exists()


def test_a_follower_evaluates_every_checkpoint_once(
    make_trainer, tmp_path, monkeypatch, caplog
):
    """Up to the one that the training has ended with; it may be saving."""
    tiny_training.train(make_trainer(), tiny_training.STEPS)
    late = list((tmp_path / "run").glob("model.ckpt-6.*"))
    for path in late:
        path.rename(tmp_path / path.name)

    def save(seconds):
        assert seconds == validation.FOLLOW_SECONDS and seen == [3]
        for path in late:
            (tmp_path / path.name).rename(path)

    monkeypatch.setattr(validation.time, "sleep", save)
    (tmp_path / "run" / "model.ckpt-2.index").write_text("damaged")
    saving = [tmp_path / "run" / f"model.ckpt-{n}_temp" for n in (9, "best")]
    for folder in saving:
        folder.mkdir()
    trainer = make_trainer()
    log = run_log.RunLog(str(tmp_path / "log"), 1)
    seen = []

    def evaluate():
        seen.append(trainer.step)
        return {"score": 1 / trainer.step}

    for last in (100, 6):  # Also when it is started again.
        trainer.validation(log, evaluate, "score").follow(last, lambda: None)
        assert seen == [3, 6]
        assert log.column("eval", "score") == [(3, 1 / 3), (6, 1 / 6)]
        assert caplog.text.count("model.ckpt-2 cannot be read") == 1
        assert "It is left out." in caplog.text
        caplog.clear()
        (tmp_path / "run" / run_log.FILE_NAME).unlink(missing_ok=True)
    assert [folder.exists() for folder in saving] == [True, False]
    trainer.restore_best()
    assert trainer.step == 3


def test_a_follower_killed_between_its_line_and_the_copy_copies_again(
    make_trainer, tmp_path, monkeypatch
):
    tiny_training.train(make_trainer(), tiny_training.STEPS)
    trainer = make_trainer()
    scores = {3: 0.1, 6: 0.9}
    log = run_log.RunLog(str(tmp_path / "log"), 1)

    def follow():
        trainer.validation(
            log, lambda: {"score": scores.pop(trainer.step)}, "score"
        ).follow(tiny_training.STEPS, lambda: None)

    real = run_checkpoints.RunCheckpoints.save_best

    def save_best(self):
        if self.step == 6:
            raise SystemExit
        real(self)

    with monkeypatch.context() as patch, pytest.raises(SystemExit):
        patch.setattr(run_checkpoints.RunCheckpoints, "save_best", save_best)
        follow()
    best = f"{trainer.output_dir}/model.ckpt-best"
    assert step_of(best) == 3 and not scores
    follow()
    assert step_of(best) == 6


def test_a_follower_reads_no_checkpoint_of_another_run(make_trainer, tmp_path):
    tiny_training.train(make_trainer(), 3)
    log = run_log.RunLog(str(tmp_path / "log"), 1)
    trainer = make_trainer("empty")
    following = trainer.validation(log, lambda: {"score": 1.0}, "score")
    folder = tmp_path / "empty"

    def refuse():
        raise errors.UserError("another run")

    for path in (tmp_path / "run").glob("model.ckpt-3.*"):
        path.rename(folder / path.name)
    with refused("another run"):
        following.follow(3, refuse)
    assert trainer.step == 0 and not log.column("eval", "score")
