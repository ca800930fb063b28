import contextlib
import dataclasses
import hashlib
import json
import os
import pathlib

import pytest

from albert_tf.data import manifests
from tests.albert_tf.data.small_records import MANIFEST
from tests.conftest import refused


def test_manifest_is_found_by_the_name_of_any_shard(tmp_path):
    paths = [str(tmp_path / "x[1].tfrecord"), str(tmp_path / "y.tfrecord")]
    names = tuple(os.path.basename(path) for path in paths)
    manifest = dataclasses.replace(MANIFEST, shards=names, shard_bytes=(1, 2))
    written = manifests.write(paths, manifest)
    assert written == f"{paths[0]}.manifest.json"
    assert manifests.find(paths[1]) == manifest
    assert manifests.find(str(tmp_path / "z.tfrecord")) is None
    manifests.remove(paths[1:])
    assert manifests.find(paths[0]) is None


def test_fingerprint_follows_sizes_and_digests_not_names(tmp_path):
    paths = [str(tmp_path / name) for name in ("a.tfrecord", "b.tfrecord")]
    for path in paths:
        pathlib.Path(path).write_bytes(b"same size")
    assert manifests.fingerprint(paths[:1]) == manifests.fingerprint(paths[1:])
    assert manifests.fingerprint(paths) != manifests.fingerprint(paths[:1])
    names = tuple(map(os.path.basename, paths))
    sizes, digests = (9, 9), ("one", "two")
    values = {"shards": names, "shard_bytes": sizes, "shard_sha256": digests}
    manifests.write(paths, dataclasses.replace(MANIFEST, **values))
    for files, known in ((paths, "9 one\n9 two\n"), (paths[1:], "9 two\n")):
        expected = hashlib.sha256(known.encode()).hexdigest()
        assert manifests.fingerprint(files) == expected
    other = str(tmp_path / "c.tfrecord")
    manifests.write(
        [other],
        dataclasses.replace(
            MANIFEST, shards=("c.tfrecord",), vocab_sha256="decade"
        ),
    )
    found = manifests.vocab_hashes([*paths, other, str(tmp_path / "d")])
    assert found == {
        f"the record file {paths[0]}": {"c0ffee"},
        f"the record file {other}": {"decade"},
    }
    words = str(tmp_path / "words.npy")
    assert manifests.embeddings_vocab_hashes(words) == {}
    for records, known in (([other], {"decade"}), ([words], None)):
        manifests.write_vocabulary_of_embeddings(words, records)
        name = f"`word_embeddings_file={words}`"
        found = manifests.embeddings_vocab_hashes(words)
        assert found == ({name: known} if known else {})


def test_manifest_is_found_in_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    manifests.write(["a.tfrecord"], MANIFEST)
    assert manifests.find("a.tfrecord") == MANIFEST


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("{", "cannot be read"),
        ("[" * 100_000, "cannot be read .*depth limit"),
        ("9" * 6000, "cannot be read .*number is infinity"),
        ("{}", "cannot be read"),
        ('{"format_version": 99}', "format version 99"),
        ({"shard_bytes": ("1",)}, "cannot be read"),
        ({"shard_bytes": ({},)}, "cannot be read"),
        ({"shard_bytes": ()}, "cannot be read"),
        ({"vocab_sha256": 7}, "cannot be read"),
    ],
)
def test_unusable_manifest_is_named(tmp_path, change, message):
    path = str(tmp_path / "a.tfrecord")
    pathlib.Path(path).touch()
    if isinstance(change, str):
        pathlib.Path(f"{path}.manifest.json").write_text(change)
    else:
        manifests.write([path], dataclasses.replace(MANIFEST, **change))
    with refused(message):
        manifests.find(path)


def test_a_changed_byte_of_a_manifest_is_noticed(tmp_path):
    record_path = str(tmp_path / "a.tfrecord")
    pathlib.Path(record_path).touch()
    path = pathlib.Path(manifests.write([record_path], MANIFEST))
    whole = path.read_bytes()
    for place, byte in enumerate(whole):
        if bytes([byte]).isalnum():
            flipped = bytes([byte ^ 1])
            path.write_bytes(whole[:place] + flipped + whole[place + 1 :])
            with refused("manifest.*(read|vers)"):
                manifests.find(record_path)


def test_manifest_without_a_checksum_is_read(tmp_path):
    record_path = str(tmp_path / "a.tfrecord")
    path = pathlib.Path(manifests.write([record_path], MANIFEST))
    content = json.loads(path.read_text())
    del content["crc32c"]
    path.write_text(json.dumps(content))
    assert manifests.find(record_path) == MANIFEST


@pytest.mark.parametrize(
    ("options", "objective"),
    [
        ({"sentence_objective": "none"}, "none"),
        # Of earlier versions, and of the original.
        ({"random_next_sentence": True}, "nsp"),
        ({}, "sop"),
    ],
)
def test_the_objective_of_labels_follows_from_the_manifest(options, objective):
    manifest = dataclasses.replace(MANIFEST, options=options)
    assert manifest.sentence_objective == objective


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ({}, None),
        ({"a": ["1"], "b": [], "c": ["1"]}, None),
        ({"a": ["1", "2"], "b": ["2"]}, None),  # One of them is the right one.
        ({"a": ["1"], "b": ["2"]}, "A has another vocab.* 1. than b .* 2."),
        ({"a": ["1"], "b": [], "c": ["2"]}, "A has another .* than c"),
        ({"a": ["1", "2"], "b": ["2"], "c": ["1"]}, "B has another .* than c"),
    ],
)
def test_what_knows_a_vocabulary_agrees(known, message):
    expected = contextlib.nullcontext()
    if message:
        expected = refused(message)
    with expected:
        manifests.check_vocabularies(known)


@pytest.mark.parametrize(
    "text", ['{"name": "my app"}', "[]", "{}", '{"shards": [7]}', "", "a: 1"]
)
def test_a_manifest_of_another_program_is_passed_over(tmp_path, text):
    (tmp_path / "app.manifest.json").write_text(text)
    assert manifests.find(str(tmp_path / "a.tfrecord")) is None
