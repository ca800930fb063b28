"""Options that several commands have, each declared once."""

from typing import Any

from albert_tf.common import configs, ranges
from albert_tf.common.options import option


def max_seq_length(note: str) -> Any:
    """Return the option `--max_seq_length`; the note is a part of its help."""
    return option(
        512, f"Tokens per example ({note}).", within=ranges.TOKENS_OF_TASK
    )


def albert_config_file(**settings: Any) -> Any:
    return option(
        help="JSON file with the architecture, or a released model such as "
        "albert_base_v2.",
        must_exist=True,
        names=configs.config_names,
        **settings,
    )


def task_module() -> Any:
    return option(
        None, "The --task_module of --run_dir, if it had one.", needs="run_dir"
    )


def batch_size(default: int, unit: str = "step") -> Any:
    """Return an option for a batch size.

    Args:
        unit: "step" of training or another word for the help. Only the size of
            training batches changes results; others may change in a restart.
    """
    return option(
        default,
        f"Examples per {unit}, all replicas.",
        within=ranges.BATCH,
        may_change=unit != "step",
    )


def num_workers() -> Any:
    return option(0, "Processes; 0 is one per core.", within=ranges.PROCESSES)


def overwrite(target: str) -> Any:
    """Return the option `--overwrite`; `target` names what is replaced."""
    return option(False, f"Whether an existing {target} may be replaced.")
