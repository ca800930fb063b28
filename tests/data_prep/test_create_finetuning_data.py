"""Offline features: bytes, order, names, splits, and what is refused."""

import json
import os
import pathlib
import types

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.finetuning import features, registry
from albert_tf.tasks.race import task as race
from albert_tf.text import tokenization
from data_prep import create_finetuning_data
from tests import own_tasks, record_files
from tests.conftest import changed, refused

WORDS = "it rains we stay at home and read old books by the fire".split()


def write_rte(path, count, label="\tentailment"):
    rows = [
        f"{n}\t{' '.join(WORDS[n % 9 :])}.\t{WORDS[n % 13]}.{label}\n"
        for n in range(count)
    ]
    header = "index\tsentence1\tsentence2" + ("\tlabel" if label else "")
    path.write_text(f"{header}\n{''.join(rows)}")


@pytest.fixture
def base(tmp_path, tiny_vocab):
    """Options that work, for more examples than a block has."""
    write_rte(tmp_path / "train.tsv", 700)
    return create_finetuning_data.FinetuningDataOptions(
        task_name="rte",
        input_file=str(tmp_path / "train.tsv"),
        output_file=str(tmp_path / "out/rte.tfrecord"),
        is_training=True,
        max_seq_length=24,
        num_workers=1,
        vocabulary=tokenization.VocabularyOptions(tiny_vocab),
    )


def write(settings, **changes):
    settings = changed(settings, **changes)
    create_finetuning_data.run(settings)
    return pathlib.Path(settings.output_file)


def task_of(settings):
    tokenizer = tokenization.load(settings.vocabulary)
    return registry.make(
        {"task_name": settings.task_name, "max_seq_length": 24}, tokenizer
    )


def read(path):
    """Every record as TensorFlow reads it."""
    return [
        tf.train.Example.FromString(record.numpy())
        for record in tf.data.TFRecordDataset(str(path))
    ]


def test_records_are_those_of_the_task_in_input_order(base):
    path = write(base)
    task = task_of(base)
    examples = task.read(base.input_file, "train")
    layout = task.layout("train")
    expected = [
        record_files.encode(layout, dict(zip(batch, values, strict=True)))
        for batch in task.featurize(examples, "train")
        for values in zip(*batch.values(), strict=True)
    ]
    written = [r.numpy() for r in tf.data.TFRecordDataset(str(path))]
    assert len(written) == 700
    assert written == expected


def test_bytes_do_not_depend_on_the_number_of_processes(base, tmp_path):
    one = write(base).read_bytes()
    several = write(
        base, num_workers=3, output_file=str(tmp_path / "b.tfrecord")
    )
    assert several.read_bytes() == one


def test_a_facts_file_stands_beside_the_records(base):
    path = write(base)
    facts = json.loads(pathlib.Path(f"{path}.json").read_text())
    assert (facts["num_examples"], facts["num_records"]) == (700, 700)
    assert facts["options"]["max_seq_length"] == 24
    content = features.content_sha256(base.input_file)
    found = features.open_prepared(
        task_of(base), str(path), content, "train", "train_feature_file"
    )
    assert found == features.FeatureFile(str(path), 700)


@pytest.mark.parametrize(
    "name, changes",
    [
        ("mine.conll", {"is_training": True}),
        ("mine.conll", {"split": "train"}),
        ("train.conll", {}),
    ],
)
def test_tags_are_those_of_the_training_file(base, tmp_path, name, changes):
    (tmp_path / name).write_text("It O\nrains B-X\n\nWe O\nstay B-X\n")
    changes = {"is_training": False, **changes}
    path = write(
        base, task_name="tagging", input_file=str(tmp_path / name), **changes
    )
    facts = json.loads(pathlib.Path(f"{path}.json").read_text())
    assert facts["options"]["tags"] == ["O", "B-X", "I-X"]
    (record, _) = read(path)
    labels = record.features.feature["label_ids"].int64_list.value
    assert {*labels} == {0, 1, 2}


def test_what_cannot_be_read_twice_is_refused(base):
    """Its digest is taken first."""
    content = pathlib.Path(base.input_file).read_bytes()
    inner, outer = os.pipe()
    os.write(outer, content[:1000])
    os.close(outer)
    with refused("pipe .* but is read twice"):
        write(base, input_file=f"/dev/fd/{inner}")
    assert os.read(inner, 2000) == content[:1000]
    os.close(inner)
    with open(base.input_file) as stream:
        write(base, input_file=f"/dev/fd/{stream.fileno()}")
    assert len(read(base.output_file)) == 700


# Splits.


def split_of(base, name, task_name="rte", **changes):
    settings = changed(
        base, input_file=f"some/where/{name}", task_name=task_name, **changes
    )
    return create_finetuning_data.choose_split(settings, task_of(settings))


def test_split_follows_from_the_name(base):
    for name, task_name, is_training, split in (
        ("train.tsv", "rte", False, "train"),
        ("dev.tsv", "rte", True, "train"),
        ("test.tsv", "rte", False, "test"),
        ("mine.tsv", "rte", True, "train"),
        ("mine.tsv", "rte", False, "dev"),
        ("dev_mismatched.tsv", "mnli", False, "dev_mismatched"),
        ("test_matched.tsv", "mnli", False, "test_matched"),
        ("mine.tsv", "mnli", False, "dev_matched"),
        ("diagnostic.tsv", "ax", False, "ax"),
    ):
        found = split_of(base, name, task_name, is_training=is_training)
        assert found == split, name
    assert split_of(base, "mine.tsv", split="test", is_training=False) == "test"
    own = types.SimpleNamespace(
        eval_splits=("dev", "dev_hard"), test_splits=(), layout=lambda _: ()
    )
    given = changed(base, input_file="dev_hard.tsv", is_training=False)
    assert create_finetuning_data.choose_split(given, own) == "dev_hard"
    with refused("--split=exam is no split of"):
        split_of(base, "mine.tsv", split="exam")
    with refused("The task ax has no train"):
        write(base, task_name="ax")
    with refused("run_classifier makes the rec"):
        changed(base, task_name="Table")


def test_test_files_are_not_for_training(base, tmp_path):
    write_rte(tmp_path / "test.tsv", 3, label="")
    settings = changed(base, input_file=str(tmp_path / "test.tsv"))
    with refused("--is_training needs labels"):
        create_finetuning_data.run(settings)
    path = write(settings, is_training=False)
    labels = [
        r.features.feature["label_ids"].int64_list.value[0] for r in read(path)
    ]
    assert labels == [0, 0, 0]


# RACE.


def test_race_has_its_choices_in_a_row_and_middle_before_high(base, tmp_path):
    own_tasks.write_race(tmp_path / "race", middle=2, high=1)
    folder = str(tmp_path / "race" / "dev")
    path = write(
        base,
        task_name="race",
        input_file=folder,
        is_training=False,
        max_qa_length=8,
    )
    task = race.RaceTask(
        tokenization.load(base.vocabulary),
        24,
        race.RaceOptions(max_qa_length=8),
    )
    examples = task.read(folder, "dev")
    assert [e.level for e in examples] == ["middle"] * 8 + ["high"] * 4
    (batch,) = task.featurize(examples, "dev")
    for record, ids, label in zip(
        read(path), batch["input_ids"], batch["label_ids"], strict=True
    ):
        found = record.features.feature
        values = found["input_ids"].int64_list.value
        np.testing.assert_array_equal(np.reshape(values, [4, 24]), ids)
        assert found["label_ids"].int64_list.value == [label]
