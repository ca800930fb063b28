import dataclasses
import gzip
import os
import pathlib

import pytest

from albert_tf.common import errors
from albert_tf.data import layouts, manifests, record_check, tfrecord
from tests import record_files
from tests.albert_tf.data.small_records import LAYOUT, MANIFEST, VALUES

EXPECTED = record_check.Expected(8, 2, 20, "c0ffee")


@pytest.fixture
def record_path(tmp_path):
    """One file with one record, without a manifest."""
    path = str(tmp_path / "a.tfrecord")
    record_files.write(path, [record_files.encode(LAYOUT, VALUES)])
    return path


def write_manifest(path, **changes):
    changes = {"shard_bytes": (os.path.getsize(path),), **changes}
    manifest = dataclasses.replace(MANIFEST, **changes)
    manifests.write([path], manifest)
    return manifest


def test_check_accepts_what_was_asked_for(record_path):
    assert record_check.check_records([record_path], EXPECTED) == []
    manifest = write_manifest(record_path)
    assert record_check.check_records([record_path], EXPECTED) == [manifest]
    unknown = dataclasses.replace(EXPECTED, vocab_sha256=None)
    assert record_check.check_records([record_path], unknown) == [manifest]


@pytest.mark.parametrize("with_manifest", [False, True])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"max_seq_length": 9},
            "`max_seq_length=9` is given, but .* max_seq_length=8",
        ),
        (
            {"max_predictions_per_seq": 4},
            "`max_predictions_per_seq=4` is given, but",
        ),
        ({"vocab_size": 12}, "eval_input_file=.*a.tfrec.*model has 12"),
        ({"vocab_sha256": "decaf"}, "another vocabulary .*c0ffee"),
    ],
)
def test_check_names_the_difference(
    record_path, with_manifest, change, message
):
    expected = dataclasses.replace(EXPECTED, **change)
    if with_manifest:
        write_manifest(record_path)
    elif "vocab_sha256" in change:  # Only manifests know it.
        assert not record_check.check_records([record_path], expected)
        return
    with pytest.raises(errors.UserError, match=message):
        record_check.check_records([record_path], expected, "eval_input_file")


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("a", lambda whole: b"", "`input_file=.*a` holds no record"),
        ("a", lambda whole: b"It rains.\n" * 9, "is not a TFRecord file"),
        ("a.gz", lambda whole: b"It rains.\n" * 9, "is not a TFRecord file"),
        ("a.gz", lambda whole: gzip.compress(whole)[:-20], "is damaged"),
        ("a", lambda whole: whole[:5], "is damaged"),
        ("a", lambda whole: whole[:30], "is damaged"),
        ("a", lambda whole: whole[:-1], "is damaged"),
        ("a", lambda whole: whole[:40] + b"\xff" + whole[41:], "is damaged"),
        ("a", lambda whole: framed(b"no example"), "lacks input_ids, input_m"),
        ("a", lambda whole: framed(b""), "lacks input_ids, input_mask"),
    ],
)
def test_check_names_what_is_wrong_with_a_file(
    record_path, tmp_path, name, change, message
):
    path = tmp_path / name
    path.write_bytes(change(pathlib.Path(record_path).read_bytes()))
    with pytest.raises(errors.UserError, match=message):
        record_check.check_records([str(path)], EXPECTED)


def framed(message):
    return tfrecord.frame_batch([message])[0]


def test_the_highest_piece_may_be_the_last_of_the_model(record_path):
    """Records without a manifest: the pieces in them are known only."""
    most = 1 + max(VALUES["input_ids"] + VALUES["masked_lm_ids"])
    last = dataclasses.replace(EXPECTED, vocab_size=most)
    assert record_check.check_records([record_path], last) == []
    fewer = dataclasses.replace(EXPECTED, vocab_size=most - 1)
    with pytest.raises(errors.UserError, match=f"piece id {most - 1}; the"):
        record_check.check_records([record_path], fewer)


@pytest.mark.parametrize("with_manifest", [False, True])
def test_masks_are_where_training_expects_them(
    record_path, tmp_path, with_manifest
):
    layout = layouts.without_masks(LAYOUT)
    plain = str(tmp_path / "plain.tfrecord")
    values = {feature.name: VALUES[feature.name] for feature in layout}
    record_files.write(plain, [record_files.encode(layout, values)])
    if with_manifest:
        write_manifest(record_path)
        write_manifest(plain, shards=("plain.tfrecord",), has_masks=False)
    unmasked = dataclasses.replace(
        EXPECTED, has_masks=False, max_predictions_per_seq=7
    )
    assert len(record_check.check_records([plain], unmasked)) == with_manifest
    with pytest.raises(errors.UserError, match="plain.* holds no masks"):
        record_check.check_records([plain], EXPECTED)
    with pytest.raises(errors.UserError, match="_budget` is given, but the re"):
        record_check.check_records([record_path], unmasked)
