"""Tables whose label is a number of any size."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.common import errors
from albert_tf.finetuning import base, held_out, tables
from albert_tf.finetuning.glue.glue_data import TextExample


class RegressionTask(tables.TableTask):
    """A number for each row.

    The head's output is in units of `deviation` from `mean`; the model
    multiplies and adds them, so that all outputs are in the column's units.
    """

    metrics: Sequence[str] = ("pearson", "spearmanr", "mae", "rmse")

    def __init__(self, *args: Any):
        super().__init__(*args)
        self.mean, self.deviation = self.options.scale

    def _labels(self, read: Sequence[Any]) -> Sequence[Any]:
        return [row.labels[0] for row in read]

    def _count(self, examples: Sequence[TextExample], path: str) -> None:
        # As records have them.
        numbers = np.array([e.label for e in examples], np.float32)
        if np.ptp(numbers) == 0:
            raise errors.UserError(
                f"{path}: all {len(numbers)} examples to learn have the number "
                f"{numbers[0]:g} in the column {self.options.label_column!r}. "
                "There is nothing to learn; name another column."
            )

    def _choose(
        self, examples: Sequence[TextExample], share: float
    ) -> list[bool]:
        keys = [self._key(example) for example in examples]
        alike = [(0,)] * len(keys)
        return held_out.choose(keys, alike, share, self.options.split_seed)

    def scaled(self, path: str) -> tables.TableOptions:
        numbers = [example.label for example in self.read(path, base.TRAIN)]
        return dataclasses.replace(
            self.options,
            label_mean=float(np.mean(numbers)),
            label_deviation=float(np.std(numbers)),
        )


def in_units(
    weights: Mapping[str, np.ndarray], mean: float, deviation: float
) -> dict[str, np.ndarray]:
    """Return weights whose head gives the column's units by itself."""
    changed = {
        "output_weights": weights["output_weights"] * deviation,
        "output_bias": weights["output_bias"] * deviation + mean,
    }
    return {**weights, **changed}
