"""The size of an export, and its score on a development file."""

import os
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from albert_tf.finetuning import base, batches

# Batches of a task's features to outputs, by name.
Ask = Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]]

_BATCH_SIZE = 32
# Large, and no task looks at them.
_LEFT_OUT = ("sequence_output", "pooled_output")


def num_bytes(folder: str) -> int:
    """Return how many bytes all files of a folder have."""
    return sum(
        os.path.getsize(os.path.join(path, name))
        for path, _, names in os.walk(folder)
        for name in names
    )


def score(
    ask: Ask, task: base.Task, examples: Sequence[base.Example]
) -> dict[str, float]:
    """Return the task's metrics for what an export says.

    Args:
        ask: Takes int32 inputs by name; returns at least what the task's model
            does.
    """

    def ask_without(batch: Mapping[str, np.ndarray]) -> base.Outputs:
        return {k: v for k, v in ask(batch).items() if k not in _LEFT_OUT}

    # Some formats have a fixed length.
    outputs = batches.ask(
        ask_without, task, examples, _BATCH_SIZE, task.max_seq_length
    )
    return task.score(outputs, examples)
