import dataclasses
import gzip
import os
import pathlib

import pytest

from albert_tf.data import layouts, manifests, record_check, tfrecord
from tests import record_files
from tests.albert_tf.data.small_records import LAYOUT, MANIFEST, VALUES
from tests.conftest import refused

EXPECTED = record_check.Expected(8, 2, 20)


@pytest.fixture
def record_path(tmp_path):
    """One file with one record, without a manifest."""
    path = str(tmp_path / "a.tfrecord")
    record_files.write(path, [VALUES], LAYOUT)
    return path


def write_manifest(path, **changes):
    changes = {"shard_bytes": (os.path.getsize(path),), **changes}
    manifest = dataclasses.replace(MANIFEST, **changes)
    manifests.write([path], manifest)
    return manifest


def test_check_accepts_what_was_asked_for(record_path):
    assert record_check.check_records([record_path], EXPECTED) == []
    other = str(pathlib.Path(record_path).with_name("b"))
    record_files.write(other, [VALUES], LAYOUT)
    size = os.path.getsize(other)
    manifest = write_manifest(
        record_path, shards=("a.tfrecord", "b"), shard_bytes=(size, size)
    )
    found = record_check.check_records([record_path, other], EXPECTED)
    assert found == [manifest]
    with open(other, "ab") as stream:
        stream.write(b"x")
    words = rf"b` has {size + 1} bytes; its manifest says {size}\. It is cut"
    with refused(words):
        record_check.check_records([record_path, other], EXPECTED)


def test_records_are_of_the_kind_that_is_asked_for(record_path):
    passages = dataclasses.replace(EXPECTED, kind="passages", has_masks=False)
    words = "holds instances, but `records=passages` is asked for. Give `reco"
    with refused(words):
        record_check.check_records([record_path], passages)
    layout = layouts.passage_layout(8)
    values = {"tokens": [5] * 6, "marks": [1] * 6, "document": 0}
    record_files.write(record_path, [values], layout)
    assert record_check.check_records([record_path], passages) == []
    with refused("passages, but `records=inst"):
        record_check.check_records([record_path], EXPECTED)


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
    ],
)
def test_check_names_the_difference(
    record_path, with_manifest, change, message
):
    expected = dataclasses.replace(EXPECTED, **change)
    if with_manifest:
        write_manifest(record_path)
    with refused(message):
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
        # Not the first record, and with a checksum that fits.
        ("a", lambda whole: whole + long_head(2**40), "record 2 .*1,099,511"),
        ("a", lambda whole: whole + long_head(2**63), "record 2 .*9,223,372"),
        ("a", lambda whole: whole + long_head(2**31), "record 2 .*2,147,483"),
        ("a", lambda whole: whole + long_head(99), "record 2 .*the file ends"),
        ("a", lambda whole: whole + b"x", "record 2 .*the file ends"),
        (
            "a.gz",
            lambda whole: gzip.compress(whole + long_head(2**40)),
            "record 2 .*1,099,511",
        ),
        ("a", lambda whole: framed(b"no example"), "lacks input_ids, input_m"),
        ("a", lambda whole: framed(b""), "lacks input_ids, input_mask"),
    ],
)
def test_check_names_what_is_wrong_with_a_file(
    record_path, tmp_path, name, change, message
):
    path = tmp_path / name
    path.write_bytes(change(pathlib.Path(record_path).read_bytes()))
    with refused(message):
        record_check.check_records([str(path)], EXPECTED)


def test_check_compares_the_vocabulary_with_the_manifest(record_path):
    write_manifest(record_path)
    fewer = dataclasses.replace(EXPECTED, vocab_size=12)
    with refused("eval_input_file=.*a.tfrec.* 20 pi.* has 12"):
        record_check.check_records([record_path], fewer, "eval_input_file")
    more = dataclasses.replace(EXPECTED, vocab_size=25, sentinels=5)
    assert record_check.check_records([record_path], more)
    with refused("5 more, which .* with vocab_size=25"):
        record_check.check_records(
            [record_path], dataclasses.replace(more, vocab_size=20)
        )


def test_records_of_other_programs(record_path, tmp_path, caplog):
    """Without word starts; other features are said once, and not used."""
    caplog.set_level("INFO", "absl")
    layout = [f for f in LAYOUT if f.name != "token_boundary"]
    layout += [layouts.Feature("doc_id", (1,), "int64")]
    values = {**VALUES, "doc_id": [7]}
    del values["token_boundary"]
    path = str(tmp_path / "other")
    record_files.write(path, [values, values], layout)
    assert record_check.check_records([path], EXPECTED) == []
    (said,) = [m for m in caplog.messages if "no use of" in m]
    assert said.endswith("training makes no use of doc_id in it.")
    caplog.clear()
    record_check.check_records([record_path], EXPECTED)
    assert not caplog.messages


def long_head(length):
    """The head of a record of so many bytes, and some of them."""
    return tfrecord._frame_head(length) + bytes(30)


def framed(message):
    return tfrecord.frame_batch([message])[0]


@pytest.mark.parametrize("with_manifest", [False, True])
def test_masks_are_where_training_expects_them(
    record_path, tmp_path, with_manifest
):
    layout = layouts.without_masks(LAYOUT)
    plain = str(tmp_path / "plain.tfrecord")
    values = {feature.name: VALUES[feature.name] for feature in layout}
    record_files.write(plain, [values], layout)
    if with_manifest:
        write_manifest(record_path)
        write_manifest(plain, shards=("plain.tfrecord",), has_masks=False)
    unmasked = dataclasses.replace(
        EXPECTED, has_masks=False, max_predictions_per_seq=7
    )
    assert len(record_check.check_records([plain], unmasked)) == with_manifest
    with refused("plain.* holds no masks"):
        record_check.check_records([plain], EXPECTED)
    with refused("_budget` is given, but the re"):
        record_check.check_records([record_path], unmasked)
    layout = [f for f in layout if f.name != "token_boundary"]
    del values["token_boundary"]
    other = str(tmp_path / "other")
    record_files.write(other, [values], layout)
    with refused("record lacks token_boundary"):
        record_check.check_records([other], unmasked)
