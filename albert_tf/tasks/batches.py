"""Examples to batches of arrays, without files."""

from collections.abc import Iterator, Sequence

import numpy as np

from albert_tf.tasks import base


def of_examples(
    task: base.Task, examples: Sequence[base.Example], batch_size: int
) -> Iterator[tuple[dict[str, np.ndarray], int]]:
    """Yield batches of records, the last one filled with zeros.

    Yields:
        By name [batch_size, *shape], int32 and float32, and how many of the
        rows are records.
    """
    names = [feature.name for feature in task.layout(base.PREDICT)]
    waiting = {name: [] for name in names}  # type: dict[str, list[np.ndarray]]
    for values in task.featurize(examples, base.PREDICT):
        for name in names:
            waiting[name].extend(values[name])
        while len(waiting[names[0]]) >= batch_size:
            yield _stack(waiting, batch_size), batch_size
    count = len(waiting[names[0]])
    if count:
        yield _stack(waiting, batch_size), count


def _stack(
    waiting: dict[str, list[np.ndarray]], size: int
) -> dict[str, np.ndarray]:
    """Take `size` rows away from the front; fewer are filled up with zeros."""
    batch = {}
    for name, rows in waiting.items():
        taken = np.stack(rows[:size])
        kind = np.int32 if taken.dtype.kind == "i" else np.float32
        batch[name] = np.zeros((size, *taken.shape[1:]), kind)
        batch[name][: len(taken)] = taken
        del rows[:size]
    return batch


def empty(task: base.Task, batch_size: int) -> dict[str, np.ndarray]:
    """Return a batch of zeros, as `of_examples` yields them."""
    kinds = {"int64": np.int32, "float32": np.float32}
    return {
        feature.name: np.zeros(
            (batch_size, *feature.shape), kinds[feature.dtype]
        )
        for feature in task.layout(base.PREDICT)
    }
