"""Options that several commands have, each declared once."""

from typing import Any

from albert_tf.common import ranges
from albert_tf.common.options import option


def max_seq_length(note: str) -> Any:
    """Return the option `--max_seq_length`; the note is a part of its help."""
    return option(
        512, f"Tokens per example ({note}).", within=ranges.TOKENS_OF_TASK
    )


def batch_size(default: int, of: str = "step") -> Any:
    """Return an option for a number of examples.

    Args:
        of: What has so many. Only that of a training step is a part of the
            result, so any other may change when a run is continued.
    """
    return option(
        default,
        f"Examples per {of}, all replicas.",
        within=ranges.BATCH,
        may_change=of != "step",
    )


def num_workers() -> Any:
    """Return the option `--num_workers` or `--num_processes`."""
    return option(0, "Processes; 0 is one per core.", within=ranges.PROCESSES)


def overwrite(target: str) -> Any:
    """Return the option `--overwrite`; `target` names what is replaced."""
    return option(False, f"Whether an existing {target} may be replaced.")
