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
    parts = record_manifest.divide_by_folder(["2/a", "1/b", "2/c"], whole)
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


def test_what_is_too_short_is_counted(base, tmp_path):
    text = "it\n\nwe\n\nit rains we stay at home .\nwe read old books .\n"
    (tmp_path / "c").write_text(text)
    writing.run(base, input_file=str(tmp_path / "c"), short_seq_prob=0.0)
    manifest = manifests.find(base.output_file)
    assert manifest.corpus["documents"] == 3
    assert manifest.corpus["unused_documents"] == 2 * base.dupe_factor
    assert manifest.corpus["unused_chunks"] == 2 * base.dupe_factor
    card = pathlib.Path(f"{base.output_file}.card.md").read_text()
    assert "2.0 documents that gave no instance, 2.0 chunks left out" in card


def test_bad_lines_are_in_the_card(base, tmp_path):
    (tmp_path / "a.txt").write_bytes(b"it rains\n\xe9\nwe stay\n")
    writing.run(base, on_bad_line="skip")
    card = pathlib.Path(f"{base.output_file}.card.md").read_text()
    assert "- bad lines: 1 skipped, 0 replaced" in card


def test_words_of_text_without_spaces_are_in_the_card(base, tmp_path):
    writing.run(base)
    card = pathlib.Path(f"{base.output_file}.card.md").read_text()
    assert "- words by the rule english\n- unknown pieces: 0.000 %" in (
        card.replace("%", " %")
    )
    (tmp_path / "zh").write_text("今天 it rains 天\nwe stay at home\n\n" * 20)
    output = str(tmp_path / "zh.tfrecord")
    writing.run(base, input_file=str(tmp_path / "zh"), output_file=output)
    card = pathlib.Path(f"{output}.card.md").read_text()
    assert "words by the rule marker; 13.6% of the letters are of" in card


def test_duplicates_are_in_the_card(base, tmp_path):
    (tmp_path / "b.txt").write_text((tmp_path / "a.txt").read_text())
    writing.run(base, drop_duplicates=True)
    card = pathlib.Path(f"{base.output_file}.card.md").read_text()
    assert "- documents: 24 with " in card
    assert ", 12 left out as duplicates" in card
