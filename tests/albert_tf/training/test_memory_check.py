"""What the machine has, and what is said about steps that need more."""

import types

import pytest
import tensorflow as tf

from albert_tf.common import errors
from albert_tf.training import memory_check

GIB = 2**30
MEMINFO = """MemTotal:       33554432 kB
MemAvailable:    8388608 kB
SwapFree:        1048576 kB
HugePages_Total:       0
"""
STATUS = "Name:\tpython\nVmRSS:\t  524288 kB\n"


def write(folder, **files):
    for name, text in {
        "proc/meminfo": MEMINFO,
        "proc/self/status": STATUS,
        "proc/self/cgroup": "0::/\n",
        **files,
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(folder)


def free(folder, **files):
    return memory_check.free_host_memory(write(folder, **files)) / GIB


def test_without_a_limit_all_that_the_system_has_left(tmp_path):
    assert free(tmp_path) == 8 + 1 + 0.5


def test_version_2_of_cgroups_limits(tmp_path):
    files = {
        "sys/fs/cgroup/memory.max": f"{4 * GIB}\n",
        "sys/fs/cgroup/memory.current": f"{3 * GIB}\n",
        "sys/fs/cgroup/memory.stat": f"anon 7\ninactive_file {GIB}\n",
    }
    assert free(tmp_path, **files) == 4 - 3 + 1 + 0.5


def test_the_tightest_cgroup_around_the_process_counts(tmp_path):
    files = {"proc/self/cgroup": "0::/outer/inner\n"}
    for name, limit in (("outer", str(2 * GIB)), ("outer/inner", "max")):
        top = f"sys/fs/cgroup/{name}"
        files |= {
            f"{top}/memory.max": f"{limit}\n",
            f"{top}/memory.current": f"{GIB}\n",
            f"{top}/memory.stat": "anon 7\n",
        }
    assert free(tmp_path, **files) == 1 + 0.5


def test_version_1_of_cgroups_limits(tmp_path):
    top = "sys/fs/cgroup/memory/job"
    files = {
        "proc/self/cgroup": "5:cpu:/x\n4:memory:/job\n",
        f"{top}/memory.limit_in_bytes": f"{2 * GIB}\n",
        f"{top}/memory.usage_in_bytes": f"{GIB}\n",
        f"{top}/memory.stat": "inactive_file 0\n",
    }
    assert free(tmp_path, **files) == 1 + 0.5


def test_of_several_gpus_the_smallest_counts(monkeypatch):
    names = [f"/job:localhost/replica:0/task:0/device:GPU:{i}" for i in (0, 1)]
    extended = types.SimpleNamespace(worker_devices=names)
    strategy = types.SimpleNamespace(extended=extended)
    devices = [
        types.SimpleNamespace(device_type=kind, memory_limit=size)
        for kind, size in (("CPU", 1), ("GPU", 3 * GIB), ("GPU", 2 * GIB))
    ]
    monkeypatch.setattr(
        memory_check.device_lib, "list_local_devices", lambda: devices
    )
    assert memory_check.free_memory(strategy) == 2 * GIB
    assert memory_check.sharing(strategy) == 1


def test_of_tpus_nothing_is_known():
    extended = types.SimpleNamespace(worker_devices=["/device:TPU:0"])
    strategy = types.SimpleNamespace(extended=extended)
    assert memory_check.free_memory(strategy) is None


def test_other_systems_are_not_known(tmp_path):
    assert memory_check.free_host_memory(str(tmp_path)) is None


def test_this_machine_is_known():
    assert memory_check.free_host_memory() > 2**20


@pytest.fixture
def say(monkeypatch, caplog):
    """Checks a step of so many GiB where 10 are free; returns what is said."""

    def check(need, room=10):
        monkeypatch.setattr(
            memory_check, "free_host_memory", lambda: room and room * GIB
        )
        needed = {"the head": GIB, "the logits": int((need - 1) * GIB)}
        caplog.clear()
        memory_check.check(
            tf.distribute.OneDeviceStrategy("/CPU:0"),
            needed,
            "train_batch_size",
            4096,
        )
        return [(r.levelname, r.getMessage()) for r in caplog.records]

    caplog.set_level("INFO", "absl")
    return check


def test_what_a_step_needs_is_one_line(say):
    assert say(7.9) == [
        (
            "INFO",
            "Memory for a training step: about 7.9 GiB; 10.0 GiB are free.",
        )
    ]


def test_unknown_memory_is_said(say):
    assert say(1000, room=None) == [
        (
            "INFO",
            "Memory for a training step: about 1,000.0 GiB; what is free is "
            "not known.",
        )
    ]


@pytest.mark.parametrize("need", [8.1, 14.9])
def test_near_the_limit_there_is_a_warning(say, need):
    (_, (level, message)) = say(need)
    assert level == "WARNING"
    assert message == (
        f"`train_batch_size=4096`: a training step needs about {need} GiB of "
        f"memory, {need - 1:.1f} GiB of it for the logits, and 10.0 GiB are "
        "free. Use a smaller `train_batch_size` or `max_seq_length`, a larger "
        "`gradient_accumulation_steps` or `recompute`."
    )


def test_far_beyond_it_is_refused(say):
    with pytest.raises(
        errors.UserError, match=r"needs about 15.1 GiB .*logits"
    ):
        say(15.1)
