"""What the processor of this machine multiplies in."""

import contextlib
import glob
from collections.abc import Sequence

import tensorflow as tf
from absl import logging

from albert_tf.common import options
from albert_tf.common.options import OptionsT
from albert_tf.training import run_folder, training_options

# Names of instructions for matrix products in bfloat16, of x86 and of ARM.
_BFLOAT16 = "amx_bf16", "avx512_bf16", "bf16"


def settle_precision(settings: OptionsT, output_dir: str) -> OptionsT:
    """Return options that name a precision in place of `auto`.

    That of the run that is continued, whatever the machine; of a new run, see
    `choose_precision`.
    """
    values = options.to_dict(settings)
    if values["precision"] != training_options.AUTO:
        return settings
    if folder := run_folder.find_first_run(output_dir):
        precision = run_folder.read(folder).options.get("precision", "float32")
        logging.info("precision=auto: %s, as in %s.", precision, folder)
    else:
        tpus = glob.glob("/dev/accel[0-9]*")
        gpus = [gpu.name for gpu in tf.config.list_physical_devices("GPU")]
        precision = choose_precision("/proc/cpuinfo", [*sorted(tpus), *gpus])
    return options.from_dict(
        type(settings), {**values, "precision": precision}, settings
    )


def choose_precision(cpu_info: str, devices: Sequence[str]) -> str:
    """Return bfloat16 where matrix products in it are fast, else float32.

    That is on TPUs, on GPUs (those before 2020 excepted, which are not told
    apart), and on processors with instructions for it. The log says why.

    Args:
        cpu_info: The kernel's file about processors. Where there is none, as on
            macOS, it counts as empty.
        devices: Names of TPUs and GPUs.
    """
    instructions: set[str] = set()
    with contextlib.suppress(OSError), open(cpu_info) as lines:
        for line in lines:
            if line.startswith(("flags", "Features")):
                instructions.update(line.split())
    here = [*devices, *(name for name in _BFLOAT16 if name in instructions)]
    precision = "bfloat16" if here else "float32"
    reason = here[0] if here else "none of " + ", ".join(_BFLOAT16)
    logging.info(
        "precision=auto: %s, since this machine has %s.", precision, reason
    )
    return precision
