"""Counts of what was written, for the manifest and the data card."""

import math
from typing import Any

import numpy as np

from albert_tf.data import layouts, masking

# Sums over all records, by name: numbers and histograms (lists).
Counts = dict[str, Any]

PERCENTILES = (5, 25, 50, 75, 95)


def count(rows: np.ndarray, lengths: np.ndarray, max_length: int) -> Counts:
    """Count a batch of records, from `instances.ROW` [n] and lengths [n]."""
    return {
        "instances": len(rows),
        "label_1": int((rows["label"] == 1).sum()),
        "unlabelled": int((rows["label"] == layouts.NO_LABEL).sum()),
        "lone": int(rows["single_sentence"].sum()),
        "tokens": int(lengths.sum()),
        "lengths": np.bincount(lengths, minlength=max_length + 1),
        "segment_lengths": np.bincount(
            np.concatenate([rows["first"], rows["second"]]),
            minlength=max_length + 1,
        ),
    }


def count_masked(masked: masking.MaskedBatch, mask_id: int) -> Counts:
    """Count the predictions of one batch of records."""
    chosen = np.arange(masked.positions.shape[1]) < masked.counts[:, None]
    row, column = np.nonzero(chosen)
    position = masked.positions[row, column]
    label, shown = masked.labels[row, column], masked.input_ids[row, position]
    hidden, kept, _ = count_replaced(shown, label, mask_id).tolist()
    return {
        "predictions": int(masked.counts.sum()),
        "masked": hidden,
        "kept": kept,
        "run_lengths": masked.run_lengths,
        "labels": np.bincount(label),
    }


def add(total: Counts, more: Counts) -> Counts:
    """Add up counts; histograms [k] or lists may have different lengths."""
    result = dict(total)
    for name, value in more.items():
        if np.ndim(value) != 1:
            result[name] = result.get(name, 0) + value
            continue
        both = [np.array(v, np.int64) for v in (result.get(name, []), value)]
        size = max(map(len, both))
        result[name] = sum(np.pad(v, (0, size - len(v))) for v in both)
    return result


def to_json(counts: Counts) -> dict[str, Any]:
    return {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in counts.items()
    }


def percentiles(values: np.ndarray, counts: np.ndarray) -> list[float]:
    """Return the percentiles of values [k] that occur counts [k] times each.

    They are those of `np.percentile` at `PERCENTILES`, interpolated.
    """
    order = np.argsort(values, kind="stable")
    last = np.cumsum(counts[order]) - 1  # Rank of the last of each value.
    rank = np.array(PERCENTILES) / 100 * last[-1]
    lower = values[order][np.searchsorted(last, np.floor(rank))]
    upper = values[order][np.searchsorted(last, np.ceil(rank))]
    return (lower + (upper - lower) * (rank - np.floor(rank))).tolist()


def count_replaced(
    shown: np.ndarray, label: np.ndarray, mask_id: int
) -> np.ndarray:
    """Count predicted pieces that became [MASK], stayed, became another, [3].

    `shown`, int [k], is in the record; `label`, int [k], is to be predicted.
    """
    masked = shown == mask_id
    kept = (shown == label) & ~masked
    return np.array([masked.sum(), kept.sum(), (~masked & ~kept).sum()])


def entropy(counts: np.ndarray) -> float:
    """Return the entropy in nats of things that occur counts [k] times.

    It is the same on every machine, and in every order; 0 of nothing.
    """
    total = int(counts.sum())
    return math.fsum(
        count / total * math.log(total / count)
        for count in counts.tolist()
        if count
    )


def summarize(
    counts: Counts, max_seq_length: int, corpus: dict[str, int]
) -> dict[str, Any]:
    """Return the rates and distributions that describe the records.

    The counts of the corpus are those of the text and of `instances.Built`.
    """
    num_instances = max(1, counts["instances"])
    num_labelled = counts["instances"] - counts["unlabelled"]
    num_tokens = max(1, counts["tokens"])
    summary: dict[str, Any] = {
        "instances": counts["instances"],
        "tokens_per_instance": num_tokens / num_instances,
        "length_percentiles_5_25_50_75_95": [
            int(value) if value.is_integer() else value
            for value in percentiles(
                np.arange(len(counts["lengths"])), counts["lengths"]
            )
        ],
        "share_of_padding": 1 - num_tokens / (num_instances * max_seq_length),
        "share_of_tokens_cut": corpus["tokens_cut"]
        / max(1, corpus["tokens_paired"]),
        "share_of_label_1": counts["label_1"] / max(1, num_labelled),
        "share_without_label": counts["unlabelled"] / num_instances,
        "share_of_single_sentence_chunks": counts["lone"] / num_instances,
    }
    if "predictions" not in counts:
        return summary
    num_predictions = max(1, counts["predictions"])
    masked, kept = counts["masked"], counts["kept"]
    runs = counts["run_lengths"][1:]
    return summary | {
        "predictions_per_instance": num_predictions / num_instances,
        "share_of_tokens_predicted": num_predictions / num_tokens,
        "share_masked": masked / num_predictions,
        "share_kept": kept / num_predictions,
        "share_replaced": 1 - (masked + kept) / num_predictions,
        "share_of_runs_of_n_words": (runs / max(1, runs.sum())).tolist(),
        "share_of_most_frequent_label": int(counts["labels"].max(initial=0))
        / num_predictions,
        "entropy_of_labels": entropy(counts["labels"]),
    }
