"""The data of a run: splits, and features made elsewhere."""

import logging
import os
import shutil

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import run_classifier
from albert_tf.data import examples, layouts, tfrecord
from albert_tf.finetuning import (
    base,
    features,
    finetuning_options,
    run_data,
    teacher,
    teacher_signal,
)
from albert_tf.tasks.glue import task as glue
from albert_tf.tasks.table import labels
from albert_tf.tasks.table.data import TableOptions
from albert_tf.text import tokenization
from data_prep import create_finetuning_data
from tests import row_files
from tests.albert_tf.finetuning import small_runs
from tests.albert_tf.tasks.glue import small_tasks
from tests.conftest import changed, refused


@pytest.mark.slow
def test_missing_second_dev_set_is_reported(world, tmp_path, caplog):
    shutil.copytree(world.glue, tmp_path / "glue")
    os.remove(tmp_path / "glue/MNLI/dev_mismatched.tsv")
    settings = small_runs.classifier(
        world, tmp_path / "run", "mnli", do_predict=False, train_step=1
    )
    caplog.set_level(logging.WARNING, "absl")
    run_classifier.run(changed(settings, data_dir=str(tmp_path / "glue")))
    assert "Without dev_mismatched: it has no file" in caplog.text
    (line,) = small_runs.metrics(tmp_path / "run", "eval")
    assert "accuracy_mismatched" not in line


def offline(world, output_file, **values):
    create_finetuning_data.run(
        changed(
            create_finetuning_data.FinetuningDataOptions(
                task_name="rte",
                input_file=f"{world.glue}/RTE/train.tsv",
                output_file=str(output_file),
                is_training=True,
                max_seq_length=small_runs.LENGTH,
                vocabulary=tokenization.VocabularyOptions(world.vocabulary),
                num_workers=1,
            ),
            **values,
        )
    )
    return str(output_file)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["rte", "squad"])
def test_training_on_features_made_elsewhere_is_the_same(world, tmp_path, kind):
    """They are in the order of the data; training shuffles them first."""
    run, make = small_runs.KINDS[kind]
    path = offline(world, tmp_path / "train.tfrecord")
    if kind == "squad":
        path = offline(
            world,
            tmp_path / "squad.tfrecord",
            task_name="squad",
            input_file=str(world.squad / "train.json"),
            max_seq_length=56,
            doc_stride=16,
            max_query_length=16,
        )
    found = []
    for name, values in (("own", {}), ("made", {"train_feature_file": path})):
        settings = make(world, tmp_path / name, do_eval=False, **values)
        run(changed(settings, do_predict=False))
        (made,) = (tmp_path / name).glob("*-train-*.tfrecord")
        losses = [
            line["loss"]
            for line in small_runs.metrics(tmp_path / name, "train")
        ]
        (facts,) = small_runs.metrics(tmp_path / name, "facts")
        found.append((made.name, made.read_bytes(), losses, facts["data"]))
    assert found[0] == found[1]
    with open(path, "rb") as stream:
        in_order = stream.read()
    assert in_order != found[0][1]
    assert len(in_order) > len(found[0][1])  # Only they hold padding.


@pytest.fixture
def of_rte(world, tmp_path):
    """Options of a run, and a folder with its features."""
    settings = small_runs.classifier(
        world, tmp_path / "run", cached_dir=str(tmp_path)
    )
    tokenizer = finetuning_options.load_tokenizer(settings.finetuning)
    task = small_tasks.make("rte", tokenizer, small_runs.LENGTH)
    strategy = tf.distribute.get_strategy()
    data = run_data.RunData(
        settings.finetuning, task, task.sources(world.glue), strategy
    )
    data.make_features(settings.finetuning)
    return settings, tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("split, record", [("train", 40), ("dev", 1)])
def test_damaged_features_are_named(of_rte, split, record):
    settings, tmp_path = of_rte
    (path,) = tmp_path.glob(f"*-{split}-*.tfrecord")
    content = bytearray(path.read_bytes())
    content[30 if record == 1 else -30] ^= 0xFF
    path.write_bytes(content)
    with refused(f"{path} is damaged: record {record} cannot .* Remove it and"):
        run_classifier.run(settings)


@pytest.mark.parametrize(
    ("name", "value"), [("label_ids", 7), ("input_ids", 10**6)]
)
def test_numbers_that_the_model_does_not_have_are_named(of_rte, name, value):
    settings, tmp_path = of_rte
    (path,) = tmp_path.glob("*-train-*.tfrecord")
    messages = []
    for message in tfrecord.read_records(str(path)):
        values = examples.decode(message)
        values[name][0] = value
        layout = tuple(
            layouts.Feature(n, v.shape, "int64") for n, v in values.items()
        )
        arrays = {n: v[None] for n, v in values.items()}
        messages += tfrecord.encode_batch(layout, arrays)
    path.write_bytes(b"".join(tfrecord.frame_batch(messages)))
    message = f"{path} cannot be used: record 1 has {name} {value}; allowed"
    with refused(message):
        run_classifier.run(settings)


def test_each_split_has_its_records_and_batches(world, tmp_path):
    settings = small_runs.shared(
        world,
        tmp_path / "run",
        cached_dir=str(tmp_path / "cache"),
        eval_batch_size=5,
        predict_batch_size=3,
        pad_to_max=True,
    )
    tokenizer = finetuning_options.load_tokenizer(settings)
    task = small_tasks.make("rte", tokenizer, small_runs.LENGTH)
    sources = task.sources(world.glue)
    strategy = tf.distribute.get_strategy()
    data = run_data.RunData(settings, task, sources, strategy)
    data.make_features(settings)
    assert data.description == "rte: 40 train, 12 dev, 10 test records"
    assert (tmp_path / "cache" / data.training_key).is_file()
    assert not (tmp_path / "run").exists()
    epochs = changed(settings, train_step=None, num_train_epochs=2.0)
    found = run_data.RunData(epochs, task, sources, strategy)
    found.make_features(epochs)
    assert found.steps() == (10, 1)
    shapes = [
        [batch["input_ids"].shape for batch in data.all_batches(split)]
        for split in ("dev", "test")
    ]
    length = small_runs.LENGTH
    assert shapes[0] == [(5, length), (5, length), (5, length)]
    assert shapes[1] == [(3, length)] * 4
    (batch,) = data.training_batches(1, 0).take(1)
    assert batch["input_ids"].shape == (8, length)
    only = changed(settings, do_train=False, do_predict=False)
    data = run_data.RunData(only, task, sources, strategy)
    assert ([*data.examples], data.steps()) == (["dev"], (1, 0))
    del sources["dev"]
    with refused("`do_eval` is set, .*: dev. G"):
        run_data.RunData(only, task, sources, strategy)


def test_data_that_change_are_known_as_what_was_read(world, tmp_path):
    settings = small_runs.shared(world, tmp_path / "run")
    tokenizer = finetuning_options.load_tokenizer(settings)
    strategy = tf.distribute.get_strategy()

    class Changing(glue.GlueTask):
        def read(self, path, split):
            found = super().read(path, split)
            with open(path, "a") as stream:
                stream.write("99\tIt rains.\tIt is wet.\tentailment\n")
            return found

    def named(kind):
        shutil.rmtree(tmp_path / "glue", ignore_errors=True)
        shutil.copytree(world.glue, tmp_path / "glue")
        task = small_tasks.make("rte", tokenizer, small_runs.LENGTH, kind)
        sources = task.sources(str(tmp_path / "glue"))
        data = run_data.RunData(settings, task, sources, strategy)
        data.make_features(settings)
        return data.training_key, data.feature_key("dev")

    assert named(Changing) == named(glue.GlueTask)


@pytest.mark.parametrize("trains_on_records", [False, True])
def test_a_folder_in_the_place_of_a_file_is_refused_before_it_is_read(
    world, tmp_path, trains_on_records, monkeypatch
):
    monkeypatch.setattr(features.files, "sha256", None)
    settings = small_runs.shared(world, tmp_path / "run", do_eval=False)
    if trains_on_records:
        settings = changed(settings, train_feature_file="x", do_predict=False)
    tokenizer = finetuning_options.load_tokenizer(settings)
    task = small_tasks.make("rte", tokenizer, small_runs.LENGTH)
    sources = dict.fromkeys(("train", "test"), world.glue)
    with refused("is a folder, but rte is read"):
        data = run_data.RunData(
            settings, task, sources, tf.distribute.get_strategy()
        )
        data.make_features(settings)


def test_cached_dir_that_cannot_be_made_is_refused(world, tmp_path):
    path = f"{world.config}/features"
    settings = small_runs.classifier(world, tmp_path / "run", cached_dir=path)
    with refused(f"`cached_dir`: .*{path}"):
        run_classifier.run(settings)
    assert not (tmp_path / "run").exists()


class Lengths:
    """A teacher that tells the lengths of texts."""

    identity = {"weights_sha256": "1"}

    def __init__(self, path, task, precision=None):
        self.task = task

    def outputs(self, examples):
        lengths = [[len(t) for t in (*e.texts, "")[:2]] for e in examples]
        return {"logits": np.array(lengths, np.float32)}


def test_outputs_of_a_teacher_are_those_for_the_texts_of_the_student(
    world, tmp_path, monkeypatch
):
    """Students may read other rows and columns of the same file."""
    monkeypatch.setattr(teacher, "open_teacher", Lengths)
    rows = [
        {"a": "a " * n, "b": "b " * (99 - n), "mood": "sad" if n % 2 else "ok"}
        for n in range(40)
    ]
    path = row_files.write(tmp_path / "own.jsonl", rows)
    settings = small_runs.shared(
        world, tmp_path / "run", do_eval=False, do_predict=False
    )
    tokenizer = finetuning_options.load_tokenizer(settings)

    def read(named, **values):
        taught = teacher_signal.soft_labels(
            finetuning_options.TeacherOptions(teacher=str(named))
        )
        given = {"text_columns": "a", "dev_share": 0.2, **values}
        table = TableOptions(label_column="mood", labels="ok,sad", **given)
        task = labels.LabelTask(tokenizer, 24, table)
        strategy = tf.distribute.get_strategy()
        data = run_data.RunData(
            settings, task, {base.TRAIN: path}, strategy, taught
        )
        data.make_features(
            changed(settings, cached_dir=str(tmp_path / "cache"))
        )
        found = [part["logits"] for part in data._outputs.parts()]
        expected = Lengths(path, task).outputs(data.examples[base.TRAIN])
        np.testing.assert_array_equal(np.concatenate(found), expected["logits"])

    others = (
        {"text_columns": "b"},
        {"text_columns": "a,b"},
        {"split_seed": 5},
        {"dev_share": 0.5},
        {"dev_share": 0.05},
    )
    read("model")
    (stored,) = (tmp_path / "cache").glob("teacher-table-*")
    read("model")
    read(stored)
    for values in others:
        read("model", **values)
        with refused("in examples_sha256"):
            read(stored, **values)
    found = list((tmp_path / "cache").glob("teacher-table-*"))
    assert len(found) == 1 + len(others)
