import dataclasses
import os

import pytest

from albert_tf.common import errors
from albert_tf.data import layouts, manifests, record_check
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
        ({"vocab_size": 12}, "12 pieces|model has 12"),
    ],
)
def test_check_names_the_difference(
    record_path, with_manifest, change, message
):
    if with_manifest:
        write_manifest(record_path)
    expected = dataclasses.replace(EXPECTED, **change)
    with pytest.raises(errors.UserError, match=message):
        record_check.check_records([record_path], expected)


def test_check_notices_another_vocabulary_of_the_same_size(record_path):
    write_manifest(record_path)
    expected = dataclasses.replace(EXPECTED, vocab_sha256="decaf")
    with pytest.raises(errors.UserError, match="another vocabulary .*c0ffee"):
        record_check.check_records([record_path], expected)


def test_check_names_an_empty_file(tmp_path):
    (tmp_path / "a").touch()
    with pytest.raises(
        errors.UserError, match="`input_file=.*a` holds no record"
    ):
        record_check.check_records([str(tmp_path / "a")], EXPECTED)


@pytest.mark.parametrize("name", ["a", "a.gz"])
def test_check_tells_other_files_from_damaged_ones(tmp_path, name):
    path = tmp_path / name
    path.write_text("It rains.\n" * 9)
    with pytest.raises(errors.UserError, match="is not a TFRecord file"):
        record_check.check_records([str(path)], EXPECTED)


def test_check_names_the_argument(record_path):
    expected = dataclasses.replace(EXPECTED, vocab_size=12)
    with pytest.raises(errors.UserError, match="^`eval_input_file=.*a.tfrec"):
        record_check.check_records([record_path], expected, "eval_input_file")


def test_check_names_a_missing_file(tmp_path):
    with pytest.raises(errors.UserError, match="does not exist"):
        record_check.check_records([str(tmp_path / "a")], EXPECTED)


@pytest.mark.parametrize("kept", [5, 30, -1])
def test_check_names_a_file_that_is_cut_short(record_path, kept):
    with open(record_path, "rb") as stream:
        content = stream.read()
    with open(record_path, "wb") as stream:
        stream.write(content[:kept])
    with pytest.raises(errors.UserError, match="is damaged"):
        record_check.check_records([record_path], EXPECTED)


def test_check_names_a_damaged_file(record_path):
    with open(record_path, "r+b") as stream:
        stream.seek(40)
        stream.write(b"\xff\xff")
    with pytest.raises(errors.UserError, match="is damaged"):
        record_check.check_records([record_path], EXPECTED)


def test_check_compares_the_size_with_the_manifest(record_path):
    write_manifest(record_path, shard_bytes=(10_000,))
    with pytest.raises(errors.UserError, match="manifest says 10,000"):
        record_check.check_records([record_path], EXPECTED)


@pytest.mark.parametrize("record", [b"no example", b""])
def test_check_names_records_of_another_kind(tmp_path, record):
    path = str(tmp_path / "a")
    record_files.write(path, [record])
    with pytest.raises(errors.UserError, match="lacks input_ids, input_mask"):
        record_check.check_records([path], EXPECTED)


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
