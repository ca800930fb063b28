"""Options of training and devices; refusals: test_option_refusals.py."""

from albert_tf.training import training_options
from tests.conftest import refused

TRAINER = training_options.TrainerOptions
DEVICES = training_options.DistributionOptions
TWO = {"worker_hosts": "a:1,b:2"}


def test_values_that_fit():
    usual = TRAINER(profile_steps="10,11")
    assert (usual.iterations_per_loop, usual.keep_checkpoint_max) == (1000, 5)
    assert (usual.save_checkpoints_steps, usual.max_minutes) == (5000, 0)
    several = {**TWO, "distribution_strategy": "multi_worker_mirrored"}
    assert DEVICES(task_index=1, **several).workers == ["a:1", "b:2"]
    for tpu in ({"use_tpu": True}, {"distribution_strategy": "tpu"}):
        assert DEVICES(tpu_name="local", **tpu).on_tpu
    assert not DEVICES().on_tpu
    training_options.check_warmup("warmup_step", 5, 5)
    with refused("`warmup_step=6` is more than"):
        training_options.check_warmup("warmup_step", 6, 5)


def test_the_next_stop_is_a_line_a_checkpoint_or_the_end():
    options = TRAINER(iterations_per_loop=4, save_checkpoints_steps=6)
    stops = [options.next_stop(step, 13) for step in (0, 3, 4, 6, 8, 11, 12)]
    assert stops == [4, 4, 6, 8, 12, 12, 13]
