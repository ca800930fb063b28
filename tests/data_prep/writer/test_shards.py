import errno
import gzip
import hashlib
import os
import pathlib

import pytest

from albert_tf.data import manifests
from data_prep import create_pretraining_data
from data_prep.writer import instances, work_folder
from tests.conftest import refused
from tests.data_prep import writing


def test_full_disk_keeps_finished_work_and_shows_no_half_file(
    base, tmp_path, monkeypatch, many_pieces
):
    whole = writing.in_folder(base, tmp_path / "whole")
    original = create_pretraining_data.shards.os.fsync

    def fail(descriptor):
        name = os.readlink(f"/proc/self/fd/{descriptor}")
        if "/1.tfrecord." in name:
            raise OSError(errno.ENOSPC, "No space left on device")
        original(descriptor)

    (tmp_path / "full").mkdir()
    output = ",".join(
        str(tmp_path / "full" / f"{i}.tfrecord") for i in range(3)
    )
    monkeypatch.setattr(create_pretraining_data.shards.os, "fsync", fail)
    with pytest.raises(OSError, match=r"No space left.*free.*/1.tfrecord'"):
        writing.run(base, output_file=output)
    for path in (tmp_path / "full").glob("*.tfrecord"):
        assert path.read_bytes() == whole[path.name]
    monkeypatch.setattr(create_pretraining_data.shards.os, "fsync", original)
    writing.run(base, output_file=output)
    files = writing.content(tmp_path / "full")
    del files["0.tfrecord.manifest.json"]
    assert files == whole


def test_full_disk_behind_a_finished_shard_is_told(base, monkeypatch):
    original = work_folder.WorkFolder.write

    def write(folder, name, facts):
        if name.startswith("shard-"):
            raise OSError(errno.ENOSPC, "No space left on device")
        original(folder, name, facts)

    monkeypatch.setattr(work_folder.WorkFolder, "write", write)
    with pytest.raises(OSError, match="No space left"):
        writing.run(base)


def test_work_serves_another_number_of_shards(base, monkeypatch, tmp_path):
    with refused("names 10000 files"):
        writing.run(base, num_shards=10000)
    built = []
    monkeypatch.setattr(instances, "save", lambda *given: built.append(given))
    writing.run(base, num_shards=2)
    assert not built
    monkeypatch.undo()
    writing.run(base, output_file=str(tmp_path / "x"), num_shards=2)
    for shard in range(2):
        name = f"-{shard:05d}-of-00002"
        assert (tmp_path / f"x{name}").read_bytes() == (
            pathlib.Path(f"{base.output_file}{name}").read_bytes()
        )


def test_shards_have_equal_numbers_of_records(base, tmp_path):
    options = writing.run(base, output_file=str(tmp_path / "x"), num_shards=5)
    manifest = manifests.find(str(tmp_path / "x-00002-of-00005"))
    assert options.num_shards == len(manifest.shards) == 5
    writing.run(base)
    assert manifests.find(base.output_file).summary == manifest.summary
    sizes = [
        len(writing.read_file(tmp_path / name, 32, 5)["input_ids"])
        for name in manifest.shards
    ]
    assert sum(sizes) == manifest.num_examples
    assert max(sizes) - min(sizes) <= 1
    for name, digest in zip(
        manifest.shards, manifest.shard_sha256, strict=True
    ):
        content = (tmp_path / name).read_bytes()
        assert hashlib.sha256(content).hexdigest() == digest


def test_packed_output_holds_the_same_records(base, tmp_path):
    writing.run(base)
    writing.run(base, output_file=str(tmp_path / "x.tfrecord.gz"))
    packed = gzip.decompress((tmp_path / "x.tfrecord.gz").read_bytes())
    assert packed == pathlib.Path(base.output_file).read_bytes()


def test_output_through_a_symbolic_link(base, tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there/file")
    writing.run(base, output_file=str(tmp_path / "link"))
    writing.run(base)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "there" / "file").read_bytes() == (
        pathlib.Path(base.output_file).read_bytes()
    )
