"""What `configs/pretraining/hour.flags` reached, to compare runs of its size.

Losses of different vocabularies and languages do not compare, but how far they
are below the entropy of the labels does, roughly. Records that hide fewer words
make it easier.
"""

import dataclasses
import itertools
import math
from collections.abc import Mapping
from typing import Any

from albert_tf.model.config import AlbertConfig

# Its model.
_CONFIG = "albert_hour"
# Millions of tokens that it was trained on, padding included, to how many nats
# the masked-LM loss of held-out text was below `entropy_of_labels`. The run and
# its texts are in docs/recipes.md.
_BELOW_ENTROPY = {
    2.048: 1.61,
    4.096: 1.79,
    8.192: 1.96,
    12.288: 2.04,
    16.384: 2.11,
    20.480: 2.15,
    24.576: 2.20,
    28.672: 2.25,
    32.768: 2.28,
    36.864: 2.31,
    40.960: 2.34,
    45.056: 2.36,
    47.036: 2.37,
}
_END = max(_BELOW_ENTROPY)


def loss_at(
    config: AlbertConfig, tokens: float, entropy_of_labels: float | None
) -> float | None:
    """Return the masked-LM loss of a good run at some point of the training.

    Args:
        config: Of the run that is compared.
        tokens: That it was trained on, padding included. After the end of the
            good run its last loss is returned.
        entropy_of_labels: Of its records, in nats; None if it is not known.

    Returns:
        Nats; None if the run has another architecture, the entropy is not
        known, or nothing was measured of so few tokens.
    """
    if entropy_of_labels is None or not _is_comparable(config):
        return None
    millions = min(tokens / 1e6, _END)
    for left, right in itertools.pairwise(_BELOW_ENTROPY):
        if left <= millions <= right:
            share = math.log(millions / left) / math.log(right / left)
            low, high = _BELOW_ENTROPY[left], _BELOW_ENTROPY[right]
            return entropy_of_labels - low - share * (high - low)
    return None


def _is_comparable(config: AlbertConfig) -> bool:
    """Tell whether a model has the architecture of the good run.

    Vocabularies are compared by entropies. The length of the table of positions
    and the initial weights make no model larger.
    """
    own = AlbertConfig.from_json_file(_CONFIG)
    return own == dataclasses.replace(
        config,
        vocab_size=own.vocab_size,
        max_position_embeddings=own.max_position_embeddings,
        initializer_range=own.initializer_range,
    )


def describe(
    numbers: Mapping[str, float],
    config: AlbertConfig,
    tokens: float,
    entropy_of_labels: float | None,
) -> str | None:
    """Return one line that compares an evaluation, if there is a reference.

    Args:
        numbers: Of the evaluation; without a `masked_lm_loss` there is none.
        config: See `loss_at`.
        tokens: See `loss_at`.
        entropy_of_labels: See `loss_at`.
    """
    expected = loss_at(config, tokens, entropy_of_labels)
    if expected is None or "masked_lm_loss" not in numbers:
        return None
    millions = tokens / 1e6
    point = "At this point"
    if millions > _END:
        point = f"At its end, after {_END:.1f} million,"
    return (
        f"masked_lm_loss {numbers['masked_lm_loss']:.3f} after "
        f"{millions:,.1f} million tokens. {point} "
        f"configs/pretraining/hour.flags had about {expected:.3f}, see "
        "docs/recipes.md."
    )


def curve(
    config: AlbertConfig, facts: Mapping[str, Any]
) -> list[tuple[float, float]]:
    """Return (step, loss) of the reference, for the curves of a run.

    Args:
        config: Of the run.
        facts: Of its log; see `run_log.Facts`.

    Returns:
        An empty list if there is no reference.
    """
    tokens_per_step = facts.get("tokens_per_step")
    entropy = facts.get("entropy_of_labels")
    if not tokens_per_step or entropy is None or not _is_comparable(config):
        return []
    return [
        (millions * 1e6 / tokens_per_step, entropy - below)
        for millions, below in _BELOW_ENTROPY.items()
    ]
