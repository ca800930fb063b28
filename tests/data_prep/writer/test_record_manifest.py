"""The manifest of finished records, one for each folder."""

import dataclasses
import pathlib

from albert_tf.common import files
from albert_tf.data import manifests, record_check
from albert_tf.text import tokenization
from data_prep.writer import record_manifest
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


def test_outputs_in_two_folders_each_have_a_manifest(base, tmp_path):
    """With the counts of its own files, and the summary of all."""
    paths = [str(tmp_path / name) for name in ("1/x", "2/x", "1/y", "2/y")]
    for _ in range(2):  # The same options may be repeated.
        writing.run(base, output_file=",".join(paths))
    first, second = (manifests.find(path) for path in paths[:2])
    assert first.shards == second.shards == ("x", "y")
    sizes = [len(writing.read_file(p, 32, 5)["input_ids"]) for p in paths]
    assert first.num_examples == sizes[0] + sizes[2]
    assert second.num_examples == sizes[1] + sizes[3]
    assert first.summary == second.summary
    assert first.summary["instances"] == sum(sizes)
    tokenizer = tokenization.Tokenizer(base.vocabulary.path)
    expected = record_check.Expected(32, 5, tokenizer.vocab_size)
    # Sizes and checksums are compared, too.
    assert record_check.check_records(paths, expected) == [first, second]
    # Files of 2, 2 and 3 records.
    whole = dataclasses.replace(
        first,
        shards=("a", "b", "c"),
        shard_bytes=(1, 2, 3),
        shard_sha256=("x", "y", "z"),
        num_examples=7,
    )
    parts = record_manifest.split(["2/a", "1/b", "2/c"], whole)
    assert [
        (own, part.num_examples, part.shard_bytes) for own, part in parts
    ] == [
        (["2/a", "2/c"], 5, (1, 3)),
        (["1/b"], 2, (2,)),
    ]


def test_all_that_stands_beside_records_is_known(base):
    writing.run(base)
    folder = pathlib.Path(base.output_file).parent
    beside = {p.name.removeprefix("a.tfrecord") for p in folder.iterdir()}
    assert beside == {"", *files.BESIDE_RECORDS} - {".partial"}


def test_overwriting_leaves_no_stale_manifest(base):
    second = base.output_file + ".2"
    writing.run(base, output_file=f"{base.output_file},{second}")
    writing.run(base, output_file=second, overwrite=True)
    manifest = manifests.find(second)
    assert manifest is not None and manifest.shards == ("a.tfrecord.2",)
    assert manifests.find(base.output_file) is None
