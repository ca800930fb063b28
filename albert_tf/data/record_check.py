"""Check that record files are what training expects."""

import dataclasses
from collections.abc import Sequence

from absl import logging

from albert_tf.common import errors
from albert_tf.data import examples, layouts, manifests, tfrecord


@dataclasses.dataclass(frozen=True)
class Expected:
    """The properties that training expects of its records.

    Attributes:
        has_masks: Whether pieces are masked in the records already.
        kind: One of `layouts.KINDS`.
        sentinels: How many ids of the model are no pieces.
    """

    max_seq_length: int
    max_predictions_per_seq: int
    vocab_size: int
    has_masks: bool = True
    kind: str = "instances"
    sentinels: int = 0


def check_records(
    paths: Sequence[str], expected: Expected, argument: str = "input_file"
) -> list[manifests.Manifest]:
    """Make sure that records are as training expects; return their manifests.

    Files with a manifest are compared with it. For files without one, such as
    those of the original program, the first record is looked at.
    """
    checked: list[manifests.Manifest] = []
    for path in paths:
        manifest, where = manifests.find(path), f"`{argument}={path}`"
        if manifest is not None:
            manifests.check_sizes([path], argument)
            _check_manifest(manifest, expected, where)
            if manifest not in checked:
                checked.append(manifest)
        if not tfrecord.count_records(path):
            raise errors.UserError(
                f"{where} holds no record. Training needs one in every file. "
                "Leave the file out, or write the records again with fewer "
                "output files or more text."
            )
        if manifest is None:
            first = next(tfrecord.read_records(path))
            _check_first_record(where, first, expected)
    return checked


def _check_manifest(
    manifest: manifests.Manifest, expected: Expected, where: str
) -> None:
    _check_kind(where, manifest.kind, expected)
    _check_lengths(where, manifest, expected)
    needed = manifest.vocab_size + expected.sentinels
    if needed != expected.vocab_size:
        rule = "Both must be equal"
        if expected.sentinels:
            rule = f"It needs {expected.sentinels} more, which stand for spans"
        raise errors.UserError(
            f"{where} was written with a vocabulary of {manifest.vocab_size} "
            f"pieces; the model has {expected.vocab_size}. {rule}. Use a model "
            f"config with vocab_size={needed}, or write the records again with "
            "the model's vocabulary."
        )


def _check_first_record(where: str, record: bytes, expected: Expected) -> None:
    """Check a file without a manifest by its first record."""
    try:
        features = examples.decode(record)
    except ValueError:
        features = {}
    kind = "passages" if "tokens" in features else "instances"
    _check_kind(where, kind, expected)
    whole = layouts.pretraining_layout(1, 1)
    layout = whole if expected.has_masks else layouts.without_masks(whole)
    if expected.kind == "passages":
        layout = whole = layouts.passage_layout(expected.max_seq_length)
    missing = [
        feature.name
        for feature in layout
        if feature.missing is None
        and feature.name not in features
        and not feature.name.startswith("masked_lm_")
    ]
    if missing:
        raise errors.UserError(
            f"{where} does not hold pretraining records: its first record "
            f"lacks {', '.join(missing)}. Give files written by "
            "data_prep.create_pretraining_data."
        )
    if extra := features.keys() - {feature.name for feature in whole}:
        names = ", ".join(sorted(extra))
        logging.info("%s: training makes no use of %s in it.", where, names)
    if expected.kind == "passages":
        return  # Their lengths say nothing of the longest.
    properties = Expected(
        len(features["input_ids"]),
        len(features.get("masked_lm_positions", [])),
        expected.vocab_size,
        has_masks="masked_lm_ids" in features,
    )
    _check_lengths(where, properties, expected)


def _check_kind(where: str, kind: str, expected: Expected) -> None:
    if kind != expected.kind:
        raise errors.UserError(
            f"{where} holds {kind}, but `records={expected.kind}` is asked "
            f"for. Give `records={kind}`, or write the records again with "
            f"`records={expected.kind}`."
        )


def _check_lengths(
    where: str, written: Expected | manifests.Manifest, expected: Expected
) -> None:
    if written.has_masks and not expected.has_masks:
        raise errors.UserError(
            f"`masked_lm_budget` is given, but the records {where} hold masks "
            "already. Remove the option, or write records with "
            "`masking_time=training`."
        )
    if expected.has_masks and not written.has_masks:
        raise errors.UserError(
            f"{where} holds no masks (`masking_time=training`). Give "
            "`masked_lm_budget=20` to mask them in training, or write them "
            "again."
        )
    names = ["max_seq_length"]
    if expected.has_masks:
        names.append("max_predictions_per_seq")
    for name in names:
        actual, needed = getattr(written, name), getattr(expected, name)
        if actual != needed:
            raise errors.UserError(
                f"`{name}={needed}` is given, but the records {where} were "
                f"written with {name}={actual}. Both must be equal (with "
                "`do_permutation` the records hold twice the predictions). "
                f"Use `{name}={actual}`, or write the records again."
            )
