"""The objective of a model that answers at several depths.

Source: Zhou et al., arXiv 2006.04152 (PABEE), section 3.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from albert_tf.common import errors
from albert_tf.model.losses import objectives
from albert_tf.model.losses.objectives import Batch, Tensors


def over_depths(
    objective: objectives.Objective, depths: Sequence[int]
) -> objectives.Objective:
    """Return the objective of a model with exits, from that of one answer.

    Its losses are the means over all depths, each weighted by the number of its
    layers: as in the source, the deeper answers, which may be better, count
    more. Weights add up to 1, so the learning rate need not change. Metrics
    are those of the last layer. The depths are `exit_layers` of the model and
    the last layer, in order.
    """
    ratios = [depth / sum(depths) for depth in depths]

    def forward(
        model: Any, batch: Batch, dropout_seed: tf.Tensor | None
    ) -> tuple[Tensors, Batch]:
        outputs, batch = objective.forward(model, batch, dropout_seed)
        if dropout_seed is not None and "exits" not in outputs:
            raise errors.UserError(
                f"`exit_layers={','.join(map(str, depths))}` is not for the "
                f"head {type(model).__name__}, whose `call` does not end with "
                "`with_exits`. Leave it out."
            )
        return outputs, batch

    def sample_values(outputs: Any, batch: Batch) -> Tensors:
        answers = *outputs.get("exits", ()), outputs
        values = [objective.sample_values(out, batch) for out in answers]
        if len(values) == 1:  # Evaluation.
            return values[0]
        means = {
            name: tf.add_n(
                [r * v[name] for r, v in zip(ratios, values, strict=True)]
            )
            for name in objective.losses
        }
        return {**values[-1], **means}

    return dataclasses.replace(
        objective, sample_values=sample_values, forward=forward
    )
