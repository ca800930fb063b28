"""What the processor of this machine multiplies in."""

import contextlib
import glob
from collections.abc import Sequence

from absl import logging

AUTO = "auto"
# Names of instructions for matrix products in bfloat16, of x86 and of ARM.
_BFLOAT16 = "amx_bf16", "avx512_bf16", "bf16"
_ACCELERATORS = "/dev/nvidia[0-9]*", "/dev/accel*"  # GPUs, TPUs.


def choose_precision(
    cpu_info: str = "/proc/cpuinfo",
    accelerators: Sequence[str] = _ACCELERATORS,
) -> str:
    """Return bfloat16 where matrix products in it are fast, else float32.

    That is on TPUs, on GPUs (those before 2020 excepted, which are not told
    apart), and on processors with instructions for it. The log says why.

    Args:
        cpu_info: The kernel's file about processors. Where there is none, as on
            macOS, the answer is float32.
        accelerators: Patterns of device files.
    """
    instructions: set[str] = set()
    with contextlib.suppress(OSError), open(cpu_info) as lines:
        for line in lines:
            if line.startswith(("flags", "Features")):
                instructions.update(line.split())
    devices = [path for pattern in accelerators for path in glob.glob(pattern)]
    names = [name for name in _BFLOAT16 if name in instructions]
    here = sorted(devices) + names
    precision = "bfloat16" if here else "float32"
    reason = here[0] if here else "none of " + ", ".join(_BFLOAT16)
    logging.info(
        "precision=%s: %s, since this machine has %s.", AUTO, precision, reason
    )
    return precision
