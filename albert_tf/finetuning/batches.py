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


def featurize(
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
        split: The split of the examples.

    Yields:
        By name [batch_size, *shape], int32 and float32; and the indices of the
        records in the first rows, int64 [records].
    """
    blocks = list(task.featurize(examples, split))
    records = {
        name: np.concatenate([empty, *(b[name] for b in blocks)]).astype(
            empty.dtype
        )
        for name, empty in _zeros(task, 0, split).items()
    }
    layout = task.layout(split)
    sequences = lengths.sequence_features(layout)
    record_lengths = np.zeros(len(records[layout[0].name]), np.int64)
    if sequences:
        sums = records["input_mask"].sum(-1)
        record_lengths = sums.max(tuple(range(1, sums.ndim)), initial=0)
    order = np.argsort(-record_lengths, kind="stable")
    for start in range(0, len(order), batch_size):
        indices = order[start : start + batch_size]
        longest = record_lengths[indices[0]]
        batch = {}
        for name, values in records.items():
            if name in sequences:
                allowed = lengths.allowed(
                    shortest or task.shortest, values.shape[-1]
                )
                length = allowed[np.searchsorted(allowed, longest)]
                values = values[..., :length]
            batch[name] = np.zeros(
                (batch_size, *values.shape[1:]), values.dtype
            )
            batch[name][: len(indices)] = values[indices]
        yield batch, indices


def run_model(
    model: Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]],
    task: base.Task,
    examples: Sequence[base.Example],
    batch_size: int,
    shortest: int | None = None,
    *,
    split: str = base.PREDICT,
) -> base.Outputs:
    """Run a model on all records of examples; return the outputs in order.

    If the examples have no record, outputs have the right shape and no rows.
    """
    batch_outputs, batch_indices = [], [np.zeros(0, np.int64)]
    for batch, indices in featurize(
        task, examples, batch_size, shortest, split
    ):
        outputs = model(batch)
        batch_outputs.append({k: v[: len(indices)] for k, v in outputs.items()})
        batch_indices.append(indices)
    if not batch_outputs:
        empty = model(_zeros(task, batch_size, split))
        batch_outputs = [{name: values[:0] for name, values in empty.items()}]
    joined = evaluation.concatenate(batch_outputs, task.output_widths)
    order = np.argsort(np.concatenate(batch_indices))
    return {name: values[order] for name, values in joined.items()}


def _zeros(task: base.Task, batch_size: int, split: str) -> Batch:
    """Return a batch of full length: dtypes and shapes without any record."""
    dtypes = {"int64": np.int32, "float32": np.float32}
    return {
        feature.name: np.zeros(
            (batch_size, *feature.shape), dtypes[feature.dtype]
        )
        for feature in task.layout(split)
    }
