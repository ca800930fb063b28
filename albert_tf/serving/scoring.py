"""The scores of an export, asked as users ask it, and of the model itself."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.finetuning import base, batches

Inputs = Mapping[str, Any]
Ask = Callable[[Inputs], Mapping[str, np.ndarray]]

_BATCH_SIZE = 32
# Large, and no task looks at them.
_LEFT_OUT = ("sequence_output", "pooled_output")


def by_ids(
    ask: Ask,
    names: Sequence[str],
    task: base.Task,
    examples: Sequence[base.Example],
) -> dict[str, float]:
    def ask_batch(batch: Inputs) -> base.Outputs:
        outputs = ask({name: batch[name] for name in names})
        return {k: v for k, v in outputs.items() if k not in _LEFT_OUT}

    # Some formats have a fixed length.
    outputs = batches.run_model(
        ask_batch, task, task.asked(examples), _BATCH_SIZE, task.max_seq_length
    )
    return task.score_outputs(outputs, examples)


def to_inputs(
    names: Sequence[str], task: base.Task, examples: Sequence[base.Example]
) -> Sequence[Inputs]:
    """Return examples as inputs of a signature of ids, without padding.

    Each is a text (or window) of its own, [1, length].
    """
    requests = []
    for batch, _ in batches.featurize(task, task.asked(examples), batch_size=1):
        length = batch["input_mask"].sum(-1).max()
        requests.append({name: batch[name][..., :length] for name in names})
    return requests


def by_texts(
    ask: Ask, task: base.Task, examples: Sequence[base.Example]
) -> dict[str, float]:
    asked = task.asked(examples)
    answers = [
        ask(task.texts(asked[start : start + _BATCH_SIZE]))
        for start in range(0, len(asked), _BATCH_SIZE)
    ]
    return task.score_answers(answers, examples)
