"""What training draws anew in every pass, made from arrays of records.

A drawer is a pure function of records and seeds, so a restarted run goes on
with the same batches.
"""

import dataclasses
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from albert_tf.data import layouts, masking

Batch = Mapping[str, np.ndarray]


class Drawer(Protocol):
    """Makes features of examples from those of records."""

    @property
    def makes(self) -> layouts.Layout:
        """The features that are made; others of the records stay."""

    @property
    def drops(self) -> tuple[str, ...]:
        """Features of the records that examples do not have."""

    def draw(
        self, records: Batch, seeds: np.ndarray, step: int | None = None
    ) -> Batch:
        """Return the features of a batch of examples, by name.

        Args:
            records: By feature name, int32 or float32 [n, ...]; records that
                only fill up a batch are 0 everywhere.
            seeds: uint64 [n], see `random_streams`; one for each example.
            step: Updates before that of the batch; None in evaluation.
        """


@dataclasses.dataclass(frozen=True)
class Masks:
    """Masks pieces of sequences that the records hold."""

    masker: masking.Masker
    max_seq_length: int
    drops: tuple[str, ...] = ()

    @property
    def makes(self) -> layouts.Layout:
        return layouts.mask_layout(
            self.max_seq_length, self.masker.num_predictions
        )

    def draw(
        self, records: Batch, seeds: np.ndarray, step: int | None = None
    ) -> Batch:
        return self.masked_features(
            records["input_ids"],
            records["input_mask"].sum(1),
            records["token_boundary"],
            seeds,
        )

    def masked_features(
        self,
        tokens: np.ndarray,
        lengths: np.ndarray,
        token_boundary: np.ndarray,
        seeds: np.ndarray,
    ) -> dict[str, np.ndarray]:
        """Return the features of `makes`; arguments are of `Masker.mask`."""
        masked = self.masker.mask(tokens, lengths, seeds, token_boundary)
        lists = masked.positions, masked.labels, masked.counts
        return {"input_ids": masked.input_ids, **prediction_features(*lists)}


@dataclasses.dataclass(frozen=True)
class Chain:
    """Two drawers: the second one draws from the features of the first."""

    first: Drawer
    second: Drawer

    @property
    def drops(self) -> tuple[str, ...]:
        return self.first.drops

    @property
    def makes(self) -> layouts.Layout:
        last = self.second.makes
        names = {feature.name for feature in last}
        return (*(f for f in self.first.makes if f.name not in names), *last)

    def draw(
        self, records: Batch, seeds: np.ndarray, step: int | None = None
    ) -> Batch:
        drawn = {**records, **self.first.draw(records, seeds, step)}
        return {**drawn, **self.second.draw(drawn, seeds, step)}


def prediction_features(
    positions: np.ndarray, labels: np.ndarray, counts: np.ndarray
) -> dict[str, np.ndarray]:
    """Return the lists of predictions as features; see `masking.to_lists`."""
    weights = np.arange(positions.shape[1]) < counts[:, None]
    return {
        "masked_lm_positions": positions,
        "masked_lm_ids": labels,
        "masked_lm_weights": weights.astype(np.float32),
    }
