"""The part of a training file that is not learnt."""

from collections.abc import Sequence

import numpy as np

_NO_LABEL = -1  # Stands for no label at all.


def choose(
    keys: Sequence[tuple[str, ...]],
    labels: Sequence[tuple[int, ...]],
    share: float,
    seed: int,
) -> list[bool]:
    """Choose a share of the examples of each label, at random.

    Those with equal keys are chosen together, with the labels of the first.
    Where each has one label, of a label with two or more different keys one at
    least is chosen, and one is not. Where texts have several labels, rare
    labels come first, and a frequent one may fall wholly on one side.

    Source: for several labels Sechidis et al., "On the stratification of
    multi-label data" (2011), algorithm 1, for two parts.

    Args:
        labels: Of each example; those without any are a label of their own.

    Returns:
        For each example, whether it is chosen.
    """
    first_of: dict[tuple[str, ...], int] = {}
    for number, key in enumerate(keys):
        first_of.setdefault(key, number)
    by_label: dict[int, list[int]] = {}
    for first in first_of.values():
        for label in labels[first] or [_NO_LABEL]:
            by_label.setdefault(label, []).append(first)
    are_several = any(len(numbers) != 1 for numbers in labels)
    order = sorted(by_label, key=lambda x: (are_several * len(by_label[x]), x))
    decided: dict[int, bool] = {}
    random = np.random.default_rng(seed)
    for label in order:
        members = by_label[label]
        count = round(share * len(members))
        count = min(max(count, 1), len(members) - 1)
        count -= sum(decided.get(first, False) for first in members)
        rest = [first for first in members if first not in decided]
        taken = random.permutation(len(rest))[: max(count, 0)]
        decided |= dict.fromkeys(rest, False)
        decided |= {rest[at]: True for at in taken}
    return [decided[first_of[key]] for key in keys]
