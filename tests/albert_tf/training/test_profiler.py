"""The profiler."""

from tests.albert_tf.training import tiny_training


def test_the_profiler_runs_between_its_steps(make_trainer, tmp_path):
    trainer = make_trainer(profile_steps="2,4", iterations_per_loop=100)
    tiny_training.train(trainer, tiny_training.STEPS)
    assert list((tmp_path / "run" / "plugins" / "profile").iterdir())
