"""Read pretraining records, many at a time, without knowing their layout."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from albert_tf.common import errors
from albert_tf.data import examples, layouts, tfrecord
from data_prep.inspection import record_statistics

_BATCH = 1024
_NEEDED = frozenset(
    {"input_ids", "input_mask", "segment_ids", "next_sentence_labels"}
)


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

    Features that are not known are left out; those of masking and of word
    starts may be missing.
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
    if not names >= record_statistics.PREDICTIONS:
        names -= record_statistics.PREDICTIONS
    return tuple(feature for feature in layout if feature.name in names)


def parse_batch(
    layout: layouts.Layout, batch: Sequence[bytes], path: str
) -> record_statistics.Features:
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
