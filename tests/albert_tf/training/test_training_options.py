"""Options of training and devices; refusals: test_option_refusals.py."""

import pytest

from albert_tf.training import processors, training_options
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


@pytest.mark.parametrize(
    ("line", "expected", "reason"),
    [
        ("flags : avx2 avx512f avx512_bf16 fma", "bfloat16", "avx512_bf16."),
        ("flags\t\t: avx512f amx_bf16 avx512_bf16", "bfloat16", "amx_bf16."),
        ("Features : fp asimd bf16", "bfloat16", "bf16."),
        ("flags : sse4_2 avx2 fma", "float32", "none of amx_bf16,"),
        ("model name : bf16", "float32", "none of amx"),
        (None, "float32", "none of amx"),
        ("device", "bfloat16", ""),
    ],
)
def test_the_precision_is_that_of_the_processor(
    tmp_path, caplog, line, expected, reason
):
    caplog.set_level("INFO")
    path = tmp_path / "cpuinfo"
    if line:
        path.write_text(f"processor : 0\n{line}\n")
    (tmp_path / ("nvidia0" if line == "device" else "null")).touch()
    devices = [f"{tmp_path}/nvidia[0-9]*"]
    assert processors.choose_precision(str(path), devices) == expected
    reason = reason or f"{tmp_path}/nvidia0."
    assert f"auto: {expected}, since this machine has {reason}" in caplog.text


@pytest.mark.parametrize("make", [TRAINER, training_options.UpdateOptions])
def test_a_run_keeps_what_was_chosen(monkeypatch, make):
    monkeypatch.setattr(processors, "choose_precision", lambda: "float16")
    assert make(precision="auto").precision == "float16"
    assert make(precision="bfloat16").precision == "bfloat16"
