"""Pretraining records, read without knowing their layout, and counted."""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.common import errors
from albert_tf.data import examples, layouts, tfrecord
from data_prep.writer import statistics

_BATCH = 1024
_NEEDED = frozenset(
    {"input_ids", "input_mask", "segment_ids", "next_sentence_labels"}
)
LONGEST_RUN = 7  # Longer runs of words are counted with those of this length.

PREDICTIONS = frozenset(
    {"masked_lm_positions", "masked_lm_ids", "masked_lm_weights"}
)

# By feature name, int32 or float32 [n, S], [n, P] or [n, 1].
Features = Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class SpecialIds:
    """Ids of the special pieces; `mask_id` is -1 if it is not known."""

    cls_id: int
    sep_id: int
    mask_id: int


def read_batches(path: str) -> Iterator[list[bytes]]:
    """Yield the records of a file, at least one, many at a time."""
    records = tfrecord.read_records(path)
    is_empty = True
    while batch := list(itertools.islice(records, _BATCH)):
        is_empty = False
        yield batch
    if is_empty:
        raise errors.UserError(
            f"`input_file={path}` holds no record. A TFRecord file with at "
            "least one is needed. Leave the file out, or write it again."
        )


def parse_example(record: bytes, path: str) -> dict[str, Any]:
    try:
        return examples.decode(record)
    except ValueError as error:
        raise errors.UserError(
            f"`input_file={path}` holds a record that is not a "
            "tf.train.Example. Records of this project and of the original "
            "are. Give other files."
        ) from error


def find_layout(example: Mapping[str, Any]) -> layouts.Layout | None:
    """Return the layout of a pretraining record, None for another record.

    Other features are left out; those of masking and word starts may be
    missing.
    """
    features = layouts.pretraining_layout(1, 1)
    layout = tuple(
        layouts.Feature(name, (len(example[name]),), dtype)
        for name, dtype in ((f.name, f.dtype) for f in features)
        if name in example
    )
    names = {feature.name for feature in layout if feature.shape != (0,)}
    if not names >= _NEEDED:
        return None
    if not names >= PREDICTIONS:
        names -= PREDICTIONS
    return tuple(feature for feature in layout if feature.name in names)


def parse_batch(
    layout: layouts.Layout, batch: Sequence[bytes], path: str
) -> Features:
    """Parse the records of a batch; all have this layout."""
    try:
        return examples.decode_batch(layout, batch)
    except ValueError as error:
        wrong = error
    for number, record in enumerate(tfrecord.read_records(path), 1):
        try:
            examples.decode_batch(layout, [record])
        except ValueError as error:
            raise errors.UserError(
                f"`input_file={path}`: record {number:,} cannot be used: "
                f"{error}. All must have the layout of the first one, and "
                "numbers of their kind. Write the records again."
            ) from error
    raise wrong


def guess_special_ids(features: Features) -> SpecialIds:
    """Derive the special ids from a batch, for use without a vocabulary.

    The first and the last token of a record are [CLS] and [SEP]; the most
    frequent id at the predicted positions is [MASK].
    """
    ids, length = features["input_ids"], lengths(features)
    mask_id = -1
    if PREDICTIONS <= features.keys():
        row, position, _ = predictions(features)
        shown = np.maximum(ids[row, position], 0)
        mask_id = int(np.bincount(shown).argmax()) if len(shown) else -1
    return SpecialIds(int(ids[0, 0]), int(ids[0, length[0] - 1]), mask_id)


def count(features: Features, special: SpecialIds) -> statistics.Counts:
    """Count a batch of pretraining records for `summarize`.

    Features of masking or word starts may be missing.

    Returns:
        Arrays whose shapes depend on S and P only:
        `sizes` [S + 1, P + 1], records by numbers of tokens and predictions;
        `segment_a` [S + 1], records by the length of the first segment;
        `label_1`, `unlabelled`, `well_formed`, `unsorted_positions`, each one
        number;
        `replaced` [3], predictions that became [MASK], stayed, became another
        piece; `relative_position`, the sum over predictions of position /
        length; `word_runs` [LONGEST_RUN + 1], runs by their number of words.
    """
    length = lengths(features)
    has_predictions = PREDICTIONS <= features.keys()
    predicted = np.zeros((len(length), 0), np.bool_)
    if has_predictions:
        predicted = features["masked_lm_weights"] > 0
    size, most = features["input_ids"].shape[1], predicted.shape[1]
    cell = length * (most + 1) + predicted.sum(1)
    sizes = np.bincount(cell, minlength=(size + 1) * (most + 1))
    labels = features["next_sentence_labels"][:, 0]
    counts = {
        "sizes": sizes.reshape(size + 1, most + 1),
        "segment_a": np.bincount(first_lengths(features), minlength=size + 1),
        "label_1": (labels == 1).sum(),
        "unlabelled": (labels == layouts.NO_LABEL).sum(),
        "well_formed": _are_well_formed(features, special).sum(),
    }
    if has_predictions:
        row, position, label = predictions(features)
        shown = features["input_ids"][row, position]
        relative_positions = position / np.maximum(length, 1)[row]
        counts |= {
            "replaced": statistics.count_replaced(
                shown, label, special.mask_id
            ),
            "relative_position": relative_positions.sum(),
            "unsorted_positions": (~_are_ascending(features)).sum(),
        }
        if "token_boundary" in features:
            counts["word_runs"] = _count_runs(features)
    return counts


def lengths(features: Features) -> np.ndarray:
    """Return the length of each record, special tokens included, [n]."""
    return np.asarray(np.count_nonzero(features["input_mask"], axis=1))


def first_lengths(features: Features) -> np.ndarray:
    """Return the lengths of first segments, with [CLS] and [SEP], [n]."""
    first = (features["segment_ids"] == 0) & (features["input_mask"] != 0)
    return np.asarray(first.sum(1))


def predictions(
    features: Features,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return row, position and label of each prediction of a batch, [k].

    A position outside the sequence, an error of the writer, is moved to the
    nearest end; `_are_well_formed` rejects such a record.
    """
    row, column = np.nonzero(features["masked_lm_weights"] > 0)
    size = features["input_ids"].shape[1]
    position = np.clip(
        features["masked_lm_positions"][row, column], 0, size - 1
    )
    return row, position, features["masked_lm_ids"][row, column]


def _are_ascending(features: Features) -> np.ndarray:
    """Return whether the predicted positions of each record ascend, [n]."""
    real = features["masked_lm_weights"] > 0
    steps = np.diff(features["masked_lm_positions"], axis=1)
    return np.asarray(((steps > 0) | ~real[:, 1:]).all(1))


def _count_runs(features: Features) -> np.ndarray:
    """Return a histogram of runs of neighbouring words with predictions.

    Example:
        word starts 1 1 1 0 1 1, predictions at 1, 2, 3 and 5: words 1 and 2
        are a run of two, word 4 is a run of one.
    """
    row, position, _ = predictions(features)
    starts = features["token_boundary"] != 0
    # Indices of the words of all records, with a gap between two records.
    word = starts.cumsum(1) + np.arange(len(starts))[:, None] * (
        starts.shape[1] + 2
    )
    words = np.unique(word[row, position])
    if not len(words):
        return np.zeros(LONGEST_RUN + 1, np.int64)
    run = np.cumsum(np.diff(words, prepend=words[0]) > 1)
    lengths = np.minimum(np.bincount(run), LONGEST_RUN)
    return np.bincount(lengths, minlength=LONGEST_RUN + 1)


def _are_well_formed(features: Features, special: SpecialIds) -> np.ndarray:
    """Return whether each record is `[CLS] A [SEP] B [SEP] padding`, bool [n].

    Without a sentence-order label it is `[CLS] A [SEP] padding`. Its mask,
    segments, label and predictions must agree with that: predictions come
    before their padding, in ascending order, and none is at a special piece.
    """
    ids, length = features["input_ids"], lengths(features)
    first, rows = first_lengths(features), np.arange(len(ids))
    positions = np.arange(ids.shape[1])
    real, second = positions < length[:, None], positions >= first[:, None]
    is_valid: np.ndarray
    is_valid = ((features["input_mask"] == real) & (real | (ids == 0))).all(1)
    is_valid &= (features["segment_ids"] == (real & second)).all(1)
    labels, is_single = features["next_sentence_labels"][:, 0], first == length
    # --sentence_objective=none writes single segments with label 0. Which
    # objective a batch has follows from all of its records, good or bad.
    is_unlabelled = labels == layouts.NO_LABEL
    fits = is_single == is_unlabelled, is_single & (labels == 0)
    is_valid &= (first > 1) & max(fits, key=np.sum)
    is_valid &= ids[:, 0] == special.cls_id
    for end in (first, length):
        is_valid &= ids[rows, np.maximum(end - 1, 0)] == special.sep_id
    is_valid &= np.isin(labels, (0, 1, layouts.NO_LABEL))
    if not PREDICTIONS <= features.keys():
        return is_valid
    weights = features["masked_lm_weights"]
    position = features["masked_lm_positions"]
    order = np.arange(weights.shape[1])
    predicted = order < np.count_nonzero(weights, axis=1)[:, None]
    is_valid &= (weights == predicted).all(1) & _are_ascending(features)
    inside = (position > 0) & (position < length[:, None] - 1)
    inside &= position != first[:, None] - 1
    padding = (position == 0) & (features["masked_lm_ids"] == 0)
    is_valid &= np.where(predicted, inside, padding).all(1)
    return is_valid


def summarize(counts: statistics.Counts) -> dict[str, Any]:
    """Turn counts of at least one record into statistics.

    Rates are in [0, 1], percentiles the 5th, 25th, 50th, 75th and 95th over
    records, interpolated as by `np.percentile`. Lengths include special tokens.
    `word_runs` has, for n = 0 to 7, the rate of runs of n words among all runs
    of neighbouring words that hold a prediction; a word goes from one position
    with `token_boundary` 1 to the next, and 7 stands for 7 and more.
    """
    sizes = counts["sizes"]
    length, num_predictions = map(np.arange, sizes.shape)
    total_tokens, num_examples = int(length @ sizes.sum(1)), int(sizes.sum())
    labelled = num_examples - int(counts["unlabelled"])
    result = {
        "examples": num_examples,
        "well_formed": round(float(counts["well_formed"] / num_examples), 4),
        "label_1": round(float(counts["label_1"] / max(labelled, 1)), 3),
        "unlabelled": round(float(counts["unlabelled"] / num_examples), 3),
        "length": _percentiles(length, sizes.sum(1), 1),
        "mean_length": round(total_tokens / num_examples, 2),
        "segment_a": _percentiles(length, counts["segment_a"], 1),
        "padding": round(1 - total_tokens / (num_examples * length[-1]), 4),
    }
    if "replaced" in counts:
        predicted = int(num_predictions @ sizes.sum(0))
        rates = num_predictions / np.maximum(length, 1)[:, None]
        position = float(counts["relative_position"] / max(predicted, 1))
        result |= {
            "masked_share": _percentiles(rates.ravel(), sizes.ravel(), 3),
            "masking_rate": round(predicted / max(total_tokens, 1), 4),
            "predictions": _percentiles(num_predictions, sizes.sum(0), 1),
            "mean_predictions": round(predicted / num_examples, 3),
            "mask_keep_random": _rates(counts["replaced"]),
            "mean_relative_position": round(position, 4),
            "unsorted_positions": int(counts["unsorted_positions"]),
        }
    if "word_runs" in counts:
        result["word_runs"] = _rates(counts["word_runs"])
    return result


def _rates(counts: np.ndarray) -> Any:
    return (counts / max(counts.sum(), 1)).round(4).tolist()


def _percentiles(values: np.ndarray, counts: np.ndarray, digits: int) -> Any:
    return np.round(statistics.percentiles(values, counts), digits).tolist()


def to_lines(result: Mapping[str, Any]) -> list[str]:
    """Return the statistics of `summarize` as lines of text."""
    text = [
        f"records: {result['examples']:,}, "
        f"well-formed: {result['well_formed']:.2%}",
        f"sentence-order label 1: {result['label_1']:.1%} of those with a "
        f"label; without one: {result['unlabelled']:.1%}",
        "5, 25, 50, 75, 95 % of the records have at most",
        f"  tokens: {_join(result['length'])} (mean {result['mean_length']})",
        f"  tokens of the first segment: {_join(result['segment_a'])}",
    ]
    if "predictions" in result:
        hidden, kept, other = result["mask_keep_random"]
        text += [
            f"  predictions: {_join(result['predictions'])} "
            f"(mean {result['mean_predictions']})",
            f"  predictions / tokens: {_join(result['masked_share'])}",
            f"masking rate, predictions of all tokens: "
            f"{result['masking_rate']:.2%}",
            f"of the predictions, [MASK]: {hidden:.2%}, kept: {kept:.2%}, "
            f"another piece: {other:.2%}",
            f"mean place of a prediction: "
            f"{result['mean_relative_position']:.1%} of its sequence",
            "records with positions not in order: "
            f"{result['unsorted_positions']:,}",
        ]
    if "word_runs" in result:
        shares = enumerate(result["word_runs"][1:], 1)
        runs = [f"{words}: {share:.2%}" for words, share in shares]
        text += [
            f"runs of neighbouring words with predictions ({LONGEST_RUN} "
            "means that or more)",
            f"  by words: {', '.join(runs)}",
        ]
    text.append(f"padding: {result['padding']:.1%}")
    return text


def _join(numbers: Sequence[float]) -> str:
    return ", ".join(f"{number:g}" for number in numbers)
