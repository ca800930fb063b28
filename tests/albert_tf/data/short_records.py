"""Pretraining records of 4 to 16 tokens in sequences of 16, and their parts."""

import numpy as np

from albert_tf.data import layouts
from tests import record_files

LENGTH, PREDICTIONS, VOCABULARY = 16, 3, 60
LAYOUT = layouts.pretraining_layout(LENGTH, PREDICTIONS)
UNMASKED = layouts.without_masks(LAYOUT)


def make(count, seed=3):
    """Return the features of records; the second piece is the number."""
    generator = np.random.default_rng(seed)
    return [_make_one(number, generator) for number in range(count)]


def _make_one(number, generator):
    length = int(generator.integers(4, LENGTH + 1))
    first = int(generator.integers(2, length - 1))
    predictions = max(1, min(PREDICTIONS, round(length * 0.15)))
    ids = generator.integers(5, VOCABULARY, length)
    ids[[0, 1, -1]] = 2, number, 3
    places = generator.choice(np.arange(2, length), predictions, replace=False)
    hidden = generator.integers(5, VOCABULARY, predictions)
    values = {
        "input_ids": (ids, LENGTH),
        "input_mask": (np.ones(length, int), LENGTH),
        "segment_ids": ((np.arange(length) > first) * 1, LENGTH),
        "token_boundary": (generator.integers(0, 2, length), LENGTH),
        "masked_lm_positions": (np.sort(places), PREDICTIONS),
        "masked_lm_ids": (hidden, PREDICTIONS),
        "masked_lm_weights": (np.ones(predictions), PREDICTIONS),
        # Some have no label.
        "next_sentence_labels": (np.array([number % 3 - 1]), 1),
    }
    return {
        name: np.pad(value, (0, width - len(value)))
        for name, (value, width) in values.items()
    }


def encode(records, layout=LAYOUT):
    """Serialize records."""
    names = [feature.name for feature in layout]
    return [
        record_files.encode(layout, {name: r[name] for name in names})
        for r in records
    ]


def unpack(batch):
    """Return the instances of a packed batch by name, each in a row again."""
    found = []
    for row in range(len(batch["input_ids"])):
        number = batch["instance_ids"][row]
        for instance in range(1, number.max() + 1):
            found.append(_unpack_one(batch, row, number == instance, instance))
    return found


def _unpack_one(batch, row, chosen, instance):
    values = {n: v[row] for n, v in batch.items() if np.ndim(v) > 1}
    start, length = int(chosen.argmax()), int(chosen.sum())
    assert values["cls_positions"][instance - 1] == start
    assert values["position_ids"][chosen].tolist() == list(range(length))
    places = values["masked_lm_positions"]
    hidden = (places >= start) & (places < start + length)
    hidden &= values["masked_lm_weights"] > 0
    found = {
        "input_ids": values["input_ids"][chosen],
        "input_mask": np.ones(length, int),
        "segment_ids": values["segment_ids"][chosen],
        "masked_lm_positions": places[hidden] - start,
        "masked_lm_ids": values["masked_lm_ids"][hidden],
        "masked_lm_weights": values["masked_lm_weights"][hidden],
    }
    padded = {
        name: np.pad(
            value,
            (
                0,
                (PREDICTIONS if name.startswith("masked") else LENGTH)
                - len(value),
            ),
        )
        for name, value in found.items()
    }
    label = values["next_sentence_labels"][instance - 1 : instance]
    return {**padded, "next_sentence_labels": label}
