"""What earlier work and records were made from, compared with new options."""

import dataclasses
import os
import pathlib
import re
import unicodedata
from importlib import metadata

import pytest
import sentencepiece

from albert_tf.data import manifests
from data_prep.writer import instances, same_job
from tests.conftest import changed, refused
from tests.data_prep import writing


def test_work_of_another_job_is_refused_and_kept(base, monkeypatch, tmp_path):
    writing.interrupt(base, monkeypatch, instances, "save")
    place = base.output_file + ".work"
    work = writing.read_folder(place)
    with refused("--dupe_factor was 3, is now 4\nRepeat.*remove.*`overwrite`"):
        writing.run(base, dupe_factor=4)
    os.utime(tmp_path / "a.txt", (1, 1))
    with refused("a.txt was changed"):
        writing.run(base)
    assert writing.read_folder(place) == work
    writing.run(base, dupe_factor=4, overwrite=True)
    assert not os.path.exists(place)
    writing.run(base, dupe_factor=4, output_file=str(tmp_path / "x"))
    assert (tmp_path / "x").read_bytes() == (
        pathlib.Path(base.output_file).read_bytes()
    )


def test_output_of_other_options_is_protected(base, tmp_path):
    """Also after a command that was to replace it, but failed."""
    output = pathlib.Path(writing.run(base).output_file)
    before = output.read_bytes()
    writing.run(base)  # The same options may be repeated.
    (tmp_path / "bad").write_bytes(b"it rains\n\xff\n")
    message = "--dupe_factor was 3, is now 4\nOnly.*`overwrite`"
    for _ in range(2):
        assert output.read_bytes() == before
        with refused(message):
            writing.run(base, dupe_factor=4)
        with refused("bad"):
            writing.run(base, input_file=str(tmp_path / "bad"), overwrite=True)
    writing.run(base, dupe_factor=4, overwrite=True)
    manifest = manifests.find(base.output_file)
    assert manifest is not None and manifest.options["dupe_factor"] == 4


def test_output_may_be_named_by_another_path(base, monkeypatch):
    writing.run(base)
    monkeypatch.chdir(os.path.dirname(base.output_file))
    writing.run(base, output_file="a.tfrecord")
    with refused(r"named \['a.tfrecord'\]"):
        writing.run(base, output_file="a.tfrecord,b.tfrecord")


def test_output_of_another_vocabulary_is_protected(base, monkeypatch):
    writing.run(base)
    manifest = manifests.find(base.output_file)
    monkeypatch.setattr(
        manifests,
        "find",
        lambda path: dataclasses.replace(manifest, vocab_sha256="another"),
    )
    with refused("vocabulary file has other content"):
        writing.run(base)


def test_output_of_another_program_is_protected(base):
    os.makedirs(os.path.dirname(base.output_file))
    pathlib.Path(base.output_file).write_bytes(b"precious")
    with refused("has no manifest"):
        writing.run(base)
    assert pathlib.Path(base.output_file).read_bytes() == b"precious"


@pytest.fixture
def job(base):
    def describe(vocab_sha256="same", output="x", **changes):
        wanted = changed(base, **changes)
        folder = pathlib.Path(base.text.input_file).parent
        inputs = [str(folder / "a.txt"), str(folder / "b.txt")]
        return same_job.describe(wanted, inputs, [output], vocab_sha256)

    return describe


def test_what_changes_the_content_is_compared(job):
    for changes, lines in (
        ({"overwrite": True, "num_workers": 7, "num_shards": 3}, []),
        ({"num_workers": 0, "dask_scheduler": "host:8786"}, []),
        ({"output_file": "y", "output": "z"}, []),
        ({"spm_model_file": "moved"}, []),
        (
            {"random_seed": 1, "ngram": 2},
            ["--ngram was 3, is now 2", "--random_seed was 12345, is now 1"],
        ),
        (
            {"vocab_sha256": "another"},
            ["the vocabulary file had other content"],
        ),
    ):
        assert same_job.changes(job(), job(**changes)) == lines
    assert same_job.changes({**job(), "format": 2}, job()) == [
        "it was started by another version of this program"
    ]


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("unicode", {}),
        ("sentencepiece", {}),
        ("sentencex", {"input_format": "jsonl", "split_sentences": True}),
        ("jieba", {"word_segmenter": "jieba"}),
    ],
)
def test_versions_of_what_cuts_text_are_compared(job, monkeypatch, name, given):
    monkeypatch.setattr(metadata, "version", lambda name: "1.1")
    monkeypatch.setattr(sentencepiece, "__version__", "1.1")
    monkeypatch.setattr(unicodedata, "unidata_version", "1.1")
    now = job(**given)
    before = {**now, "versions": {**now["versions"], name: "1.0"}}
    assert same_job.changes(before, now) == [
        f"the version of {name} was '1.0', is now '1.1'"
    ]
    assert same_job.changes(now, now) == []


def test_versions_are_those_of_what_is_used(base):
    assert [*same_job.versions(base)] == ["unicode", "sentencepiece"]
    other = changed(base, spm_model_file=None, vocab_file="vocab.txt")
    assert [*same_job.versions(other)] == ["unicode"]


def test_unfinished_work_alone_depends_on_versions(base, monkeypatch):
    writing.interrupt(base, monkeypatch, instances, "save")
    monkeypatch.setattr(unicodedata, "unidata_version", "99")
    with refused("version of unicode was .*, is now '99'"):
        writing.run(base)
    writing.run(base, overwrite=True)
    manifest = manifests.find(base.output_file)
    assert same_job.versions(base).items() <= manifest.versions.items()
    monkeypatch.setattr(unicodedata, "unidata_version", "100")
    writing.run(base)  # Finished records may be repeated.


@pytest.mark.parametrize("what", ["size", "time"])
def test_inputs_are_compared_by_size_and_time(job, tmp_path, what):
    before, path = job(), tmp_path / "b.txt"
    stat = path.stat()
    if what == "size":
        path.write_bytes(path.read_bytes() + b"\n")
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    else:
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + 10**9))
    assert same_job.changes(before, job()) == [
        f"the input file {path} was changed"
    ]


def test_an_input_that_is_new_or_missing_is_named(job):
    two = job()
    one = {**two, "inputs": dict([*two["inputs"].items()][:1])}
    gone, new = same_job.changes(two, one) + same_job.changes(one, two)
    assert re.fullmatch(".* gave 2 files, now 1; .*b.txt is missing now", gone)
    assert re.fullmatch(".* gave 1 file, now 2; .*b.txt is new", new)


def test_standard_input_is_always_the_same(base):
    (identity,) = same_job.describe(base, ["-"], [], "")["inputs"].values()
    assert identity == []


def test_outputs_are_described_by_their_real_paths(job, tmp_path):
    (tmp_path / "link").symlink_to("there")
    assert job(output=f"{tmp_path}/link")["outputs"] == [
        os.path.realpath(tmp_path / "there")
    ]
