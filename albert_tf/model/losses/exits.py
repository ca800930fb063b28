"""The objective of a model that answers at several depths.

Source: Zhou et al., arXiv 2006.04152 (PABEE), section 3.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from albert_tf.common import errors
from albert_tf.model.losses import distillation, objectives


def at_depths(
    one: objectives.Objective, depths: Sequence[int]
) -> objectives.Objective:
    """Return the objective of a model with exits, from that of one answer.

    Its losses are the means over all depths, each weighted by the number of its
    layers: as in the source, the deeper answers, which may be better, count
    more. Weights add up to 1, so the learning rate need not change. Metrics
    are those of the last layer.

    Args:
        depths: `exit_layers` of the model and the last layer, in order.
    """
    shares = [depth / sum(depths) for depth in depths]

    def values(
        model: Any, batch: objectives.Batch, dropout_seed: tf.Tensor | None
    ) -> objectives.Tensors:
        if dropout_seed is None:  # Evaluation.
            return one.values(model, batch, None)
        own = distillation.without_teacher(batch)
        last: Any = objectives.outputs(model, own, dropout_seed)
        if "exits" not in last:
            raise errors.UserError(
                f"is not for the head {type(model).__name__}, whose `call` "
                "does not end with `with_exits`. Leave it out.",
                "exit_layers",
                ",".join(map(str, depths)),
            )
        # The model has been asked: the objective gets its outputs.
        found = [
            one.values(lambda *_, out=out, **__: out, batch, dropout_seed)
            for out in (*last.pop("exits"), last)
        ]
        means = {
            name: tf.add_n(
                [s * v[name] for s, v in zip(shares, found, strict=True)]
            )
            for name in one.losses
        }
        return {**found[-1], **means}

    return dataclasses.replace(one, values=values)
