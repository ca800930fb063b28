import dataclasses
import json
import os
import pathlib
import re

import numpy as np
import pytest

from albert_tf import errors, records

LAYOUT = records.pretraining_layout(8, 2)
VALUES = {
    "input_ids": [2, 4, 11, 3, 12, 3, 0, 0],
    "input_mask": [1, 1, 1, 1, 1, 1, 0, 0],
    "segment_ids": [0, 0, 0, 0, 1, 1, 0, 0],
    "token_boundary": [1, 1, 0, 1, 1, 1, 0, 0],
    "masked_lm_positions": [1, 0],
    "masked_lm_ids": [10, 0],
    "masked_lm_weights": [1.0, 0.0],
    "next_sentence_labels": [1],
}
MANIFEST = records.Manifest(
    shards=("a.tfrecord",),
    shard_bytes=(0,),
    num_examples=1,
    max_seq_length=8,
    max_predictions_per_seq=2,
    vocab_size=20,
    vocab_sha256="c0ffee",
    random_seed=1,
    options={"ngram": 3},
    versions={"python": "3.11"},
)
EXPECTED = records.Expected(8, 2, 20, "c0ffee")


@pytest.fixture
def record_path(tmp_path):
    """One file with one record, without a manifest."""
    path = str(tmp_path / "a.tfrecord")
    with records.ShardedWriter([path]) as writer:
        writer.write(records.encode(LAYOUT, VALUES))
    return path


def write_manifest(path, **changes):
    changes = {"shard_bytes": records.shard_sizes([path]), **changes}
    manifest = dataclasses.replace(MANIFEST, **changes)
    records.write_manifest([path], manifest)
    return manifest


def test_pretraining_layout_has_the_names_and_types_of_the_original():
    layout = {f.name: (f.shape, f.dtype) for f in LAYOUT}
    assert layout == {
        "input_ids": ((8,), "int64"),
        "input_mask": ((8,), "int64"),
        "segment_ids": ((8,), "int64"),
        "token_boundary": ((8,), "int64"),
        "masked_lm_positions": ((2,), "int64"),
        "masked_lm_ids": ((2,), "int64"),
        "masked_lm_weights": ((2,), "float32"),
        "next_sentence_labels": ((1,), "int64"),
    }


@pytest.mark.parametrize("regression", [False, True])
def test_classification_layout_round_trip(regression):
    layout = records.classification_layout(2, regression=regression)
    label = 2.5 if regression else 2
    values = {
        "input_ids": np.array([5, 6]),
        "input_mask": [1, 1],
        "segment_ids": (0, 1),
        "label_ids": label,
        "is_real_example": 1,
    }
    parsed = records.parse(layout, [records.encode(layout, values)])
    assert parsed["label_ids"].numpy().tolist() == [label]
    assert parsed["label_ids"].dtype.name == (
        "float32" if regression else "int32"
    )
    assert parsed["input_ids"].numpy().tolist() == [[5, 6]]


def test_parse_restores_what_was_encoded_inside_a_dataset():
    import tensorflow as tf

    serialized = [records.encode(LAYOUT, VALUES)] * 3
    dataset = tf.data.Dataset.from_tensor_slices(serialized).batch(3)
    dataset = dataset.map(lambda batch: records.parse(LAYOUT, batch))
    parsed = next(iter(dataset))
    assert parsed.keys() == VALUES.keys()
    for name, values in VALUES.items():
        assert parsed[name].numpy().tolist() == [values] * 3
        wanted = "float32" if name == "masked_lm_weights" else "int32"
        assert parsed[name].dtype.name == wanted


def test_encode_is_deterministic():
    shuffled = dict(reversed(VALUES.items()))
    assert records.encode(LAYOUT, VALUES) == records.encode(LAYOUT, shuffled)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"input_ids": [1, 2]}, "input_ids has shape (2,)"),
        ({"input_ids": np.zeros((1, 8), int)}, "has shape (1, 8)"),
        ({"surplus": [1]}, "no features ['surplus']"),
    ],
)
def test_encode_rejects_other_shapes(change, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        records.encode(LAYOUT, {**VALUES, **change})


def test_encode_rejects_missing_features():
    values = {k: v for k, v in VALUES.items() if k != "input_mask"}
    with pytest.raises(ValueError, match="input_mask has no value"):
        records.encode(LAYOUT, values)


def test_writer_deals_records_out_in_turn_and_makes_folders(tmp_path):
    paths = [str(tmp_path / "new" / "folder" / name) for name in "ab"]
    with records.ShardedWriter(paths) as writer:
        for record in (b"0", b"1", b"2"):
            writer.write(record)
        assert not any(map(os.path.exists, paths))
    assert list(records.read_records(paths[0])) == [b"0", b"2"]
    assert list(records.read_records(paths[1])) == [b"1"]
    assert sorted(os.listdir(tmp_path / "new" / "folder")) == ["a", "b"]


def test_writer_leaves_nothing_new_after_an_error(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_bytes(b"precious")
    with pytest.raises(KeyboardInterrupt):
        with records.ShardedWriter([str(old), str(new)]) as writer:
            writer.write(b"0")
            raise KeyboardInterrupt
    assert old.read_bytes() == b"precious"
    assert os.listdir(tmp_path) == ["old"]


def test_writer_names_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.UserError, match="Cannot create the folder"):
        with records.ShardedWriter([str(tmp_path / "file" / "a")]):
            pass
    (tmp_path / "b.partial").mkdir()
    with pytest.raises(errors.UserError, match="Cannot write the output file"):
        with records.ShardedWriter([str(tmp_path / "a"), str(tmp_path / "b")]):
            pass
    assert not (tmp_path / "a.partial").exists()


@pytest.mark.parametrize("paths", [[], ["a", "a"]])
def test_writer_wants_different_paths(paths):
    with pytest.raises(ValueError, match="one or more, different"):
        records.ShardedWriter(paths)


def test_manifest_is_found_by_the_name_of_any_shard(tmp_path):
    paths = [str(tmp_path / "x[1].tfrecord"), str(tmp_path / "y.tfrecord")]
    names = tuple(os.path.basename(path) for path in paths)
    manifest = dataclasses.replace(MANIFEST, shards=names, shard_bytes=(1, 2))
    written = records.write_manifest(paths, manifest)
    assert written == f"{paths[0]}.manifest.json"
    assert records.find_manifest(paths[1]) == manifest
    assert records.find_manifest(str(tmp_path / "z.tfrecord")) is None
    records.remove_manifests(paths[1:])
    assert records.find_manifest(paths[0]) is None


def test_fingerprint_follows_sizes_and_digests_not_names(tmp_path):
    paths = [str(tmp_path / name) for name in ("a.tfrecord", "b.tfrecord")]
    for path in paths:
        pathlib.Path(path).write_bytes(b"same size")
    assert records.fingerprint(paths[:1]) == records.fingerprint(paths[1:])
    assert records.fingerprint(paths) != records.fingerprint(paths[:1])
    for path, digest in zip(paths, ("one", "two"), strict=True):
        name = os.path.basename(path)
        manifest = dataclasses.replace(
            MANIFEST, shards=(name,), shard_sha256=(digest,)
        )
        records.write_manifest([path], manifest)
    assert records.fingerprint(paths) != records.fingerprint(paths[::-1])


def test_manifest_is_found_in_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    records.write_manifest(["a.tfrecord"], MANIFEST)
    assert records.find_manifest("a.tfrecord") == MANIFEST


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "cannot be read"),
        ("[" * 100_000, "cannot be read .*nested too deeply"),
        ("9" * 6000, "cannot be read .*too large"),
        ("{}", "cannot be read"),
        ('{"format_version": 99}', "format version 99"),
    ],
)
def test_unusable_manifest_is_named(tmp_path, text, message):
    (tmp_path / "a.tfrecord.manifest.json").write_text(text)
    with pytest.raises(errors.UserError, match=message):
        records.find_manifest(str(tmp_path / "a.tfrecord"))


def test_check_accepts_what_was_asked_for(record_path):
    assert records.check_records([record_path], EXPECTED) == []
    manifest = write_manifest(record_path)
    assert records.check_records([record_path], EXPECTED) == [manifest]
    unknown = dataclasses.replace(EXPECTED, vocab_sha256=None)
    assert records.check_records([record_path], unknown) == [manifest]


@pytest.mark.parametrize("with_manifest", [False, True])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_seq_length": 9}, "--max_seq_length=9, but .* max_seq_length=8"),
        ({"max_predictions_per_seq": 4}, "--max_predictions_per_seq=4, but"),
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
        records.check_records([record_path], expected)


def test_check_notices_another_vocabulary_of_the_same_size(record_path):
    write_manifest(record_path)
    expected = dataclasses.replace(EXPECTED, vocab_sha256="decaf")
    with pytest.raises(errors.UserError, match="another vocabulary .*c0ffee"):
        records.check_records([record_path], expected)


@pytest.mark.parametrize("content", [b"", b"short"])
def test_check_names_an_empty_file(tmp_path, content):
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(errors.UserError, match="a holds no record"):
        records.check_records([str(tmp_path / "a")], EXPECTED)


def test_check_names_a_missing_file(tmp_path):
    with pytest.raises(errors.UserError, match="does not exist"):
        records.check_records([str(tmp_path / "a")], EXPECTED)


@pytest.mark.parametrize("kept", [30, -1])
def test_check_names_a_file_that_is_cut_short(record_path, kept):
    with open(record_path, "rb") as stream:
        content = stream.read()
    with open(record_path, "wb") as stream:
        stream.write(content[:kept])
    with pytest.raises(errors.UserError, match="is damaged"):
        records.check_records([record_path], EXPECTED)


def test_check_names_a_damaged_file(record_path):
    with open(record_path, "r+b") as stream:
        stream.seek(40)
        stream.write(b"\xff\xff")
    with pytest.raises(errors.UserError, match="is damaged"):
        records.check_records([record_path], EXPECTED)


def test_check_compares_the_size_with_the_manifest(record_path):
    write_manifest(record_path, shard_bytes=(10_000,))
    with pytest.raises(errors.UserError, match="manifest says 10,000"):
        records.check_records([record_path], EXPECTED)


@pytest.mark.parametrize("record", [b"no example", b""])
def test_check_names_records_of_another_kind(tmp_path, record):
    path = str(tmp_path / "a")
    with records.ShardedWriter([path]) as writer:
        writer.write(record)
    with pytest.raises(errors.UserError, match="lacks input_ids, input_mask"):
        records.check_records([path], EXPECTED)


@pytest.mark.parametrize(
    "change",
    [
        *({"shard_bytes": ("1",)}, {"shard_bytes": ({},)}),
        *({"shard_bytes": ()}, {"vocab_sha256": 7}),
    ],
)
def test_values_of_other_types_make_a_manifest_unusable(record_path, change):
    write_manifest(record_path, **change)
    with pytest.raises(errors.UserError, match="cannot be read"):
        records.check_records([record_path], EXPECTED)


def test_manifest_is_plain_json(record_path):
    write_manifest(record_path)
    with open(f"{record_path}.manifest.json") as stream:
        values = json.load(stream)
    assert values["format_version"] == 1
    assert values["shards"] == ["a.tfrecord"]
    assert values["options"] == {"ngram": 3}
