"""The manifest of finished records, one for each folder."""

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


def test_overwriting_leaves_no_stale_manifest(base):
    second = base.output_file + ".2"
    writing.run(base, output_file=f"{base.output_file},{second}")
    writing.run(base, output_file=second, overwrite=True)
    manifest = manifests.find(second)
    assert manifest is not None and manifest.shards == ("a.tfrecord.2",)
    assert manifests.find(base.output_file) is None


def make_manifest(num_shards, num_examples):
    numbers = range(num_shards)
    return manifests.Manifest(
        shards=tuple(f"shard{i}" for i in numbers),
        shard_bytes=tuple(100 + i for i in numbers),
        shard_sha256=tuple(f"hash{i}" for i in numbers),
        num_examples=num_examples,
        max_seq_length=32,
        max_predictions_per_seq=5,
        has_masks=True,
        vocab_size=400,
        vocab_sha256="vocabulary",
        random_seed=1,
        options={},
        word_start_rule="english",
        inputs=(),
        corpus={},
        summary={"instances": num_examples},
        versions={},
    )


def test_each_folder_gets_its_own_files():
    """Of 11 records, the files have 2, 3, 3 and 3."""
    whole = make_manifest(4, 11)
    outputs = ["a/shard0", "b/shard1", "a/shard2", "b/shard3"]
    (first, of_a), (second, of_b) = record_manifest.split(outputs, whole)
    assert (first, second) == (outputs[::2], outputs[1::2])
    assert of_a.shards == ("shard0", "shard2")
    assert of_a.shard_bytes == (100, 102)
    assert of_b.shard_sha256 == ("hash1", "hash3")
    assert (of_a.num_examples, of_b.num_examples) == (5, 6)
    assert of_a.summary == of_b.summary == {"instances": 11}
    assert record_manifest.split(whole.shards, whole) == [
        ([*whole.shards], whole)
    ]
