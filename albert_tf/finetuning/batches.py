"""Batches of examples in memory: for `predict`, and to score an export.

Training and evaluation read batches from files, see `data.inputs`. Both ways
group examples by length and pad to the lengths of `data.lengths`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from albert_tf.data import lengths
from albert_tf.finetuning import base
from albert_tf.training import evaluation

Batch = dict[str, np.ndarray]


def featurized(
    task: base.Task,
    examples: Sequence[base.Example],
    batch_size: int,
    shortest: int | None = None,
    split: str = base.PREDICT,
) -> Iterator[tuple[Batch, np.ndarray]]:
    """Yield batches of records of similar length.

    The longest records come first. Each batch is padded to one of the lengths
    of `lengths.allowed`; the last one is filled with rows of zeros.

    Args:
        shortest: See `lengths.allowed`. Default: the task's.
        split: That the examples are of.

    Yields:
        By name [batch_size, *shape], int32 and float32; and the numbers of the
        records, int64 [records], which are the first rows.
    """
    parts = list(task.featurize(examples, split))
    records = {
        name: np.concatenate([empty, *(part[name] for part in parts)]).astype(
            empty.dtype
        )
        for name, empty in _zeros(task, 0, split).items()
    }
    layout = task.layout(split)
    sequences = lengths.sequence_features(layout)
    sizes = np.zeros(len(records[layout[0].name]), np.int64)
    if sequences:
        sums = records["input_mask"].sum(-1)
        sizes = sums.max(tuple(range(1, sums.ndim)), initial=0)
    order = np.argsort(-sizes, kind="stable")
    for start in range(0, len(order), batch_size):
        numbers = order[start : start + batch_size]
        batch = {}
        for name, values in records.items():
            if name in sequences:
                allowed = lengths.allowed(
                    shortest or task.shortest, values.shape[-1]
                )
                length = allowed[np.searchsorted(allowed, sizes[numbers[0]])]
                values = values[..., :length]
            batch[name] = np.zeros(
                (batch_size, *values.shape[1:]), values.dtype
            )
            batch[name][: len(numbers)] = values[numbers]
        yield batch, numbers


def ask(
    model: Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]],
    task: base.Task,
    examples: Sequence[base.Example],
    batch_size: int,
    shortest: int | None = None,
    *,
    split: str = base.PREDICT,
) -> base.Outputs:
    """Return the outputs of a model for all records of examples, in order.

    Examples without any record have outputs of the right shape, without rows.
    """
    parts, record_numbers = [], [np.zeros(0, np.int64)]
    for batch, numbers in featurized(
        task, examples, batch_size, shortest, split
    ):
        outputs = model(batch)
        parts.append({k: v[: len(numbers)] for k, v in outputs.items()})
        record_numbers.append(numbers)
    if not parts:
        empty = model(_zeros(task, batch_size, split))
        parts = [{name: values[:0] for name, values in empty.items()}]
    joined = evaluation.concatenate(parts, task.output_widths)
    order = np.argsort(np.concatenate(record_numbers))
    return {name: values[order] for name, values in joined.items()}


def _zeros(task: base.Task, batch_size: int, split: str) -> Batch:
    kinds = {"int64": np.int32, "float32": np.float32}
    return {
        feature.name: np.zeros(
            (batch_size, *feature.shape), kinds[feature.dtype]
        )
        for feature in task.layout(split)
    }
