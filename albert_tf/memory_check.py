"""Compare what a step needs with the memory there is, before the first one.

A product whose result finds no memory ends TensorFlow 2.20 with a segmentation
fault on CPUs: oneDNN's fused product does not look whether it got any.
"""

import dataclasses
import pathlib

import tensorflow as tf
from absl import logging
from tensorflow.python.client import device_lib

from albert_tf import errors, step_memory

# From this share of the memory on there is a warning.
_NEAR = 0.8
# Estimates are right within this factor; what needs more is refused.
_ACCURACY = 1.5
_LIMITS = (  # Of cgroups, versions 2 and 1: limit, usage.
    ("memory.max", "memory.current"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes"),
)


@dataclasses.dataclass(frozen=True)
class Step:
    """A kind of step that a run makes.

    Attributes:
        name: Such as "a training step".
        parts: What it needs, from `step_memory.Work`.
        option: Name of the option that gives its batch.
        batch: Its value.
        advice: What else needs less memory.
    """

    name: str
    parts: dict[str, int]
    option: str
    batch: int
    advice: str = ""


def training_step(parts: dict[str, int], batch: int) -> Step:
    """Return the step of a training run.

    Args:
        parts: What it needs, from `step_memory.Work.training`.
        batch: The `train_batch_size`.
    """
    return Step(
        "a training step",
        parts,
        "train_batch_size",
        batch,
        ", a larger --gradient_accumulation_steps or --recompute",
    )


def sharing(strategy: tf.distribute.Strategy) -> int:
    """Return how many replicas share one memory."""
    return len(_devices(strategy, "CPU")) or 1


def check(strategy: tf.distribute.Strategy, step: Step) -> None:
    """Say what a step needs; warn near the limit, refuse far beyond.

    Args:
        strategy: The devices.
        step: What is to be done on them.

    Raises:
        errors.UserError: The devices have far less memory.
    """
    need, room = step_memory.total(step.parts), free_memory(strategy)
    free = f"{_gib(room)} are free" if room else "what is free is not known"
    logging.info("Memory for %s: about %s; %s.", step.name, _gib(need), free)
    if room is None or need < _NEAR * room:
        return
    largest = max(step.parts, key=lambda name: step.parts[name])
    message = (
        f"--{step.option}={step.batch}: {step.name} needs about "
        f"{_gib(need)} of memory, {_gib(step.parts[largest])} of it for "
        f"{largest}, and {_gib(room)} are free. Use a smaller "
        f"--{step.option} or --max_seq_length{step.advice}."
    )
    if need > _ACCURACY * room:
        raise errors.UserError(message)
    logging.warning("%s", message)


def free_memory(strategy: tf.distribute.Strategy) -> int | None:
    """Return the bytes that the devices of a strategy can still give.

    Of several the smallest; None where it is not known, as for TPUs.
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
        rooms = [available["MemAvailable"] + available["SwapFree"]]
        rooms += map(_left, _cgroups(folder))
    except (OSError, KeyError, ValueError):
        return None
    return own + min(rooms)


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
