"""Options of training and devices."""

import pytest

from albert_tf.common import errors
from albert_tf.training import training_options


@pytest.mark.parametrize(
    "name",
    ["iterations_per_loop", "save_checkpoints_steps", "keep_checkpoint_max"],
)
def test_wrong_options_are_refused(name):
    with pytest.raises(errors.UserError, match=f"`{name}=0` is below 1"):
        training_options.TrainerOptions(**{name: 0})


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
        training_options.TrainerOptions(**option)


@pytest.mark.parametrize(
    "options", [{"use_tpu": True}, {"distribution_strategy": "tpu"}]
)
def test_tpu_needs_a_name(options):
    with pytest.raises(errors.UserError, match="needs `tpu_name`"):
        training_options.DistributionOptions(**options)
    assert training_options.DistributionOptions(
        tpu_name="local", **options
    ).on_tpu


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"worker_hosts": "a,b"}, "not a list of different host:port"),
        ({"worker_hosts": "a:1,a:1"}, "not a list of different host:port"),
        ({"worker_hosts": "a:1, ,b:2"}, "not a list of different host:port"),
        ({"worker_hosts": "a:1,b:2"}, "needs `distribution_strategy=multi"),
        ({"task_index": 1}, "not the number of one of the 0"),
        (
            {
                "worker_hosts": "a:1,b:2",
                "task_index": 2,
                "distribution_strategy": "multi_worker_mirrored",
            },
            "not the number of one of the 2",
        ),
    ],
)
def test_wrong_workers_are_refused(values, message):
    with pytest.raises(errors.UserError, match=message):
        training_options.DistributionOptions(**values)


def test_the_next_stop_is_a_line_a_checkpoint_or_the_end():
    options = training_options.TrainerOptions(
        iterations_per_loop=4, save_checkpoints_steps=6
    )
    stops = [options.next_stop(step, 13) for step in (0, 3, 4, 6, 8, 11, 12)]
    assert stops == [4, 4, 6, 8, 12, 12, 13]


def test_a_warm_up_may_be_the_whole_run():
    training_options.check_warmup("warmup_step", 5, 5)
    with pytest.raises(errors.UserError, match="`warmup_step=6` is more than"):
        training_options.check_warmup("warmup_step", 6, 5)


def test_the_profile_is_two_steps():
    training_options.TrainerOptions(profile_steps="10,11")
    with pytest.raises(errors.UserError, match="=10,10` is not two steps"):
        training_options.TrainerOptions(profile_steps="10,10")
