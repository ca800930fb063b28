"""The training loop on a tiny model: resuming, replicas, evaluation, damage."""

import dataclasses
import time

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import (
    checkpoints,
    elementwise,
    errors,
    inputs,
    modeling,
    objectives,
    optimization,
    records,
    run_log,
    training,
)
from albert_tf.heads import pretraining
from tests.conftest import LOSS_RTOL, make_replicas

BATCH = 4
STEPS = 6


def make_examples(count):
    generator = np.random.default_rng(5)
    return {
        "input_ids": generator.integers(5, 400, [count, 8], np.int32),
        "input_mask": np.ones([count, 8], np.int32),
        "segment_ids": np.zeros([count, 8], np.int32),
        "masked_lm_positions": generator.integers(0, 8, [count, 2], np.int32),
        "masked_lm_ids": generator.integers(5, 400, [count, 2], np.int32),
        # Different numbers of predictions, so that a mean of means is wrong.
        "masked_lm_weights": generator.integers(0, 2, [count, 2]).astype("f4"),
        "next_sentence_labels": generator.integers(0, 2, [count, 1], np.int32),
        "is_real_example": np.ones([count], np.int32),
    }


EXAMPLES = make_examples(BATCH * STEPS)


def batches(first_step=0, examples=EXAMPLES):
    dataset = tf.data.Dataset.from_tensor_slices(examples).repeat()
    return dataset.batch(BATCH, drop_remainder=True).skip(first_step)


def padded(count, batch_size):
    """`count` examples in full batches, filled up with marked zeros."""
    rest = -count % batch_size
    filled = {
        name: np.concatenate([v[:count], np.zeros_like(v[:rest])])
        for name, v in EXAMPLES.items()
    }
    return tf.data.Dataset.from_tensor_slices(filled).batch(batch_size)


@pytest.fixture
def make_trainer(small_config, tmp_path):
    """Makes a trainer; the same arguments make the same one."""

    def make(
        folder="run",
        *,
        dropout=0.0,
        strategy=None,
        rate=1e-2,
        now=time.monotonic,
        steps=STEPS,
        **changes,
    ):
        config = dataclasses.replace(
            small_config,
            num_hidden_layers=2,
            num_hidden_groups=1,
            inner_group_num=1,
            hidden_dropout_prob=dropout,
            attention_probs_dropout_prob=dropout,
        )
        options = optimization.OptimizerOptions(learning_rate=rate)
        (tmp_path / folder).mkdir(exist_ok=True)
        return training.Trainer(
            str(tmp_path / folder),
            training.TrainerOptions(
                **{
                    "save_checkpoints_steps": 3,
                    "iterations_per_loop": 1,
                    **changes,
                },
            ),
            strategy or tf.distribute.OneDeviceStrategy("/CPU:0"),
            training.Plan(
                lambda: pretraining.AlbertPretrainer(
                    modeling.AlbertModel(
                        config, precision=changes.get("precision", "float32")
                    )
                ),
                lambda: optimization.make_optimizer(
                    options, steps, 2, by_the_clock="max_minutes" in changes
                ),
                pretraining.OBJECTIVE,
            ),
            now,
        )

    return make


def train(trainer, steps, evaluate=None, key="loss", examples=EXAMPLES):
    """Train up to `steps`; returns the log."""
    return train_on(
        batches(trainer.step, examples), trainer, steps, evaluate, key
    )


def train_on(dataset, trainer, steps, evaluate=None, key="loss"):
    log = run_log.RunLog(trainer.output_dir, BATCH)
    log.start(trainer.step, steps, {})
    trainer.train(dataset, steps, log, evaluate, key)
    return log


def state(trainer):
    return [
        value.numpy()
        for value in [*trainer.model.variables, *trainer.optimizer.variables]
    ]


def test_interrupted_run_equals_an_uninterrupted_one(make_trainer):
    whole = make_trainer("whole", dropout=0.1)
    whole_log = train(whole, STEPS)
    train(make_trainer("parts", dropout=0.1), 3)
    resumed = make_trainer("parts", dropout=0.1)
    assert resumed.step == 3 and resumed.resumed_from.endswith("model.ckpt-3")
    resumed_log = train(resumed, STEPS)
    for one, other in zip(state(whole), state(resumed), strict=True):
        np.testing.assert_array_equal(one, other)
    expected = whole_log.column("train", "loss")
    assert resumed_log.column("train", "loss") == expected
    assert len(expected) == STEPS


@pytest.mark.parametrize(
    ("replicas", "parts"), [(2, 1), (1, 2), (1, 4), (2, 2)]
)
def test_replicas_and_parts_do_not_change_the_update(
    make_trainer, replicas, parts
):
    one, other = (
        make_trainer("one"),
        make_trainer(
            "other",
            strategy=make_replicas(replicas),
            gradient_accumulation_steps=parts,
        ),
    )
    one_log, other_log = train(one, 3), train(other, 3)
    assert_same_updates((one, one_log), (other, other_log))


def assert_same_updates(one, other):
    """Each a trainer and its log."""
    for name in ("loss", "masked_lm_loss", "gradient_norm"):
        np.testing.assert_allclose(
            *(log.column("train", name) for _, log in (one, other)),
            rtol=LOSS_RTOL,
        )
    moments = (trainer.optimizer.adam_m for trainer, _ in (one, other))
    for ours, theirs in zip(*moments, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-7)


def test_a_fused_loss_does_not_change_the_update(make_trainer, monkeypatch):
    plain = make_trainer("plain")
    plain_log = train(plain, 3)
    fused, shapes = elementwise.fused_cross_entropy, []

    def noted(logits, labels):
        shapes.append(logits.shape)
        return fused(logits, labels)

    monkeypatch.setattr(elementwise, "fused_cross_entropy", noted)
    monkeypatch.setattr(objectives, "FUSED_FROM_CLASSES", 400)
    other = make_trainer(
        "fused", strategy=make_replicas(), gradient_accumulation_steps=2
    )
    other_log = train(other, 3)
    # The two words of one example; of sentence orders there are too few.
    assert set(map(tuple, shapes)) == {(2, 400)}
    assert_same_updates((plain, plain_log), (other, other_log))


def test_other_replicas_go_on_with_the_same_order_of_examples(
    make_trainer, tmp_path
):
    layout = records.pretraining_layout(8, 2)
    path = str(tmp_path / "all.tfrecord")
    rows = {**EXAMPLES, "token_boundary": EXAMPLES["input_mask"]}
    with records.ShardedWriter([path]) as writer:
        for number in range(BATCH * STEPS):
            row = {f.name: rows[f.name][number] for f in layout}
            writer.write(records.encode(layout, row))

    def go_on(trainer):
        dataset = inputs.training_dataset(
            [path], layout, BATCH, seed=1, first_step=trainer.step
        )
        log = train_on(dataset, trainer, STEPS)
        return log.column("train", "loss")

    expected = go_on(make_trainer())
    for last in (tmp_path / "run").glob("model.ckpt-6*"):
        last.unlink()
    resumed = make_trainer(strategy=make_replicas())
    assert resumed.step == 3
    np.testing.assert_allclose(go_on(resumed), expected, rtol=LOSS_RTOL)


def test_training_lowers_the_loss_logs_its_rates_and_saves(
    make_trainer, tmp_path
):
    one_batch = {name: value[:BATCH] for name, value in EXAMPLES.items()}
    log = train(
        make_trainer(rate=0.03, save_checkpoints_steps=4),
        STEPS,
        examples=one_batch,
    )
    losses = [value for _, value in log.column("train", "loss")]
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)  # The first rate: 0.
    assert losses[-1] < losses[1]
    rates = [value for _, value in log.column("train", "learning_rate")]
    shares = [0, 1 / 2, 1 - 2 / 6, 1 - 3 / 6, 1 - 4 / 6, 1 - 5 / 6]
    np.testing.assert_allclose(rates, np.array(shares) * 0.03, rtol=1e-6)
    found = {path.name for path in (tmp_path / "run").glob("*.index")}
    assert found == {"model.ckpt-4.index", "model.ckpt-6.index"}


def test_evaluation_does_not_depend_on_the_batch_size(make_trainer):
    trainer = make_trainer()
    results = [trainer.evaluate(padded(10, size)) for size in (1, 3, 10, 16)]
    for result in results[1:]:
        assert result.keys() == results[0].keys()
        for name, value in result.items():
            # Every batch adds the epsilon of the masked-word loss once.
            assert value == pytest.approx(results[0][name], rel=LOSS_RTOL)


def test_evaluation_on_replicas_equals_one_device(make_trainer):
    mirrored = make_replicas()
    one = make_trainer("one").evaluate(padded(6, 4))
    two = make_trainer("two", strategy=mirrored).evaluate(padded(6, 4))
    assert two == pytest.approx(one, rel=LOSS_RTOL)


@pytest.mark.parametrize("replicas", [1, 2])
def test_prediction_returns_real_examples_in_order(make_trainer, replicas):
    trainer = make_trainer(strategy=make_replicas(replicas))
    outputs = trainer.predict(padded(6, 4))
    expected = trainer.model({k: v[:6] for k, v in EXAMPLES.items()})
    for name, value in expected.items():
        np.testing.assert_allclose(outputs[name], value, atol=1e-5)


def test_prediction_of_nothing_is_an_error(make_trainer):
    with pytest.raises(errors.UserError, match="no examples to predict"):
        make_trainer().predict(padded(4, 4).take(0))


@pytest.mark.parametrize(
    ("name", "numbers"),
    [("score", [0.1, 0.7, 0.3]), ("masked_lm_loss", [0.3, 0.1, 0.7])],
)
def test_best_checkpoint_is_that_of_the_best_evaluation(
    make_trainer, name, numbers
):
    trainer = make_trainer(save_checkpoints_steps=2)
    left = iter(numbers)
    train(trainer, STEPS, lambda: {name: next(left)}, name)
    best = checkpoints.find(trainer.output_dir)
    assert best.endswith("model.ckpt-best")
    steps = [
        int(
            tf.train.load_variable(
                path, "optimizer/_iterations/.ATTRIBUTES/VARIABLE_VALUE"
            )
        )
        for path in (best, f"{trainer.output_dir}/model.ckpt-4")
    ]
    assert steps == [4, 4]
    trainer.restore_best()
    assert trainer.step == 4


def test_restoring_the_best_of_an_empty_folder_is_an_error(make_trainer):
    with pytest.raises(errors.UserError, match="no checkpoint to evaluate"):
        make_trainer().restore_best()


def spoiled(*steps):
    """The examples, with a weight that is no number in some batches."""
    weights = EXAMPLES["masked_lm_weights"].copy()
    for step in steps:
        weights[BATCH * step] = np.nan
    return {**EXAMPLES, "masked_lm_weights": weights}


@pytest.mark.parametrize("replicas", [1, 2])
def test_updates_that_are_not_finite_are_skipped(make_trainer, replicas):
    trainer = make_trainer(strategy=make_replicas(replicas))
    log = train(trainer, 2, examples=spoiled(2))
    before = state(trainer)
    train(trainer, 3, examples=spoiled(2))
    assert trainer.step == 3  # The step counts, for schedule and data.
    changed = [
        (one != other).any()
        for one, other in zip(before, state(trainer), strict=True)
    ]
    assert sum(changed) == 1  # The counter of steps.
    log = train(trainer, STEPS, examples=spoiled(2))
    assert [step for step, _ in log.column("train", "loss")] == [1, 2, 4, 5, 6]
    assert all(np.isfinite(value).all() for value in state(trainer))


def test_one_skipped_update_among_others_is_logged(make_trainer):
    trainer = make_trainer(iterations_per_loop=3)
    log = train(trainer, 3, examples=spoiled(1))
    assert log.column("train", "skipped_updates") == [(3, 1.0)]
    losses = train(make_trainer("good"), 1).column("train", "loss")
    assert np.isfinite(log.column("train", "loss")[0][1])
    assert losses


def test_too_many_skipped_updates_in_a_row_stop_the_run(make_trainer):
    trainer = make_trainer(save_checkpoints_steps=2, max_skipped_updates=2)
    with pytest.raises(
        errors.UserError, match=r"last 2 updates before step 5.*model\.ckpt-4"
    ):
        train(trainer, STEPS, examples=spoiled(1, 3, 4))
    assert make_trainer().step == 4
    weights = make_trainer().model.get_weights()
    assert all(np.isfinite(value).all() for value in weights)


def test_float16_finds_a_scale_for_its_loss(make_trainer):
    trainer = make_trainer(precision="float16", rate=0.03)
    trainer._guard.loss_scale.assign(2.0**24)  # Too much for the first steps.
    examples = {name: value[:BATCH] for name, value in EXAMPLES.items()}
    log = train(trainer, 40, examples=examples)
    scale = float(trainer._guard.loss_scale.numpy())
    skipped = int(trainer._guard.skipped.numpy())
    assert skipped and scale == 2.0 ** (24 - skipped)
    losses = [value for _, value in log.column("train", "loss")]
    assert len(losses) == 40 - skipped and np.isfinite(losses).all()


def test_low_precision_follows_float32(make_trainer):
    expected = train(make_trainer("f32"), 4).column("train", "loss")
    trainer = make_trainer("bf16", precision="bfloat16")
    actual = train(trainer, 4).column("train", "loss")
    np.testing.assert_allclose(actual, expected, rtol=5e-3)
    assert {v.dtype for v in trainer.model.variables} == {tf.float32}


def test_chunks_leave_no_trace(make_trainer, monkeypatch):
    logs = []
    for folder, seconds in (("fast", 1e9), ("slow", 0.0)):
        monkeypatch.setattr(training, "CHUNK_SECONDS", seconds)
        trainer = make_trainer(folder, iterations_per_loop=3)
        logs.append(train(trainer, STEPS).column("train", "loss"))
    assert logs[0] == logs[1]


def test_a_damaged_newest_checkpoint_is_left_for_the_one_before(
    make_trainer, tmp_path, caplog
):
    whole = make_trainer("whole")
    train(whole, STEPS)
    train(make_trainer(), STEPS)
    data = tmp_path / "run" / "model.ckpt-6.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:-100])
    (tmp_path / "run" / "checkpoint").write_text("")
    trainer = make_trainer()
    assert trainer.step == 3
    (warning,) = caplog.messages
    assert "model.ckpt-6 cannot be read" in warning
    assert warning.endswith("Trying the one before.")
    train(trainer, STEPS)
    assert "run/checkpoint is damaged" in caplog.text
    for one, other in zip(state(whole), state(make_trainer()), strict=True):
        np.testing.assert_array_equal(one, other)


def test_checkpoints_outside_of_the_folder_are_not_deleted(
    make_trainer, tmp_path
):
    train(make_trainer(), 3)
    (tmp_path / "other").mkdir()
    others = [
        tmp_path / "other" / f"model.ckpt-best{ending}"
        for ending in (".index", ".data-00000-of-00001")
    ]
    for path in others:
        path.write_text("another run's")
    (tmp_path / "run" / "checkpoint").write_text(
        'model_checkpoint_path: "model.ckpt-3"\n'
        f'all_model_checkpoint_paths: "{tmp_path}/other/model.ckpt-best"\n'
        'all_model_checkpoint_paths: "model.ckpt-3"\n'
        "all_model_checkpoint_timestamps: 1.0\n"
        "all_model_checkpoint_timestamps: 2.0\n"
    )
    train(make_trainer(keep_checkpoint_max=1), STEPS)
    assert all(path.exists() for path in others)
    kept = checkpoints.numbered(str(tmp_path / "run"))
    assert kept == [str(tmp_path / "run" / "model.ckpt-6")]


def test_who_only_evaluates_leaves_the_list_of_checkpoints(
    make_trainer, tmp_path
):
    train(make_trainer(), 3)
    state = tmp_path / "run" / "checkpoint"
    state.write_text("")  # Damaged.
    make_trainer().evaluate(padded(4, BATCH))
    assert state.read_text() == ""


def test_what_killed_saves_left_is_removed_at_the_next_start(
    make_trainer, tmp_path
):
    folder = tmp_path / "run"
    train(make_trainer(), 3)
    left = ["model.ckpt-5_temp", "model.ckpt-best_temp"]
    others = ["model.ckpt-mine_temp", "notes_temp", "model.ckpt-7_temp_too"]
    for name in left + others:
        (folder / name).mkdir()
        (folder / name / "part-00000-of-00001.index").write_text("")
    (folder / f"checkpoint.tmp{'0a' * 16}").write_text("")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").write_text("")
    (folder / "model.ckpt-8_temp").symlink_to("../elsewhere")
    trainer = make_trainer()
    train(trainer, STEPS, lambda: {"loss": 1.0})
    names = {path.name for path in folder.iterdir()}
    assert not names & set(left)
    assert not [name for name in names if name.startswith("checkpoint.tmp")]
    assert names > set(others)
    assert (tmp_path / "elsewhere" / "file").exists()


def test_a_follower_leaves_what_the_training_is_saving(tmp_path):
    for name in ("model.ckpt-5_temp", "model.ckpt-best_temp"):
        (tmp_path / name).mkdir()
    checkpoints.remove_unfinished(str(tmp_path), numbered=False)
    assert [path.name for path in tmp_path.iterdir()] == ["model.ckpt-5_temp"]


@pytest.mark.parametrize("kept", [0, 100, -1])
def test_a_truncated_index_is_damage_too(make_trainer, tmp_path, caplog, kept):
    train(make_trainer(save_checkpoints_steps=1), 2)
    index = tmp_path / "run" / "model.ckpt-2.index"
    index.write_bytes(index.read_bytes()[:kept])
    assert make_trainer().step == 1
    assert "model.ckpt-2 cannot be read" in caplog.text
    index.with_name("model.ckpt-1.index").write_bytes(b"")
    with pytest.raises(errors.UserError, match="No checkpoint in .* can be"):
        make_trainer()


def test_a_folder_of_damaged_checkpoints_is_refused(make_trainer, tmp_path):
    train(make_trainer(), 3)
    data = tmp_path / "run" / "model.ckpt-3.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:100])
    with pytest.raises(errors.UserError, match="No checkpoint in .* can be"):
        make_trainer()


def test_the_time_that_is_up_ends_the_schedule(make_trainer):
    def now():
        """A tenth of a second for a step; two more to compile the first."""
        return 1000 + trainer.step / 10 + 2 * (trainer.step > 0)

    how = {"max_minutes": 6 / 60, "steps": 1000, "rate": 0.01}
    trainer = make_trainer(now=now, **how)
    log = train(trainer, 1000)
    assert trainer.step == 40
    rates = dict(log.column("train", "learning_rate"))
    # As in a run of 40 steps; before 40 the trainer sees that it is the last.
    for step in (11, 21, 39):
        assert rates[step] == pytest.approx(0.01 * (1 - (step - 1) / 40))
    again = make_trainer(**how)
    assert again.step == trainer.step
    assert float(again.optimizer.pace) == float(trainer.optimizer.pace) > 1
    assert float(again._elapsed) == 6
    train(again, 1000)
    assert again.step == trainer.step  # No time is left.


def test_rates_and_the_end_follow_from_the_time_given(make_trainer, capsys):
    """Three steps a line, two seconds each; three more are to come."""
    trainer = make_trainer(iterations_per_loop=3, now=lambda: trainer.step * 2)
    train(trainer, STEPS)
    lines = [
        line for line in capsys.readouterr().out.splitlines() if "train" in line
    ]
    assert len(lines) == 2
    assert "2.0 examples/s  ETA 0:00:06" in lines[0]


def test_half_written_checkpoint_is_passed_over(make_trainer, tmp_path):
    train(make_trainer(), 3)
    (tmp_path / "run" / "model.ckpt-6.data-00000-of-00001").write_bytes(b"x")
    assert make_trainer().step == 3


@pytest.mark.parametrize(
    "name",
    ["iterations_per_loop", "save_checkpoints_steps", "keep_checkpoint_max"],
)
def test_wrong_options_are_refused(name):
    with pytest.raises(errors.UserError, match=f"--{name}=0 is below 1"):
        training.TrainerOptions(**{name: 0})


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"max_minutes": -1.0}, "is below 0"),
        ({"profile_steps": "20,10"}, "not two steps"),
        ({"profile_steps": "some"}, "not two steps"),
        ({"profile_steps": "5,²"}, "not two steps"),
    ],
)
def test_other_wrong_options_are_refused(option, message):
    with pytest.raises(errors.UserError, match=message):
        training.TrainerOptions(**option)


def test_the_profiler_runs_between_its_steps(make_trainer, tmp_path):
    trainer = make_trainer(profile_steps="2,4", iterations_per_loop=100)
    train(trainer, STEPS)
    assert list((tmp_path / "run" / "plugins" / "profile").iterdir())
