import dataclasses
import logging
import os
import pathlib

import pytest

from albert_tf.common import (
    errors,
    files,
)
from albert_tf.data import manifests, record_check
from albert_tf.text import tokenization
from data_prep import create_pretraining_data
from tests.data_prep import writing


def test_manifest_says_how_the_records_were_made(base, tiny_vocab):
    output = base.output_file + "," + base.output_file + ".2"
    options = writing.run(base, output_file=output, do_permutation=True)
    manifest = manifests.find(base.output_file + ".2")
    assert manifest is not None
    assert manifest.shards == ("a.tfrecord", "a.tfrecord.2")
    arrays = writing.read_arrays(options)
    assert manifest.num_examples == len(arrays["input_ids"])
    assert manifest.max_predictions_per_seq == 10
    assert manifest.random_seed == 12345
    assert manifest.options["ngram"] == 3
    tokenizer = tokenization.Tokenizer(tiny_vocab, True)
    expected = record_check.Expected(
        32, 10, tokenizer.vocab_size, tokenizer.fingerprint
    )
    paths = output.split(",")
    assert record_check.check_records(paths, expected) == [manifest]


def test_unfinished_output_of_other_options_is_explained(
    base, monkeypatch, many_pieces
):
    output = f"{base.output_file},{base.output_file}.2"
    module = create_pretraining_data.data_card
    writing.interrupt(base, monkeypatch, module, "write", output_file=output)
    with pytest.raises(errors.UserError, match="--dupe_factor was 3, is now"):
        writing.run(base, output_file=output, dupe_factor=4)


def test_output_of_other_options_is_protected(base):
    writing.run(base)
    before = pathlib.Path(base.output_file).read_bytes()
    writing.run(base)  # The same options may be repeated.
    assert pathlib.Path(base.output_file).read_bytes() == before
    with pytest.raises(
        errors.UserError, match="--dupe_factor was 3, is now 4.*--overwrite"
    ):
        writing.run(base, dupe_factor=4)
    assert pathlib.Path(base.output_file).read_bytes() == before
    writing.run(base, dupe_factor=4, overwrite=True)
    manifest = manifests.find(base.output_file)
    assert manifest is not None and manifest.options["dupe_factor"] == 4


def test_output_may_be_named_by_another_path(base, monkeypatch):
    writing.run(base)
    monkeypatch.chdir(os.path.dirname(base.output_file))
    writing.run(base, output_file="a.tfrecord")
    with pytest.raises(errors.UserError, match=r"named \['a.tfrecord'\]"):
        writing.run(base, output_file="a.tfrecord,b.tfrecord")


def test_output_of_another_vocabulary_is_protected(base, monkeypatch):
    writing.run(base)
    manifest = manifests.find(base.output_file)
    monkeypatch.setattr(
        manifests,
        "find",
        lambda path: dataclasses.replace(manifest, vocab_sha256="another"),
    )
    with pytest.raises(
        errors.UserError, match="vocabulary file has other content"
    ):
        writing.run(base)


def test_outputs_in_two_folders_each_have_a_manifest(base, tmp_path):
    first, second = tmp_path / "1" / "x", tmp_path / "2" / "x"
    for _ in range(2):  # The same options may be repeated.
        writing.run(base, output_file=f"{first},{second}")
    found = [manifests.find(str(p)) for p in (first, second)]
    sizes = [
        len(writing.read_file(p, 32, 5)["input_ids"]) for p in (first, second)
    ]
    assert [m.num_examples for m in found] == sizes
    tokenizer = tokenization.Tokenizer(base.vocabulary.path)
    expected = record_check.Expected(32, 5, tokenizer.vocab_size)
    paths = [str(first), str(second)]
    assert record_check.check_records(paths, expected) == found


def test_all_that_stands_beside_records_is_known(base):
    writing.run(base)
    folder = pathlib.Path(base.output_file).parent
    beside = {p.name.removeprefix("a.tfrecord") for p in folder.iterdir()}
    assert beside == {"", *files.BESIDE_RECORDS} - {".partial"}


def test_shards_of_another_set_are_refused(base):
    writing.run(base, num_shards=2)
    with pytest.raises(errors.UserError, match="00000-of-00002 is a shard of"):
        writing.run(base, num_shards=3, overwrite=True)
    writing.run(base, num_shards=2)


def test_pattern_of_inputs_that_covers_the_output(base, tmp_path):
    changes = {"output_file": str(tmp_path / "x.txt")}
    (tmp_path / "x.txt.card.md").write_text("not text to train on")
    with pytest.raises(errors.UserError, match="x.txt.card.md is also an inp"):
        writing.run(base, input_file=f"{tmp_path}/*", **changes)
    with pytest.raises(errors.UserError, match="job.json is also an input"):
        (tmp_path / "x.txt.work").mkdir()
        (tmp_path / "x.txt.work" / "job.json").write_text("{}")
        writing.run(base, input_file=f"{tmp_path}/*/*", **changes)


def test_only_regular_files_are_outputs(base, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(errors.UserError, match="pipe is a pipe or a device"):
        writing.run(base, output_file=str(tmp_path / "pipe"), overwrite=True)
    assert (tmp_path / "pipe").is_fifo()
    (tmp_path / "x.card.md").mkdir()
    with pytest.raises(errors.UserError, match="x.card.md is a folder"):
        writing.run(base, output_file=str(tmp_path / "x"))


def test_output_of_another_program_is_protected(base):
    os.makedirs(os.path.dirname(base.output_file))
    pathlib.Path(base.output_file).write_bytes(b"precious")
    with pytest.raises(errors.UserError, match="has no manifest"):
        writing.run(base)
    assert pathlib.Path(base.output_file).read_bytes() == b"precious"


def test_overwriting_leaves_no_stale_manifest(base):
    second = base.output_file + ".2"
    writing.run(base, output_file=f"{base.output_file},{second}")
    writing.run(base, output_file=second, overwrite=True)
    manifest = manifests.find(second)
    assert manifest is not None and manifest.shards == ("a.tfrecord.2",)
    assert manifests.find(base.output_file) is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"input_file": "/nowhere/*.txt"}, "matches no file"),
        ({"input_file": " , "}, "`input_file` is empty"),
        ({"output_file": ","}, "--output_file is empty"),
        ({"output_file": "/tmp/x,/tmp/../tmp/x"}, "names /tmp/../tmp/x twice"),
        ({"output_file": "/tmp/x*"}, "looks like a pattern"),
        ({"output_file": "/tmp"}, "/tmp is a folder"),
        ({"output_file": "{folder}/a.txt"}, "a.txt is also an input"),
        (
            {"output_file": "{folder}/a.txt/x"},
            "`output_file`: Cannot create the folder",
        ),
        ({"output_file": "gs://a/b"}, "gs://a/b is not on this machine"),
        ({"output_file": "/proc/x"}, "/proc/x.work cannot be created"),
        ({"num_shards": 0}, "`num_shards=0` is below 1"),
        (
            {"num_shards": 2, "output_file": "/tmp/x,/tmp/y"},
            "names 2 files, and --num_shards=2",
        ),
        ({"num_workers": -1}, "`num_workers=-1` is below 0"),
        (
            {"masking_time": "training", "do_permutation": True},
            "--do_permutation needs --masking_time=writing",
        ),
        ({"spm_model_file": "/nowhere"}, "`spm_model_file=/nowhere` is not a"),
        ({"spm_model_file": None}, "`spm_model_file` and `vocab_file` are"),
        (
            {"spm_model_file": None, "vocab_file": "v.txt"},
            "`vocab_file=v.txt` is not a file",
        ),
        (
            {
                "spm_model_file": None,
                "vocab_file": "v.txt",
                "strip_spurious_marker": True,
            },
            "`strip_spurious_marker=true` is given with the WordPiece",
        ),
        ({"dupe_factor": 0}, "`dupe_factor=0` is below 1"),
        ({"random_seed": -1}, "`random_seed=-1` is below 0"),
    ],
)
def test_wrong_options_are_named(base, tmp_path, changes, message):
    changes = {
        name: value.format(folder=tmp_path) if name == "output_file" else value
        for name, value in changes.items()
    }
    with pytest.raises(errors.UserError, match=message):
        writing.run(base, **changes)


def test_more_files_than_instances_are_rejected(base, tmp_path):
    (tmp_path / "c").write_text("it rains\nwe stay\n")
    output = ",".join(f"{base.output_file}{i}" for i in range(3))
    with pytest.raises(errors.UserError, match="3 files, but .* only 1 inst"):
        writing.run(
            base,
            input_file=str(tmp_path / "c"),
            output_file=output,
            dupe_factor=1,
        )


def test_masks_of_training_are_not_chosen_here(base, caplog):
    caplog.set_level(logging.WARNING)
    writing.run(base, masking_time="training", masked_lm_prob=0.3)
    assert "--masked_lm_prob=0.3: not used" in caplog.text


def test_few_predictions_are_warned_of(base, caplog):
    caplog.set_level(logging.WARNING)
    writing.run(base, max_predictions_per_seq=3)
    assert "use --max_predictions_per_seq=5" in caplog.text
