"""Compare what a step needs with the memory there is, before the first one.

On CPUs, TensorFlow 2.20 ends with a segmentation fault where a matrix product
finds no memory: oneDNN's fused product does not check the allocation.
"""

import dataclasses
import pathlib

import tensorflow as tf
from absl import logging
from tensorflow.python.client import device_lib

from albert_tf.common import errors
from albert_tf.training import step_memory

TRAINING_OPTION = "train_batch_size"
# By the option of a batch: its name, and what else needs less memory.
_STEPS = {
    TRAINING_OPTION: (
        "a training step",
        " or `max_seq_length`, a larger `gradient_accumulation_steps` or "
        "`recompute`",
    ),
    # Of predict; its length is that of the model.
    "batch_size": ("a batch", ""),
}
# From this share of the memory on there is a warning.
_NEAR = 0.8
# Estimates are right within this factor; what needs more is refused.
_ACCURACY = 1.5
_LIMITS = (  # Of cgroups, versions 2 and 1: limit, usage.
    ("memory.max", "memory.current"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes"),
)


def check_batch(
    strategy: tf.distribute.Strategy,
    example: step_memory.Work,
    option: str,
    batch_size: int,
    microbatches: int = 1,
) -> None:
    """Check the memory of a batch: a training step, or a batch of inference.

    Args:
        strategy: The devices.
        example: One example.
        option: Name of the option that gives the batch; `train_batch_size`
            means training.
        batch_size: Its value, examples over all replicas.
        microbatches: The `gradient_accumulation_steps`.

    Raises:
        errors.UserError: See `check`.
    """
    shares = strategy.num_replicas_in_sync * microbatches
    work = dataclasses.replace(
        example,
        sequences=batch_size * example.sequences // shares,
        microbatches=microbatches,
        replicas=sharing(strategy),
    )
    is_training = option == TRAINING_OPTION
    needed = work.training() if is_training else work.inference()
    check(strategy, needed, option, batch_size)


def sharing(strategy: tf.distribute.Strategy) -> int:
    """Return how many replicas share one memory."""
    return len(_devices(strategy, "CPU")) or 1


def check(
    strategy: tf.distribute.Strategy,
    needed: dict[str, int],
    option: str,
    batch_size: int,
) -> None:
    """Log what a step needs; warn near the limit, refuse far above it.

    Args:
        strategy: The devices.
        needed: Bytes of each kind of tensor, from `step_memory.Work`.
        option: Name of the option that gives the batch.
        batch_size: Its value.

    Raises:
        errors.UserError: The devices have far less memory.
    """
    name, advice = _STEPS.get(
        option, (f"a batch of `{option}`", " or `max_seq_length`")
    )
    need, available = sum(needed.values()), free_memory(strategy)
    free = "what is free is not known"
    if available:
        free = f"{_gib(available)} are free"
    logging.info("Memory for %s: about %s; %s.", name, _gib(need), free)
    if available is None or need < _NEAR * available:
        return
    largest = max(needed, key=lambda kind: needed[kind])
    message = (
        f"`{option}={batch_size}`: {name} needs about {_gib(need)} of memory, "
        f"{_gib(needed[largest])} of it for {largest}, and {free}. Use a "
        f"smaller `{option}`{advice}."
    )
    if need > _ACCURACY * available:
        raise errors.UserError(message)
    logging.warning("%s", message)


def free_memory(strategy: tf.distribute.Strategy) -> int | None:
    """Return the bytes that are free on the devices of a strategy.

    Of several devices the smallest number; None where it is not known, as for
    TPUs.
    """
    if _devices(strategy, "CPU"):
        return free_host_memory()
    if not _devices(strategy, "GPU"):
        return None
    return min(
        device.memory_limit
        for device in device_lib.list_local_devices()
        if device.device_type == "GPU"
    )


def free_host_memory(root: str = "/") -> int | None:
    """Return the bytes that this process has and can still get on Linux.

    What the system and the cgroups around the process leave, swap included.

    Args:
        root: Folder with `proc` and `sys`.
    """
    folder = pathlib.Path(root)
    try:
        available = _table(folder / "proc/meminfo")
        own = _table(folder / "proc/self/status")["VmRSS"]
        limits = [available["MemAvailable"] + available["SwapFree"]]
        limits += map(_left, _cgroups(folder))
    except (OSError, KeyError, ValueError):
        return None
    return own + min(limits)


def _table(path: pathlib.Path) -> dict[str, int]:
    """Return the sizes in a file of lines such as "VmRSS:  4 kB", in bytes."""
    rows = (line.split() for line in path.read_text().splitlines())
    return {
        row[0].rstrip(":"): int(row[1]) * 1024 for row in rows if "kB" in row
    }


def _cgroups(root: pathlib.Path) -> list[pathlib.Path]:
    """Return the folders of those cgroups that may limit our memory."""
    found = []
    for line in (root / "proc/self/cgroup").read_text().splitlines():
        _, kind, path = line.split(":", 2)
        if kind not in ("", "memory"):
            continue
        top = root / "sys/fs/cgroup" / kind
        own = top / path.lstrip("/")
        # In a container, the path may be that outside of it.
        found += [f for f in (own, *own.parents) if f.is_relative_to(top)]
    return found


def _left(cgroup: pathlib.Path) -> int:
    """Return what a cgroup leaves; its cache of files counts as free."""
    for limit, usage in _LIMITS:
        if not (cgroup / limit).exists():
            continue
        most = (cgroup / limit).read_text().strip()
        used = int((cgroup / usage).read_text())
        rows = (cgroup / "memory.stat").read_text().splitlines()
        cache = dict(row.split() for row in rows).get("inactive_file", 0)
        if most != "max":
            return int(most) - used + int(cache)
    return 2**63


def _devices(strategy: tf.distribute.Strategy, kind: str) -> list[str]:
    devices = strategy.extended.worker_devices
    return [
        device
        for device in devices
        if tf.DeviceSpec.from_string(device).device_type == kind
    ]


def _gib(size: float) -> str:
    return f"{size / 2**30:,.1f} GiB"
