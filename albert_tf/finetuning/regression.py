"""Tables whose label is a number of any size."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from albert_tf.common import errors
from albert_tf.finetuning import tables
from albert_tf.finetuning.glue.glue_data import TextExample


class RegressionTask(tables.TableTask):
    """A number for each row.

    The head's output is in units of the deviation from the mean; the model
    multiplies and adds them, so that all outputs are in the column's units.
    """

    metrics: Sequence[str] = ("pearson", "spearmanr", "mae", "rmse")

    def _labels(self, read: Sequence[Any]) -> Sequence[Any]:
        return [row.labels[0] for row in read]

    def _check_training(
        self, examples: Sequence[TextExample], path: str
    ) -> None:
        # As records have them.
        numbers = np.array([e.label for e in examples], np.float32)
        if np.ptp(numbers) == 0:
            raise errors.UserError(
                f"{path}: all {len(numbers)} examples to learn have the number "
                f"{numbers[0]:g} in the column {self.options.label_column!r}. "
                "There is nothing to learn; name another column."
            )
