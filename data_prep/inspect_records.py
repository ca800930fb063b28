r"""Show what is in TFRecord files: instances as text, and statistics.

Beside the walk: a look at what step 5 wrote, or at records of the original.

    python -m data_prep.inspect_records \
        --input_file='records/train.tfrecord*' \
        --spm_model_file=vocab/30k-clean.model --num_examples=2

A hidden piece is shown as what it was, an arrow, and what stands there now:

    [paris→MASK]          it became [MASK],
    [paris→KEPT]          it stays, but is to be predicted,
    [paris→RANDOM:tree]   it became a random piece, or was exchanged with
                          another one (records made with --do_permutation).

Without a vocabulary, ids are shown. Files that end in .gz are unpacked. Any
number of records is read in the memory of a few thousand.
"""

import os
import sys

if not __package__:  # Run by its path: find the packages beside this folder.
    sys.path.insert(0, os.path.dirname(os.path.dirname(__file__)))

import dataclasses
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from albert_tf import errors, files, options, ranges, records, tokenization

if TYPE_CHECKING:
    import tensorflow as tf

PERCENTILES = (5, 25, 50, 75, 95)
LONGEST_RUN = 7  # Longer runs of words are counted as this one.

_BATCH = 1024
_SHOWN_VALUES = 20  # Of each feature of a record that is not for pretraining.
_PREDICTIONS = frozenset(
    {"masked_lm_positions", "masked_lm_ids", "masked_lm_weights"}
)
_NEEDED = frozenset(
    {"input_ids", "input_mask", "segment_ids", "next_sentence_labels"}
)

# By feature name, int32 or float32 [n, S], [n, P] or [n, 1].
Features = Mapping[str, np.ndarray]
# Sums and histograms over records, by name; those of two batches may be added.
Counts = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
@options.checked
class InspectOptions:
    """Options of the script."""

    input_file: str = options.option(
        help="TFRecord files: comma-separated paths or glob patterns; files "
        "that end in .gz are unpacked."
    )
    num_examples: int = options.option(
        5, "Records to show, from the first on.", within=ranges.EXAMPLES_OR_NONE
    )
    statistics: bool = options.option(
        True, "Read all records and print statistics of them."
    )
    vocabulary: tokenization.VocabularyOptions = dataclasses.field(
        default_factory=tokenization.VocabularyOptions
    )


@dataclasses.dataclass(frozen=True)
class SpecialIds:
    """Ids of the special pieces; `mask_id` is -1 where none is known."""

    cls_id: int
    sep_id: int
    mask_id: int


def guess_special_ids(features: Features) -> SpecialIds:
    """Read the special ids off records, for use without a vocabulary.

    The first and the last token of a record are [CLS] and [SEP]; what stands at
    most of the predicted places is [MASK].

    Args:
        features: One batch of pretraining records.
    """
    ids, length = features["input_ids"], _lengths(features)
    mask_id = -1
    if _PREDICTIONS <= features.keys():
        row, position, _ = _predictions(features)
        shown = np.maximum(ids[row, position], 0)
        mask_id = int(np.bincount(shown).argmax()) if len(shown) else -1
    return SpecialIds(int(ids[0, 0]), int(ids[0, length[0] - 1]), mask_id)


def statistics(features: Features, special: SpecialIds) -> dict[str, Any]:
    """Describe pretraining records by numbers; see `summarize`.

    Args:
        features: All records, by the names of `records.pretraining_layout`;
            without the features of masking and word starts, the statistics of
            these are left out.
        special: Ids of the special pieces.
    """
    return summarize(count(features, special))


def count(features: Features, special: SpecialIds) -> Counts:
    """Count what `summarize` needs, for one batch of pretraining records.

    Returns:
        Arrays whose shapes depend on S and P only:
        `sizes` [S + 1, P + 1], records by their tokens and predictions;
        `segment_a` [S + 1], records by the tokens of the first segment;
        `label_1`, `well_formed`, `unsorted_positions`, each one number;
        `replaced` [3], predictions that became [MASK], stayed, became another
        piece; `relative_position`, the sum over predictions of place / tokens;
        `word_runs` [LONGEST_RUN + 1], runs by their words.
    """
    length = _lengths(features)
    has_predictions = _PREDICTIONS <= features.keys()
    predicted = (
        features["masked_lm_weights"] > 0
        if has_predictions
        else np.zeros((len(length), 0), np.bool_)
    )
    size, most = features["input_ids"].shape[1], predicted.shape[1]
    cell = length * (most + 1) + predicted.sum(1)
    sizes = np.bincount(cell, minlength=(size + 1) * (most + 1))
    labels = features["next_sentence_labels"][:, 0]
    counts = {
        "sizes": sizes.reshape(size + 1, most + 1),
        "segment_a": np.bincount(_segment_a(features), minlength=size + 1),
        "label_1": (labels == 1).sum(),
        "well_formed": _well_formed(features, special).sum(),
    }
    if has_predictions:
        counts |= _count_predictions(features, special)
        if "token_boundary" in features:
            counts["word_runs"] = _count_runs(features)
    return counts


def _lengths(features: Features) -> np.ndarray:
    """Return the tokens of each record, special ones included, [n]."""
    lengths: np.ndarray = np.count_nonzero(features["input_mask"], axis=1)
    return lengths


def _segment_a(features: Features) -> np.ndarray:
    """Return the tokens of the first segments, [CLS] and [SEP] included."""
    first = (features["segment_ids"] == 0) & (features["input_mask"] != 0)
    lengths: np.ndarray = first.sum(1)
    return lengths


def _predictions(
    features: Features,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return row, position and label of each prediction of a batch, [k].

    A position outside the sequence, which is a mistake of the writer, is moved
    to its nearest end; `_well_formed` knows of it.
    """
    row, column = np.nonzero(features["masked_lm_weights"] > 0)
    size = features["input_ids"].shape[1]
    position = np.clip(
        features["masked_lm_positions"][row, column], 0, size - 1
    )
    return row, position, features["masked_lm_ids"][row, column]


def _count_predictions(features: Features, special: SpecialIds) -> Counts:
    row, position, label = _predictions(features)
    shown = features["input_ids"][row, position]
    hidden = shown == special.mask_id
    kept = (shown == label) & ~hidden
    other = ~hidden & ~kept
    length = np.maximum(_lengths(features), 1)
    return {
        "replaced": np.array([hidden.sum(), kept.sum(), other.sum()]),
        "relative_position": (position / length[row]).sum(),
        "unsorted_positions": (~_ascending(features)).sum(),
    }


def _ascending(features: Features) -> np.ndarray:
    """Tell for each record whether its predictions are in order, [n]."""
    real = features["masked_lm_weights"] > 0
    steps = np.diff(features["masked_lm_positions"], axis=1)
    return np.asarray(((steps > 0) | ~real[:, 1:]).all(1))


def _count_runs(features: Features) -> np.ndarray:
    """Return a histogram of runs of neighbouring words with predictions.

    Example:
        word starts 1 1 1 0 1 1, predictions at 1, 2, 3 and 5: words 1 and 2
        are a run of two, word 4 is a run of one.
    """
    row, position, _ = _predictions(features)
    starts = features["token_boundary"] != 0
    # Numbers of the words of all records, with a gap between two records.
    word = starts.cumsum(1) + np.arange(len(starts))[:, None] * (
        starts.shape[1] + 2
    )
    words = np.unique(word[row, position])
    if not len(words):
        return np.zeros(LONGEST_RUN + 1, np.int64)
    run = np.cumsum(np.diff(words, prepend=words[0]) > 1)
    lengths = np.minimum(np.bincount(run), LONGEST_RUN)
    return np.bincount(lengths, minlength=LONGEST_RUN + 1)


def _well_formed(features: Features, special: SpecialIds) -> np.ndarray:
    """Tell for each record whether it is `[CLS] A [SEP] B [SEP] padding`.

    Also its masks, segments, label and predictions must agree with that:
    predictions come before their padding, stand in ascending order, and none
    is at a special piece.

    Returns:
        bool [n].
    """
    ids, length = features["input_ids"], _lengths(features)
    first, rows = _segment_a(features), np.arange(len(ids))
    place = np.arange(ids.shape[1])
    real, second = place < length[:, None], place >= first[:, None]
    good: np.ndarray
    good = ((features["input_mask"] == real) & (real | (ids == 0))).all(1)
    good &= (features["segment_ids"] == (real & second)).all(1)
    good &= (first > 1) & (first < length)
    good &= ids[:, 0] == special.cls_id
    for end in (first, length):
        good &= ids[rows, np.maximum(end - 1, 0)] == special.sep_id
    good &= np.isin(features["next_sentence_labels"][:, 0], (0, 1))
    if not _PREDICTIONS <= features.keys():
        return good
    weights, position = (
        features["masked_lm_weights"],
        features["masked_lm_positions"],
    )
    order = np.arange(weights.shape[1])
    predicted = order < np.count_nonzero(weights, axis=1)[:, None]
    good &= (weights == predicted).all(1) & _ascending(features)
    inside = (position > 0) & (position < length[:, None] - 1)
    inside &= position != first[:, None] - 1
    padding = (position == 0) & (features["masked_lm_ids"] == 0)
    good &= np.where(predicted, inside, padding).all(1)
    return good


def add(total: Counts | None, more: Counts) -> Counts:
    """Add up the counts of two batches of the same layout."""
    if total is None:
        return more
    return {name: total[name] + more[name] for name in total}


def summarize(counts: Counts) -> dict[str, Any]:
    """Turn counts of at least one record into statistics.

    Returns:
        Shares are in [0, 1], percentiles the 5th, 25th, 50th, 75th and 95th
        over records, interpolated as by `np.percentile`. Always:
        `examples`: records;
        `well_formed`: share of records that `_well_formed` approves;
        `label_1`: share of records with sentence-order label 1;
        `length`, `mean_length`: tokens of a record, special ones included;
        `segment_a`: tokens of the first segment with [CLS] and its [SEP];
        `padding`: share of all places that hold no token.
        With predictions:
        `masked_share`: percentiles of a record's predictions / tokens;
        `masking_rate`: all predictions / all tokens;
        `predictions`, `mean_predictions`: of a record;
        `mask_keep_random`: shares of the predictions that show [MASK], the
        piece itself, another piece;
        `mean_relative_position`: of place / tokens, over all predictions;
        `unsorted_positions`: records whose positions do not ascend.
        With word starts as well, `word_runs`: for n = 0 to 7, the share of
        runs of n words, among all runs of neighbouring words that hold a
        prediction; a word goes from one place with `token_boundary` 1 to the
        next, and 7 stands for 7 and more.
    """
    sizes = counts["sizes"]
    size, most = sizes.shape[0] - 1, sizes.shape[1] - 1
    examples = int(sizes.sum())
    length, predictions = np.arange(size + 1), np.arange(most + 1)
    tokens = int(length @ sizes.sum(1))
    made = int(predictions @ sizes.sum(0))
    result = {
        "examples": examples,
        "well_formed": round(float(counts["well_formed"] / examples), 4),
        "label_1": round(float(counts["label_1"] / examples), 3),
        "length": percentiles(length, sizes.sum(1), 1),
        "mean_length": round(tokens / examples, 2),
        "segment_a": percentiles(length, counts["segment_a"], 1),
        "padding": round(1 - tokens / (examples * size), 4),
    }
    if "replaced" in counts:
        share = predictions / np.maximum(length, 1)[:, None]
        result |= {
            "masked_share": percentiles(share.ravel(), sizes.ravel(), 3),
            "masking_rate": round(made / max(tokens, 1), 4),
            "predictions": percentiles(predictions, sizes.sum(0), 1),
            "mean_predictions": round(made / examples, 3),
            "mask_keep_random": _shares(counts["replaced"]),
            "mean_relative_position": round(
                float(counts["relative_position"] / max(made, 1)), 4
            ),
            "unsorted_positions": int(counts["unsorted_positions"]),
        }
    if "word_runs" in counts:
        result["word_runs"] = _shares(counts["word_runs"])
    return result


def _shares(counts: np.ndarray) -> list[float]:
    shares: list[float] = (counts / max(counts.sum(), 1)).round(4).tolist()
    return shares


def percentiles(
    values: np.ndarray, counts: np.ndarray, digits: int
) -> list[float]:
    """Return the percentiles of values that occur several times.

    Args:
        values: [k], in any order.
        counts: int [k], how often each occurs, at least once in all.
        digits: Digits behind the point of the results.
    """
    order = np.argsort(values, kind="stable")
    last = np.cumsum(counts[order]) - 1  # Rank of the last of each value.
    place = np.array(PERCENTILES) / 100 * last[-1]
    lower = values[order][np.searchsorted(last, np.floor(place))]
    upper = values[order][np.searchsorted(last, np.ceil(place))]
    found = lower + (upper - lower) * (place - np.floor(place))
    rounded: list[float] = found.round(digits).tolist()
    return rounded


def statistics_lines(result: Mapping[str, Any]) -> list[str]:
    """Return statistics as lines of text."""
    lines = [
        f"records: {result['examples']:,}, "
        f"well-formed: {result['well_formed']:.2%}",
        f"sentence-order label 1: {result['label_1']:.1%}",
        "5, 25, 50, 75, 95 % of the records have at most",
        f"  tokens: {_join(result['length'])} (mean {result['mean_length']})",
        f"  tokens of the first segment: {_join(result['segment_a'])}",
    ]
    if "predictions" in result:
        hidden, kept, other = result["mask_keep_random"]
        lines += [
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
        runs = [
            f"{words}: {share:.2%}"
            for words, share in enumerate(result["word_runs"])
            if words
        ]
        lines += [
            f"runs of neighbouring words with predictions ({LONGEST_RUN} "
            "stands for more, too)",
            f"  by words: {', '.join(runs)}",
        ]
    lines.append(f"padding: {result['padding']:.1%}")
    return lines


def _join(numbers: Sequence[float]) -> str:
    return ", ".join(f"{number:g}" for number in numbers)


class PieceText:
    """Writes ids as text, with or without a vocabulary."""

    def __init__(self, tokenizer: tokenization.AnyTokenizer | None) -> None:
        """Remember the vocabulary.

        Args:
            tokenizer: Its vocabulary names the pieces; None shows ids.
        """
        self._pieces = None if tokenizer is None else tokenizer.pieces
        self._is_sentencepiece = isinstance(tokenizer, tokenization.Tokenizer)

    def word_and_start(self, id_: int) -> tuple[str, bool]:
        """Return what to show for an id, and whether a space comes before it.

        Example:
            "▁paris" is ("paris", True), "s" is ("s", False) in SentencePiece;
            "##ing" is ("ing", False), "rain" is ("rain", True) in WordPiece.
        """
        if self._pieces is None:
            return str(id_), True
        piece = self._pieces[id_]
        if piece in tokenization.SPECIAL_PIECES:
            return piece, True
        if self._is_sentencepiece:
            return piece.removeprefix("▁"), piece.startswith("▁")
        return piece.removeprefix("##"), not piece.startswith("##")

    def join(
        self, ids: Sequence[int], labels: Mapping[int, int], mask_id: int
    ) -> str:
        """Join ids to a text in which predictions are marked.

        Args:
            ids: What stands in the record.
            labels: By index in `ids`, the id that is to be predicted there.
            mask_id: Id of [MASK].

        Returns:
            For example "[CLS] to [paris→MASK] we go[es→KEPT]".
        """
        text = ""
        for index, id_ in enumerate(ids):
            label = labels.get(index)
            word, spaced = self.word_and_start(id_ if label is None else label)
            if label is not None:
                word = (
                    f"[{word or '▁'}→{self._replacement(id_, label, mask_id)}]"
                )
            text += f" {word}" if spaced and text else word
        return text

    def _replacement(self, id_: int, label: int, mask_id: int) -> str:
        if id_ == mask_id:
            return "MASK"
        if id_ == label:
            return "KEPT"
        return f"RANDOM:{self.word_and_start(id_)[0] or '▁'}"


def instance_lines(
    features: Features, row: int, text: PieceText, special: SpecialIds
) -> list[str]:
    """Return one pretraining record as lines of text.

    Args:
        features: A batch of records.
        row: Which of them.
        text: Writes the pieces.
        special: Ids of the special pieces.
    """
    one = {name: values[row : row + 1] for name, values in features.items()}
    length, first = int(_lengths(one)[0]), int(_segment_a(one)[0])
    ids = one["input_ids"][0].tolist()
    labels: dict[int, int] = {}
    predictions = "none in the record"
    if _PREDICTIONS <= one.keys():
        _, positions, wanted = _predictions(one)
        labels = dict(zip(positions.tolist(), wanted.tolist(), strict=True))
        share = len(positions) / max(length, 1)
        predictions = f"{len(positions)} ({share:.1%})"
    label = int(one["next_sentence_labels"][0, 0])
    meaning = {
        0: "the segments are in their order",
        1: "the segments are exchanged, or B is a random one",
    }.get(label, "not one of 0 and 1")
    in_second = {place - first: id_ for place, id_ in labels.items()}
    return [
        f"  tokens: {length} of {len(ids)}, A: {first}, B: {length - first}; "
        f"predictions: {predictions}",
        f"  sentence-order label: {label} ({meaning})",
        _wrap("A", text.join(ids[:first], labels, special.mask_id)),
        _wrap("B", text.join(ids[first:length], in_second, special.mask_id)),
    ]


def _wrap(name: str, text: str) -> str:
    return textwrap.fill(
        text,
        80,
        initial_indent=f"  {name}: ",
        subsequent_indent="     ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def other_lines(example: "tf.train.Example", text: PieceText) -> list[str]:
    """Return a record of any layout as lines of text."""
    lines = []
    for name, feature in sorted(example.features.feature.items()):
        values = list(_values(feature))
        shown = ", ".join(
            f"{value:g}" if isinstance(value, float) else str(value)
            for value in values[:_SHOWN_VALUES]
        )
        rest = ", ..." if len(values) > _SHOWN_VALUES else ""
        lines.append(f"  {name} [{len(values)}]: {shown}{rest}")
        if name == "input_ids":
            mask = _values(example.features.feature["input_mask"])
            length = sum(1 for real in mask if real) or len(values)
            lines.append(_wrap("  text", text.join(values[:length], {}, -1)))
    return lines


def _values(feature: "tf.train.Feature") -> Sequence[Any]:
    kind = feature.WhichOneof("kind")
    values: Sequence[Any] = getattr(feature, kind).value if kind else ()
    return values


def read_batches(path: str) -> "Iterator[tf.Tensor]":
    """Yield string [n], the records of a file in batches; a generator.

    Raises:
        errors.UserError: The file is damaged, cut short, empty or of another
            kind.
    """
    import tensorflow as tf

    packed = "GZIP" if path.endswith(".gz") else ""
    dataset = tf.data.TFRecordDataset(path, compression_type=packed)
    is_empty = True
    try:
        for batch in dataset.batch(_BATCH).prefetch(1):
            is_empty = False
            yield batch
    except tf.errors.DataLossError as error:
        raise errors.UserError(
            f"--input_file={path} is damaged or no TFRecord file: "
            f"{_reason(error)}. A whole TFRecord file is needed, with a name "
            "in .gz if and only if it is packed by gzip. Copy it again, or "
            "write the records again."
        ) from error
    if is_empty:
        raise errors.UserError(
            f"--input_file={path} holds no record. A TFRecord file with at "
            "least one is needed. Leave the file out, or write it again."
        )


def _reason(error: "tf.errors.OpError") -> str:
    """Return what TensorFlow says, without the names of its operations."""
    message = str(error.message).split("}} ")[-1]
    return message.split(" [Op:")[0].split("\n")[0].rstrip(".")


def parse_example(record: bytes, path: str) -> "tf.train.Example":
    """Read one record.

    Raises:
        errors.UserError: It is no `tf.train.Example`.
    """
    import tensorflow as tf
    from google.protobuf import message

    try:
        return tf.train.Example.FromString(record)
    except message.DecodeError as error:
        raise errors.UserError(
            f"--input_file={path} holds a record that is no tf.train.Example. "
            "Records of this project and of the original are. Give other files."
        ) from error


def find_layout(example: "tf.train.Example") -> records.Layout | None:
    """Return the layout of a pretraining record, None for another record.

    Features that are not known are left out; those of masking and of word
    starts may be missing.
    """
    lengths = {
        name: len(_values(feature))
        for name, feature in example.features.feature.items()
    }
    known = records.pretraining_layout(1, 1)
    layout = tuple(
        dataclasses.replace(feature, shape=(lengths[feature.name],))
        for feature in known
        if feature.name in lengths
    )
    names = {feature.name for feature in layout if feature.shape != (0,)}
    if not names >= _NEEDED:
        return None
    if not names >= _PREDICTIONS:
        names -= _PREDICTIONS
    return tuple(feature for feature in layout if feature.name in names)


def parse_batch(
    layout: records.Layout, batch: "tf.Tensor", path: str
) -> Features:
    """Parse the records of a batch.

    Raises:
        errors.UserError: One of them has another layout.
    """
    import tensorflow as tf

    try:
        parsed = records.parse(layout, batch)
    except tf.errors.InvalidArgumentError as error:
        raise errors.UserError(
            f"--input_file={path} holds records of different layouts "
            f"({_reason(error)}). All must be like "
            "the first one. Write the records again."
        ) from error
    return {name: value.numpy() for name, value in parsed.items()}


class Inspector:
    """Shows the first records and counts all of them."""

    def __init__(
        self,
        wanted: InspectOptions,
        tokenizer: tokenization.AnyTokenizer | None,
    ) -> None:
        """Start with nothing read.

        Args:
            wanted: What to show.
            tokenizer: The vocabulary; None without one.
        """
        self._wanted = wanted
        self._tokenizer = tokenizer
        self._text = PieceText(tokenizer)
        self._special: SpecialIds | None = None
        if tokenizer is not None:
            self._special = SpecialIds(
                tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id
            )
        self._layout: records.Layout | None = None
        self._counts: Counts | None = None
        self._num_read = 0

    def read(self, path: str) -> None:
        """Read one file and print its records, as far as they are wanted.

        Raises:
            errors.UserError: The file cannot be read, has not the layout of
                the files before it, or not the vocabulary that is given.
        """
        is_first_batch = True
        for batch in read_batches(path):
            if is_first_batch:
                self._check_layout(parse_example(batch[0].numpy(), path), path)
                is_first_batch = False
            show = max(0, self._wanted.num_examples - self._num_read)
            if self._layout is None:
                self._read_others(batch[:show], path)
            else:
                self._read_pretraining(batch, show, path)
            self._num_read += len(batch)
            if self.is_done:
                return

    @property
    def is_done(self) -> bool:
        """Whether nothing more needs to be read."""
        enough = self._num_read >= self._wanted.num_examples
        return enough and not self._wanted.statistics

    def _check_layout(self, example: "tf.train.Example", path: str) -> None:
        layout = find_layout(example)
        if self._num_read and layout != self._layout:
            raise errors.UserError(
                f"--input_file={path} has another layout than the files before "
                "it: other features, sequence length or number of predictions. "
                "Files of one layout are counted together. Give the others in "
                "a second call."
            )
        self._layout = layout

    def _read_pretraining(
        self, batch: "tf.Tensor", show: int, path: str
    ) -> None:
        assert self._layout is not None
        features = parse_batch(self._layout, batch, path)
        for name in {"input_ids", "masked_lm_ids"} & features.keys():
            self._check_ids(features[name], path)
        if self._special is None:
            self._special = guess_special_ids(features)
            print(
                "Without a vocabulary ids are shown. Taken from the records: "
                f"[CLS] {self._special.cls_id}, [SEP] {self._special.sep_id}, "
                f"[MASK] {self._special.mask_id}."
            )
        for row in range(min(show, len(batch))):
            lines = instance_lines(features, row, self._text, self._special)
            self._print_record(row, path, lines)
        if self._wanted.statistics:
            self._counts = add(self._counts, count(features, self._special))

    def _read_others(self, batch: "tf.Tensor", path: str) -> None:
        for row, record in enumerate(batch.numpy()):
            example = parse_example(record, path)
            ids = _values(example.features.feature["input_ids"])
            self._check_ids(np.array(ids, np.int64), path)
            self._print_record(row, path, other_lines(example, self._text))

    def _print_record(self, row: int, path: str, lines: list[str]) -> None:
        print(f"record {self._num_read + row + 1}, {path}", *lines, sep="\n")

    def _check_ids(self, ids: np.ndarray, path: str) -> None:
        """Refuse ids that the vocabulary does not have."""
        if self._tokenizer is None:
            return
        size, highest = self._tokenizer.vocab_size, int(ids.max(initial=0))
        if highest >= size or ids.min(initial=0) < 0:
            kind = self._wanted.vocabulary.kind
            raise errors.UserError(
                f"--{kind}={self._wanted.vocabulary.path} has {size} pieces; "
                f"--input_file={path} holds ids from {ids.min()} to {highest}. "
                "Ids must be below the number of pieces. Give the vocabulary "
                "that the records were written with, or none to see ids."
            )

    def print_statistics(self) -> None:
        """Print what was counted."""
        if self._counts is None:
            print(f"records: {self._num_read:,}, not for pretraining")
            return
        print(*statistics_lines(summarize(self._counts)), sep="\n")


def run(wanted: InspectOptions) -> None:
    """Print what the options ask for.

    Args:
        wanted: All options of the script.

    Raises:
        errors.UserError: Files are missing or unusable.
    """
    paths = files.expand_patterns(
        wanted.input_file, "input_file", files.BESIDE_RECORDS
    )
    tokenizer = None
    if wanted.vocabulary.kind is not None:
        tokenizer = tokenization.load(wanted.vocabulary)
    inspector = Inspector(wanted, tokenizer)
    try:
        for path in paths:
            if not inspector.is_done:
                inspector.read(path)
        if wanted.statistics:
            inspector.print_statistics()
        sys.stdout.flush()
    except BrokenPipeError:  # Whoever reads has seen enough, such as `head`.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    options.run_script(run, InspectOptions)
