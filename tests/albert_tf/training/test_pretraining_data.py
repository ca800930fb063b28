"""What is said of records that do not fit a pretraining run."""

import contextlib
import dataclasses
import os

import numpy as np
import pytest

from albert_tf.data import layouts, manifests
from albert_tf.text import tokenization
from albert_tf.training import pretraining_data
from tests import record_files
from tests.albert_tf.data import short_records
from tests.albert_tf.training import recipes, tiny_manifests
from tests.conftest import refused

PHRASES = {"mask_levels": "basic:5,phrase"}
DIALOGUE = {"sentence_objective": "sop,dialogue"}


@pytest.mark.parametrize(
    ("count", "changes", "is_warned"),
    [
        (10, {}, True),
        (19, {}, True),
        (20, {}, False),
        (10, {"has_masks": False}, False),
        (10, {"options": {}}, False),
    ],
)
def test_records_with_too_few_predictions(caplog, count, changes, is_warned):
    pretraining_data.warn_of_lost_masks(
        tiny_manifests.make(
            max_seq_length=136, max_predictions_per_seq=count, **changes
        )
    )
    assert len(caplog.messages) == is_warned
    for warning in caplog.messages:
        assert "a.tfrecord, b.tfrecord were to hide 20 of 136" in warning
        assert f"hold only {count} predictions" in warning


def test_labels_of_another_objective(monkeypatch, caplog):
    """Refused in training records; evaluating on them is allowed."""
    manifest = tiny_manifests.make(options={"sentence_objective": "nsp"})
    pretraining_data.check_labels("none", manifest, ["a.tfrecord"])
    pretraining_data.check_labels("nsp", manifest, ["a.tfrecord"])
    assert not caplog.messages
    monkeypatch.setattr(manifests, "find", {"a.tfrecord": manifest}.get)
    pretraining_data.check_labels("sop", manifest, ["other.tfrecord"])
    assert "mean nsp; the model is asked about sop" in caplog.text
    with refused("were written for nsp"):
        pretraining_data.check_labels("sop", manifest, ["a.tfrecord"])


def test_passages_serve_every_task_unless_they_cross_documents():
    shards = ["a.tfrecord"]
    manifest = tiny_manifests.make(kind="passages")
    for objective in ("sop", "nsp", "reordering,distance", "none"):
        pretraining_data.check_labels(objective, manifest, shards)
    manifest = tiny_manifests.make(
        kind="passages", options={"cross_documents": True}
    )
    pretraining_data.check_labels("none", manifest, shards)
    with refused("go on behind the end of a doc"):
        pretraining_data.check_labels("reordering", manifest, shards)


@pytest.mark.parametrize(
    ("values", "written", "message"),
    [
        (PHRASES, {"phrase_file": "p.txt"}, None),
        (PHRASES, {"phrase_file": None, "word_segmenter": "jieba"}, None),
        (
            PHRASES,
            {"word_segmenter": "none"},
            "phrase, .* b were .*_file` or `w",
        ),
        ({"mask_levels": "entity"}, {"phrase_file": "p"}, "with `entity_file`"),
        (DIALOGUE, {"input_format": "dialogues"}, None),
        (
            DIALOGUE,
            {"input_format": "text"},
            "has dialogue, but the records b ",
        ),
        (DIALOGUE, None, "the records b .* or have no manifest"),
        ({"mask_levels": "basic"}, {}, None),
    ],
)
def test_records_need_the_marks_of_what_is_drawn(
    monkeypatch, values, written, message
):
    """Those of every file; here the second one is the poorer."""
    rich = {"phrase_file": "p", "entity_file": "e", "input_format": "dialogues"}
    known = {
        name: tiny_manifests.make(options=options)
        for name, options in (("a", rich), ("b", written))
        if options is not None
    }
    monkeypatch.setattr(manifests, "find", known.get)
    recipe = recipes.make(**values)
    expected = contextlib.nullcontext()
    if message:
        expected = refused(message)
    with expected:
        pretraining_data.check_marks(recipe, ["a", "b"])


def test_records_of_another_normalization_are_refused():
    manifest = tiny_manifests.make(options={"do_lower_case": False})
    vocabulary = tokenization.VocabularyOptions(do_lower_case=True)
    with refused("`do_lower_case=True`, but"):
        pretraining_data.check_normalization(vocabulary, manifest)
    pretraining_data.check_normalization(
        tokenization.VocabularyOptions(), manifest
    )
    silent = tiny_manifests.make(options={})
    pretraining_data.check_normalization(vocabulary, silent)


def test_settings_come_from_the_records_without_a_vocabulary():
    manifest = tiny_manifests.make(
        options={"do_lower_case": False, "keep_accents": True}
    )
    found = pretraining_data.with_record_settings(
        tokenization.VocabularyOptions(keep_accents=False), [manifest]
    )
    assert found.settings == {
        "do_lower_case": False,
        "keep_accents": False,
        "strip_spurious_marker": None,
    }
    nothing = tokenization.VocabularyOptions()
    assert pretraining_data.with_record_settings(nothing, []) == nothing


def described(name, count, entropy, share):
    summary = {
        "entropy_of_labels": entropy,
        "share_of_most_frequent_label": share,
    }
    kept = {key: value for key, value in summary.items() if value is not None}
    return tiny_manifests.make(shards=(name,), num_examples=count, summary=kept)


def find_baselines(monkeypatch, paths, known):
    monkeypatch.setattr(manifests, "find", known.get)
    data = pretraining_data.PretrainingData(
        paths, ["c"], [], short_records.LAYOUT, None, 1
    )
    return data.unigram_baselines


def test_baselines_are_averages_over_the_training_records(monkeypatch):
    """`a` has two files, which count once; `c` is for evaluation."""
    known = {"b": described("b", 100, 5.0, 0.5), "c": described("c", 9, 1, 1)}
    known["a1"] = known["a2"] = described("a", 300, 7.0, 0.1)
    found = find_baselines(monkeypatch, ["a1", "a2", "b"], known)
    assert found == {
        "entropy_of_labels": pytest.approx(6.5),
        "share_of_most_frequent_label": pytest.approx(0.2),
    }


@pytest.mark.parametrize(
    "other",
    [
        None,
        tiny_manifests.make(),
        described("b", 1, None, 0.5),
        described("b", 1, "5", 0.5),
    ],
)
def test_baselines_of_records_that_do_not_say_them(monkeypatch, other):
    known = {"a": described("a", 300, 7.0, 0.1), "b": other}
    assert find_baselines(monkeypatch, ["a", "b"], known) == {}
    assert find_baselines(monkeypatch, ["a"], known)


def make_data(path, **changes):
    known = [tiny_manifests.make(num_examples=1234)]
    return pretraining_data.PretrainingData(
        [path], [path] * 2, known, short_records.LAYOUT, None, 1, **changes
    )


def take(dataset, count):
    return list(dataset.take(count).as_numpy_iterator())


def test_rows_of_training_are_shared_and_those_of_evaluation_are_not(tmp_path):
    path = str(tmp_path / "x")
    record_files.write(path, short_records.encode(short_records.make(40)))
    plain, packed = make_data(path), make_data(path, pack=True)
    assert plain.examples_per_row == 1
    assert plain.description == (
        "1 file(s) for training, 2 for evaluation; 1,234 examples in those "
        "with a manifest"
    )
    assert 1.2 < packed.examples_per_row < 2
    shared = f"in training {packed.examples_per_row:.2f} share a row"
    assert packed.description.endswith(shared)
    for data in (plain, packed):
        batches = take(data.training_batches(4, 0), 3)
        assert ("instance_ids" in batches[0]) == data.pack
        (third,) = take(data.training_batches(4, 2), 1)
        np.testing.assert_equal(third, batches[2])
        other = dataclasses.replace(data, seed=2).training_batches(4, 2)
        assert (take(other, 1)[0]["input_ids"] != third["input_ids"]).any()
        evaluated = take(data.evaluation_batches(4, 2), 9)
        assert [len(b["input_ids"]) for b in evaluated] == [4, 4]
        assert "instance_ids" not in evaluated[0]
    plain.check_first_records()
    few = layouts.for_model(short_records.LAYOUT, 6, 2)
    with refused("record 1 has input_.* config"):
        dataclasses.replace(plain, layout=few).check_first_records()
    os.truncate(path, os.path.getsize(path) - 5)
    with refused("damaged"):
        print(make_data(path, pack=True).examples_per_row)


@pytest.mark.parametrize(("length", "is_warned"), [(16, True), (7, False)])
def test_packing_of_long_records_is_warned_of(
    tmp_path, caplog, length, is_warned
):
    path = str(tmp_path / "x")
    records = short_records.make(40)
    for record in records:
        record["input_mask"] = (np.arange(16) < length).astype(int)
        record["masked_lm_weights"] = np.array([1, 0, 0])
    record_files.write(path, short_records.encode(records))
    make_data(path).warn_of_full_rows()
    assert not caplog.messages
    make_data(path, pack=True).warn_of_full_rows()
    found = ["only 1.00 examples share a row" in m for m in caplog.messages]
    assert any(found) == is_warned
