"""Finetuning: lengths, several runs, early stopping, transfer, prediction."""

import dataclasses
import json
import logging
import os
import random
import shutil
import types
import zipfile

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import (
    checkpoints,
    distribution,
    ensemble,
    errors,
    finetuning,
    folder_lock,
    options,
    predict,
    run_classifier,
    run_glue,
    run_race,
    run_squad,
    scores,
    tokenization,
    training,
    zip_glue_submission,
)
from albert_tf.heads import classification
from albert_tf.tasks import glue, race, saved_outputs, squad, squad_features
from data_prep import create_finetuning_data, story_tasks
from tests.conftest import (
    LAYER_ATOL,
    LOSS_RTOL,
    changed,
    make_replicas,
    tiny_config,
)

LENGTH = 48
PAIRS = (("It rains.", "It is wet."), ("We stay.", "We go."), ("A.", "B."))


@pytest.fixture(scope="module")
def world(tmp_path_factory, tiny_vocab):
    """A tiny architecture, and some tasks in their official layouts."""
    folder = tmp_path_factory.mktemp("world")
    config = tiny_config()
    (folder / "config.json").write_text(config.to_json())
    told = set()
    for split, count in (("train", 40), ("dev", 12), ("test", 10)):
        rows = story_tasks.make_rte(random.Random(split), count, told)
        text = story_tasks.format_rte(rows, labelled=split != "test")
        write(folder / f"glue/RTE/{split}.tsv", text)
    for split, count in (
        ("train", 12),
        ("dev_matched", 16),
        ("test_matched", 10),
    ):
        for kind in ("matched", "mismatched"):
            name = split.replace("matched", kind)
            write(folder / f"glue/MNLI/{name}.tsv", mnli_rows(count, kind))
    write(
        folder / "glue/AX/diagnostic.tsv", "\tsentence1\tsentence2\n0\tA.\tB.\n"
    )
    rows = [
        "\t".join(["x"] * 7 + [*pair, str(n)]) for n, pair in enumerate(PAIRS)
    ]
    for split in ("train", "dev"):
        lines = ["\t".join(["name"] * 10), *rows, ""]
        write(folder / f"glue/STS-B/{split}.tsv", "\n".join(lines))
    for split in ("train", "dev", "test"):
        for level, count in (("middle", 3), ("high", 2)):
            for number in range(count):
                article = story_tasks.make_race_article(
                    random.Random(f"{split}{level}{number}"), level, number
                )
                write(
                    folder / f"race/{split}/{level}/{number}.txt",
                    story_tasks.to_json(article),
                )
    for split, count in (("train", 20), ("dev", 9)):
        questions = story_tasks.make_squad(random.Random(split), count)
        write(folder / f"squad/{split}.json", story_tasks.to_json(questions))
    return types.SimpleNamespace(
        folder=folder,
        squad=folder / "squad",
        config=str(folder / "config.json"),
        vocabulary=tiny_vocab,
        glue=str(folder / "glue"),
        race=str(folder / "race"),
    )


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def mnli_rows(columns, kind):
    lines = ["\t".join(["name"] * columns)]
    for index, pair in enumerate(PAIRS if kind == "matched" else PAIRS[:2]):
        fields = [str(index)] + ["x"] * (columns - 1)
        fields[8:10] = pair
        if columns > 10:
            fields[-1] = glue.TASKS["mnli"].labels[index]
        lines.append("\t".join(fields))
    return "\n".join(lines) + "\n"


def shared(world, output_dir, **values):
    """Options of a short run."""
    base = finetuning.FinetuningOptions(
        vocabulary=tokenization.VocabularyOptions(world.vocabulary),
        albert_config_file=world.config,
        output_dir=str(output_dir),
        max_seq_length=LENGTH,
        do_train=True,
        do_eval=True,
        do_predict=True,
        train_batch_size=8,
        length=finetuning.LengthOptions(train_step=2, warmup_step=1),
        trainer=training.TrainerOptions(
            save_checkpoints_steps=1, iterations_per_loop=1
        ),
    )
    return changed(base, **values)


def classifier(world, output_dir, task_name="rte", **values):
    return run_classifier.ClassifierOptions(
        finetuning=shared(world, output_dir, **values),
        data_dir=world.glue,
        task_name=task_name,
    )


@pytest.fixture(scope="module")
def two_runs(world, tmp_path_factory):
    """RTE, twice, with the predictions of both."""
    folder = tmp_path_factory.mktemp("runs") / "rte"
    run_classifier.run(classifier(world, folder, num_runs=2, seed=7))
    return folder


@pytest.fixture(scope="module")
def mnli(world, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "mnli"
    run_classifier.run(classifier(world, folder, "mnli"))
    return folder


def drop_no_outputs(patch):
    """Build GLUE's classifiers without dropout."""
    make = classification.AlbertClassifier
    patch.setattr(
        classification, "AlbertClassifier", lambda e, n, *_: make(e, n, 0.0)
    )


def metrics(folder, split):
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [line for line in map(json.loads, lines) if line["split"] == split]


# How long a run is.


@pytest.mark.parametrize(
    "values, expected",
    [
        ({"train_step": 7, "warmup_step": 3}, (7, 3)),
        # 100 records in batches of 8, three times.
        ({}, (37, 3)),
        ({"num_train_epochs": 0.5, "warmup_proportion": 0.5}, (6, 3)),
        ({"num_train_epochs": 1e-6}, (1, 0)),
        ({"train_step": 100}, (100, 10)),
        ({"warmup_step": 0}, (37, 0)),
    ],
)
def test_steps_follow_from_records_where_they_are_not_given(values, expected):
    assert finetuning.LengthOptions(**values).steps(100, 8) == expected


@pytest.mark.parametrize(
    "values, message",
    [
        ({"train_step": 0}, "--train_step=0 is below 1"),
        ({"warmup_step": -1}, "--warmup_step=-1 is below 0"),
        ({"num_train_epochs": 0.0}, "--num_train_epochs=0.0"),
        ({"warmup_proportion": 1.5}, "--warmup_proportion=1.5"),
    ],
)
def test_impossible_lengths_are_refused(values, message):
    with pytest.raises(errors.UserError, match=message):
        finetuning.LengthOptions(**values)


def test_warmup_longer_than_the_run_is_refused():
    length = finetuning.LengthOptions(train_step=5, warmup_step=6)
    with pytest.raises(errors.UserError, match="--warmup_step=6 does not fit"):
        length.steps(100, 8)


@pytest.mark.parametrize(
    "values, message",
    [
        ({"num_runs": 0}, "--num_runs=0"),
        ({"early_stopping_evaluations": -1}, "evaluations=-1 is below 0"),
        (
            {"early_stopping_evaluations": 2, "do_eval": False},
            "--early_stopping_evaluations needs the scores of --do_eval",
        ),
        ({"new_head": True}, "--new_head says how to use --init_checkpoint"),
    ],
)
def test_options_that_do_not_fit_are_refused(world, values, message):
    with pytest.raises(errors.UserError, match=message):
        shared(world, "nowhere", **values)


# Several runs.


def test_every_run_has_a_folder_and_a_seed(two_runs):
    for number, seed in ((1, 7), (2, 8)):
        folder = two_runs / f"run_{number}"
        written = json.loads((folder / "run_options.json").read_text())
        assert written["options"]["seed"] == seed
        assert (folder / "model.ckpt-best.index").exists()
        assert (folder / "run_card.md").exists()
    weights = [
        tf.train.load_checkpoint(str(two_runs / f"run_{n}" / "model.ckpt-2"))
        for n in (1, 2)
    ]
    name = "model/output_weights/.ATTRIBUTES/VARIABLE_VALUE"
    assert (weights[0].get_tensor(name) != weights[1].get_tensor(name)).any()


def test_runs_are_summed_up(two_runs):
    summary = scores.read(str(two_runs))
    assert [run.seed for run in summary.runs] == [7, 8]
    for run in summary.runs:
        logged = metrics(two_runs / os.path.basename(run.folder), "eval")
        assert run.scores["accuracy"] == max(n["accuracy"] for n in logged)
    accuracies = [run.scores["accuracy"] for run in summary.runs]
    assert summary.medians["accuracy"] == np.median(accuracies)


def test_features_are_shared_by_all_runs(two_runs):
    assert len(list(two_runs.glob("*.tfrecord"))) == 3
    assert not list(two_runs.glob("run_*/*.tfrecord"))


def test_predictions_of_the_best_run_stand_beside_the_runs(two_runs):
    best = os.path.basename(scores.read(str(two_runs)).best.folder)
    for name in ("RTE.tsv", "test_results.tsv", "submit_results.tsv"):
        written = (two_runs / name).read_text()
        assert written == (two_runs / best / name).read_text()
    assert len((two_runs / "RTE.tsv").read_text().splitlines()) == 11


def test_started_again_nothing_is_trained(world, two_runs, tmp_path, caplog):
    """Predicting alone, the scores of earlier say which run is the best."""
    folder = tmp_path / "rte"
    shutil.copytree(two_runs, folder)
    before = metrics(folder / "run_1", "train")
    written = (folder / "RTE.tsv").read_bytes()
    (folder / "RTE.tsv").unlink()
    settings = classifier(world, folder, num_runs=2, seed=7)
    run_classifier.run(changed(settings, do_train=False, do_eval=False))
    assert metrics(folder / "run_1", "train") == before
    assert (folder / "RTE.tsv").read_bytes() == written
    (folder / "RTE.tsv").unlink()
    (folder / "scores.json").unlink()
    run_classifier.run(changed(settings, do_train=True, do_eval=False))
    assert metrics(folder / "run_1", "train") == before
    assert "No scores say which run is the best" in caplog.text
    assert not (folder / "RTE.tsv").exists()


def test_scores_do_not_depend_on_the_batch_size(world, two_runs, tmp_path):
    """12 examples in batches of 8 (with filling), of 5 and of 12."""
    found = []
    for size in (8, 5, 12):
        shutil.copytree(two_runs / "run_1", tmp_path / str(size))
        settings = classifier(
            world,
            tmp_path / str(size),
            seed=7,
            do_train=False,
            do_predict=False,
            eval_batch_size=size,
        )
        run_classifier.run(settings)
        found.append(scores.read(str(tmp_path / str(size))).best.scores)
    assert found[0]["accuracy"] == found[1]["accuracy"] == found[2]["accuracy"]
    for other in found[1:]:
        assert other["loss"] == pytest.approx(found[0]["loss"], rel=1e-6)


# Early stopping.


@pytest.mark.parametrize(
    "values, patience, stuck",
    [
        ([0.5, 0.7, 0.7, 0.6], 2, True),
        ([0.5, 0.7, 0.7, 0.6], 3, False),
        ([0.5, 0.7, 0.6, 0.8], 2, False),
        ([0.5, 0.5], 1, True),
        ([0.5], 1, False),
        ([], 1, False),
        ([0.5, 0.4, 0.3], 0, False),
    ],
)
def test_stuck_means_nothing_better_for_so_long(values, patience, stuck):
    assert finetuning.is_stuck(values, patience) == stuck


def test_training_stops_when_nothing_gets_better(world, tmp_path, monkeypatch):
    accuracies = iter([0.5, 0.7, 0.6, 0.7, 0.9])
    monkeypatch.setattr(
        glue.GlueTask,
        "score",
        lambda *_: {"accuracy": next(accuracies, 0.7), "loss": 1.0},
    )
    settings = classifier(
        world,
        tmp_path / "run",
        early_stopping_evaluations=2,
        train_step=10,
        do_predict=False,
    )
    run_classifier.run(settings)
    logged = metrics(tmp_path / "run", "eval")
    assert [n["accuracy"] for n in logged] == [0.5, 0.7, 0.6, 0.7]
    assert metrics(tmp_path / "run", "train")[-1]["step"] == 4
    # The best checkpoint is that of the second evaluation.
    assert scores.read(str(tmp_path / "run")).best.step == 2
    # The same command has nothing left to do.
    run_classifier.run(settings)
    assert metrics(tmp_path / "run", "train")[-1]["step"] == 4
    # With more patience it goes on.
    accuracies = iter([0.9])
    run_classifier.run(changed(settings, early_stopping_evaluations=3))
    assert metrics(tmp_path / "run", "train")[-1]["step"] > 4


# Splits.


def test_both_dev_sets_of_mnli_are_scored(mnli):
    (first, *_) = metrics(mnli, "eval")
    assert {"accuracy", "accuracy_mismatched", "loss"} <= first.keys()
    assert (
        len(saved_outputs.load(str(mnli), "dev_matched").outputs["logits"]) == 3
    )
    other = saved_outputs.load(str(mnli), "dev_mismatched").outputs["logits"]
    assert len(other) == 2


def test_all_test_sets_of_mnli_are_predicted(mnli):
    for name, rows in (("MNLI-m", 3), ("MNLI-mm", 2), ("AX", 1)):
        lines = (mnli / f"{name}.tsv").read_text().splitlines()
        assert lines[0] == "index\tprediction"
        assert [line.split("\t")[0] for line in lines[1:]] == list(
            map(str, range(rows))
        )


def test_ax_is_predicted_by_a_finetuned_mnli_model(world, mnli, tmp_path):
    run_classifier.run(
        classifier(
            world,
            tmp_path / "ax",
            "ax",
            do_train=False,
            do_eval=False,
            init_checkpoint=str(mnli),
        )
    )
    written = (tmp_path / "ax/AX.tsv").read_text()
    assert written == (mnli / "AX.tsv").read_text()


@pytest.mark.parametrize("what", ["do_train", "do_eval"])
def test_ax_has_nothing_to_train_or_to_score(world, tmp_path, what):
    flags = dict.fromkeys(["do_train", "do_eval", "do_predict"], False)
    settings = classifier(world, tmp_path / "ax", "ax", **{**flags, what: True})
    with pytest.raises(errors.UserError, match=f"--{what} is set, but .* ax"):
        run_classifier.run(settings)
    assert not (tmp_path / "ax").exists()


def test_missing_second_dev_set_is_reported(world, tmp_path, caplog):
    shutil.copytree(world.glue, tmp_path / "glue")
    os.remove(tmp_path / "glue/MNLI/dev_mismatched.tsv")
    settings = classifier(
        world, tmp_path / "run", "mnli", do_predict=False, train_step=1
    )
    caplog.set_level(logging.WARNING, "absl")
    run_classifier.run(changed(settings, data_dir=str(tmp_path / "glue")))
    assert "Without dev_mismatched: it has no file" in caplog.text
    (line,) = metrics(tmp_path / "run", "eval")
    assert "accuracy_mismatched" not in line


# Starting weights, dropout.


@pytest.mark.parametrize("task_name, outputs", [("rte", 2), ("sts-b", 1)])
def test_transfer_from_mnli_replaces_the_head(
    world, mnli, tmp_path, task_name, outputs
):
    settings = classifier(
        world,
        tmp_path / "run",
        task_name,
        do_predict=False,
        init_checkpoint=str(mnli),
        train_step=1,
        warmup_step=1,  # So the only update has the rate 0.
    )
    with pytest.raises(errors.UserError, match="(?s)does not fit.*output_bias"):
        run_classifier.run(settings)
    run_classifier.run(changed(settings, new_head=True))
    name = "{}/.ATTRIBUTES/VARIABLE_VALUE"
    before = tf.train.load_checkpoint(str(mnli / "model.ckpt-best"))
    after = tf.train.load_checkpoint(str(tmp_path / "run/model.ckpt-1"))
    shapes = after.get_variable_to_shape_map()
    encoder = [key for key in shapes if key.startswith("model/encoder/")]
    assert len(encoder) > 10
    for key in encoder:
        np.testing.assert_array_equal(
            after.get_tensor(key), before.get_tensor(key)
        )
    assert shapes[name.format("model/output_bias")] == [outputs]


@pytest.mark.parametrize("new_head", [False, True])
def test_head_that_would_fit_starts_anew_on_demand(
    world, two_runs, tmp_path, new_head
):
    source = str(two_runs / "run_1/model.ckpt-2")
    settings = classifier(
        *(world, tmp_path / "run"),
        do_eval=False,
        do_predict=False,
        init_checkpoint=source,
        new_head=new_head,
        seed=9,
        train_step=1,
        warmup_step=1,  # So the only update has the rate 0.
    )
    run_classifier.run(settings)
    before = tf.train.load_checkpoint(source)
    after = tf.train.load_checkpoint(str(tmp_path / "run/model.ckpt-1"))
    ending = "/.ATTRIBUTES/VARIABLE_VALUE"
    steps = {
        key.removesuffix(ending): abs(
            after.get_tensor(key) - before.get_tensor(key)
        ).max()
        for key in after.get_variable_to_shape_map()
        if key.startswith("model/")
    }
    # Other draws from a standard deviation of 0.02, and not only an update.
    assert (steps.pop("model/output_weights") > 0.01) == new_head
    bias = after.get_tensor(f"model/output_bias{ending}")
    assert (bias == 0).all() == new_head
    assert (steps.pop("model/output_bias") > 0) == new_head
    assert len(steps) > 10
    assert set(steps.values()) == {0}


@pytest.fixture(scope="module")
def float32_losses(world, tmp_path_factory):
    return train_in("float32", world, tmp_path_factory.mktemp("float32"))


def train_in(precision, world, folder):
    """The losses of a short run whose updates are large enough to count."""
    settings = classifier(
        *(world, folder, "sts-b"),
        do_eval=False,
        do_predict=False,
        train_step=8,
        learning_rate=1e-2,
        precision=precision,
    )
    with pytest.MonkeyPatch.context() as patch:
        drop_no_outputs(patch)
        run_classifier.run(settings)
    return [line["loss"] for line in metrics(folder, "train")]


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_finetuning_in_low_precision_follows_float32(
    world, float32_losses, tmp_path, precision
):
    losses = train_in(precision, world, tmp_path)
    assert losses != float32_losses
    assert losses == pytest.approx(float32_losses, rel=1e-2)
    assert min(float32_losses) < max(float32_losses) / 2
    reader = tf.train.load_checkpoint(str(tmp_path / "model.ckpt-8"))
    kinds = reader.get_variable_to_dtype_map()
    weights = {kinds[key] for key in kinds if key.startswith("model/")}
    assert weights == {tf.float32}


def test_dropout_of_the_recipe_wins_over_the_config(world, tmp_path):
    settings = shared(world, tmp_path, hidden_dropout_prob=0.25)
    config = settings.read_config()
    assert config.hidden_dropout_prob == 0.25
    assert config.attention_probs_dropout_prob == 0.0
    settings = shared(world, tmp_path, attention_probs_dropout_prob=0.5)
    assert settings.read_config().attention_probs_dropout_prob == 0.5


# Features made elsewhere.


def offline(world, output_file, **values):
    create_finetuning_data.run(
        changed(
            create_finetuning_data.FinetuningDataOptions(
                task_name="rte",
                input_file=f"{world.glue}/RTE/train.tsv",
                output_file=str(output_file),
                is_training=True,
                max_seq_length=LENGTH,
                vocabulary=tokenization.VocabularyOptions(world.vocabulary),
                num_workers=1,
            ),
            **values,
        )
    )
    return str(output_file)


@pytest.mark.parametrize("kind", ["rte", "squad"])
def test_training_on_features_made_elsewhere_is_the_same(world, tmp_path, kind):
    """They are in the order of the data; training shuffles them first."""
    run, make = KINDS[kind]
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
        losses = [line["loss"] for line in metrics(tmp_path / name, "train")]
        (facts,) = metrics(tmp_path / name, "facts")
        found.append((made.name, made.read_bytes(), losses, facts["data"]))
    assert found[0] == found[1]
    with open(path, "rb") as stream:
        in_order = stream.read()
    assert in_order != found[0][1]
    assert len(in_order) == len(found[0][1])


def test_cut_off_features_are_refused(world, tmp_path):
    path = offline(world, tmp_path / "train.tfrecord")
    with open(path, "rb+") as stream:
        stream.truncate(os.path.getsize(path) - 1)
    settings = classifier(world, tmp_path / "run", train_feature_file=path)
    with pytest.raises(
        errors.UserError, match="39 records are whole; in the next.* ends"
    ):
        run_classifier.run(settings)


@pytest.mark.parametrize("split, record", [("train", 40), ("dev", 1)])
def test_damaged_features_are_named(world, two_runs, tmp_path, split, record):
    for path in two_runs.glob("*.tfrecord*"):
        shutil.copy(path, tmp_path)
    (path,) = tmp_path.glob(f"*-{split}-*.tfrecord")
    content = bytearray(path.read_bytes())
    content[30 if record == 1 else -30] ^= 0xFF
    path.write_bytes(content)
    settings = classifier(world, tmp_path / "run", cached_dir=str(tmp_path))
    message = f"{path} is damaged: record {record} cannot .* Remove it and"
    with pytest.raises(errors.UserError, match=message):
        run_classifier.run(settings)


@pytest.mark.parametrize(
    "values, line",
    [
        ({"max_seq_length": 40}, "max_seq_length: 40 there, 48 here"),
        ({"do_lower_case": False}, "do_lower_case: False there, True here"),
    ],
)
def test_features_of_other_options_are_refused(world, tmp_path, values, line):
    path = offline(world, tmp_path / "train.tfrecord", **values)
    settings = classifier(world, tmp_path / "run", train_feature_file=path)
    with pytest.raises(errors.UserError, match=line):
        run_classifier.run(settings)


# A user's own file.


def test_folder_alone_predicts_as_the_script_did(world, two_runs, tmp_path):
    lines = open_lines(f"{world.glue}/RTE/test.tsv")[1:]
    own = ["id\ttext\ttext_pair", *lines]
    write(tmp_path / "own.tsv", "".join(f"{line}\n" for line in own))
    moved = tmp_path / "moved"
    shutil.copytree(two_runs / "run_1", moved)
    for name in ("own.jsonl", "own_out.tsv"):
        predict.run(
            predict.PredictOptions(
                run_dir=str(moved),
                input_file=str(tmp_path / "own.tsv"),
                output_file=str(tmp_path / name),
                batch_size=4,
            )
        )
    answers = list(map(json.loads, open_lines(tmp_path / "own.jsonl")))
    expected = open_lines(two_runs / "run_1/RTE.tsv")[1:]
    assert [f"{a['id']}\t{a['prediction']}" for a in answers] == expected
    odds = [
        [float(number) for number in line.split("\t")]
        for line in open_lines(two_runs / "run_1/test_results.tsv")
    ]
    np.testing.assert_allclose(
        [list(a["probabilities"].values()) for a in answers],
        odds,
        atol=LAYER_ATOL,
    )
    table = [line.split("\t") for line in open_lines(tmp_path / "own_out.tsv")]
    assert table[0] == ["id", "prediction", "entailment", "not_entailment"]
    assert [row[:2] for row in table[1:]] == [e.split("\t") for e in expected]
    assert float(table[1][2]) == answers[0]["probabilities"]["entailment"]


def open_lines(path):
    with open(path, encoding="utf-8") as stream:
        return stream.read().splitlines()


def test_folder_of_several_runs_means_the_best_one(world, two_runs, tmp_path):
    """Wherever it lies, and for all that takes a folder."""
    moved = tmp_path / "moved"
    shutil.copytree(two_runs, moved)
    best = os.path.basename(scores.read(str(two_runs)).best.folder)
    assert scores.read(str(moved)).best.folder == str(moved / best)
    assert checkpoints.find(str(moved)) == str(moved / best / "model.ckpt-best")
    write(tmp_path / "own.tsv", "text\ttext_pair\nIt rains.\tIt is wet.\n")
    for folder, name in ((moved, "outer"), (moved / best, "inner")):
        predict.run(
            predict.PredictOptions(
                run_dir=str(folder),
                input_file=str(tmp_path / "own.tsv"),
                output_file=str(tmp_path / name),
            )
        )
    assert open_lines(tmp_path / "outer") == open_lines(tmp_path / "inner")


def test_prediction_names_what_is_no_finetuned_model(tmp_path):
    write(tmp_path / "own.tsv", "text\nIt rains.\n")
    settings = predict.PredictOptions(
        run_dir=str(tmp_path),
        input_file=str(tmp_path / "own.tsv"),
        output_file=str(tmp_path / "out.jsonl"),
    )
    with pytest.raises(errors.UserError, match="is not the folder of a run"):
        predict.run(settings)


# Two processes.


@pytest.mark.parametrize("num_runs", [1, 2])
def test_a_second_finetuning_in_a_folder_is_refused_and_changes_nothing(
    world, tmp_path, monkeypatch, num_runs
):
    monkeypatch.setattr(folder_lock, "PATIENCE", 0.0)
    with folder_lock.hold(str(tmp_path / "rte"), "output_dir"):
        with pytest.raises(errors.UserError, match="/rte is in use by"):
            run_classifier.run(
                classifier(world, tmp_path / "rte", num_runs=num_runs)
            )
        assert os.listdir(tmp_path / "rte") == [folder_lock.NAME]


@pytest.mark.parametrize("source", ["gs://bucket/dev.tsv", "/dev/null", "no"])
def test_an_ensemble_reads_files_of_this_machine_only(
    two_runs, tmp_path, source
):
    shutil.copytree(two_runs, tmp_path / "rte")
    for number in (1, 2):
        folder = str(tmp_path / "rte" / f"run_{number}")
        saved = saved_outputs.load(folder, "dev")
        other = dataclasses.replace(saved, source=source)
        saved_outputs.save(folder, "dev", other)
    with pytest.raises(errors.UserError, match=f"predicted {source}, which"):
        average([tmp_path / "rte" / "run_*"], tmp_path / "both")


def test_a_second_ensemble_in_a_folder_is_refused(
    two_runs, tmp_path, monkeypatch
):
    monkeypatch.setattr(folder_lock, "PATIENCE", 0.0)
    with folder_lock.hold(str(tmp_path / "both"), "output_dir"):
        with pytest.raises(errors.UserError, match="both is in use by"):
            average([two_runs / "run_*"], tmp_path / "both")
        assert os.listdir(tmp_path / "both") == [folder_lock.NAME]


# Ensembles.


def average(folders, output_dir):
    ensemble.run(
        ensemble.EnsembleOptions(
            run_dirs=",".join(map(str, folders)), output_dir=str(output_dir)
        )
    )


def test_ensemble_averages_the_probabilities_of_runs(two_runs, tmp_path):
    average([two_runs / "run_*"], tmp_path / "both")
    odds = [
        np.loadtxt(folder / "test_results.tsv")
        for folder in (
            two_runs / "run_1",
            two_runs / "run_2",
            tmp_path / "both",
        )
    ]
    np.testing.assert_allclose(odds[2], (odds[0] + odds[1]) / 2, rtol=1e-9)
    labels = [
        line.split("\t")[1] for line in open_lines(tmp_path / "both/RTE.tsv")
    ]
    names = np.array(glue.TASKS["rte"].labels)
    assert labels[1:] == names[odds[2].argmax(1)].tolist()
    assert open_lines(tmp_path / "both/eval_results.txt")[0].startswith(
        "accuracy = "
    )


@pytest.mark.parametrize(
    "folders, message",
    [
        (["{0}/run_1"], "names 1 folder"),
        (["{0}/run_1", "{1}"], "have not one task, but mnli, rte"),
        (["{0}/run_1", "{0}"], "dev_outputs.npz is not there"),
        (["{0}/run_1", "nowhere"], "is not the folder of a run"),
    ],
)
def test_unlike_runs_are_no_ensemble(
    two_runs, mnli, tmp_path, folders, message
):
    folders = [folder.format(two_runs, mnli) for folder in folders]
    with pytest.raises(errors.UserError, match=message):
        average(folders, tmp_path / "both")


def test_outputs_about_other_data_are_no_ensemble(two_runs, tmp_path):
    folder = tmp_path / "rte"
    shutil.copytree(two_runs, folder)
    saved = saved_outputs.load(str(folder / "run_2"), "dev")
    changes = {
        "facts": {**saved.facts, "content_sha256": "0"},
        "outputs": {"logits": saved.outputs["logits"][1:]},
    }
    for name, value in changes.items():
        other = dataclasses.replace(saved, **{name: value})
        saved_outputs.save(str(folder / "run_2"), "dev", other)
        with pytest.raises(errors.UserError, match="about other data"):
            average([folder / "run_*"], tmp_path / "both")
    os.remove(saved_outputs.path(str(folder / "run_2"), "dev"))
    with pytest.raises(errors.UserError, match="dev_outputs.npz is not there"):
        average([folder / "run_*"], tmp_path / "both")


# RACE.


@pytest.fixture(scope="module")
def raced(world, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "race"
    run_race.run(
        run_race.RunRaceOptions(
            finetuning=shared(
                world, folder, train_batch_size=4, max_seq_length=64
            ),
            data_dir=world.race,
            questions=race.RaceOptions(max_qa_length=24, options_at_once=2),
        )
    )
    return folder


def test_race_is_scored_by_level(raced):
    summary = scores.read(str(raced))
    found = summary.best.scores
    assert found.keys() == {
        *("accuracy", "accuracy_middle", "accuracy_high", "loss")
    }
    # 12 questions of middle, 8 of high.
    mean = (12 * found["accuracy_middle"] + 8 * found["accuracy_high"]) / 20
    assert found["accuracy"] == pytest.approx(mean)


def test_race_predicts_every_question(raced):
    answers = list(
        map(json.loads, open_lines(raced / "test_predictions.jsonl"))
    )
    assert len(answers) == 20
    assert {a["prediction"] for a in answers} <= set("ABCD")
    assert open_lines(raced / "predict_results.txt")[0].startswith("accuracy")


def test_race_predicts_articles_of_the_user(world, raced, tmp_path):
    articles = [
        json.loads(open_lines(f"{world.race}/test/middle/{n}.txt")[0])
        for n in range(3)
    ]
    for article in articles:
        del article["answers"]
    lines = "".join(json.dumps(article) + "\n" for article in articles)
    write(tmp_path / "own.jsonl", lines)
    predict.run(
        predict.PredictOptions(
            run_dir=str(raced),
            input_file=str(tmp_path / "own.jsonl"),
            output_file=str(tmp_path / "out.jsonl"),
            batch_size=5,
        )
    )
    ours = list(map(json.loads, open_lines(tmp_path / "out.jsonl")))
    theirs = list(map(json.loads, open_lines(raced / "test_predictions.jsonl")))
    assert [a["id"] for a in ours] == [a["id"] for a in theirs[:12]]
    for one, other in zip(ours, theirs, strict=False):
        assert one["probabilities"] == pytest.approx(
            other["probabilities"], abs=LAYER_ATOL
        )


# SQuAD, and what holds for tasks of every kind.


def answerer(world, output_dir, **values):
    settings = run_squad.RunSquadOptions(
        finetuning=changed(
            run_squad.SquadFinetuningOptions(**vars(shared(world, output_dir))),
            max_seq_length=56,
        ),
        train_file=str(world.squad / "train.json"),
        predict_file=str(world.squad / "dev.json"),
        questions=squad.SquadOptions(
            dropout_prob=0.0,
            windows=squad_features.WindowOptions(16, 16),
        ),
    )
    return changed(settings, **values)


def racer(world, output_dir, **values):
    settings = run_race.RunRaceOptions(
        finetuning=shared(world, output_dir, max_seq_length=64),
        data_dir=world.race,
        questions=race.RaceOptions(max_qa_length=24, dropout_prob=0.0),
    )
    return changed(settings, **values)


KINDS = {
    "rte": (run_classifier.run, classifier),
    "squad": (run_squad.run, answerer),
    "race": (run_race.run, racer),
}


@pytest.fixture
def without_head_dropout(monkeypatch):
    """Each replica draws its own dropout, and that of GLUE has no option."""
    drop_no_outputs(monkeypatch)


@pytest.mark.parametrize("kind", KINDS)
def test_replicas_and_batches_change_neither_losses_nor_scores(
    world, tmp_path, monkeypatch, without_head_dropout, kind
):
    """12, 70 and 20 dev records: both sizes leave a partial last batch."""
    run, make = KINDS[kind]
    found = []
    for number, (replicas, size) in enumerate(((1, 9), (2, 8))):
        if replicas > 1:
            monkeypatch.setattr(
                distribution, "make_strategy", lambda _: make_replicas()
            )
        folder = tmp_path / str(number)
        settings = make(
            *(world, folder),
            train_step=3,
            do_predict=False,
            eval_batch_size=size,
        )
        run(settings)
        outputs = saved_outputs.load(str(folder), "dev").outputs
        count = len(next(iter(outputs.values())))
        assert count > 10
        assert count % size
        losses = [line["loss"] for line in metrics(folder, "train")]
        assert len(losses) == 3
        found.append((losses, scores.read(str(folder)).best.scores))
    (losses, numbers), (other_losses, other_numbers) = found
    assert other_losses == pytest.approx(losses, rel=LOSS_RTOL)
    assert other_numbers == pytest.approx(numbers, rel=LOSS_RTOL)


@pytest.mark.parametrize("version", squad.VERSIONS)
def test_squad_from_training_to_ensemble(world, tmp_path, version):
    """Two runs, their ensemble, and prediction from a folder alone."""
    folder = tmp_path / "runs"
    content = json.loads((world.squad / "dev.json").read_text())
    if version == "1.1":
        for article in content["data"]:
            for paragraph in article["paragraphs"]:
                paragraph["qas"] = [
                    q for q in paragraph["qas"] if not q["is_impossible"]
                ]
    write(tmp_path / "file.json", json.dumps(content))
    file = str(tmp_path / "file.json")
    settings = answerer(
        *(world, folder),
        squad_version=version,
        train_file=file,
        predict_file=file,
        num_runs=2,
    )
    run_squad.run(settings)
    best = scores.read(str(folder)).best
    written = json.loads((folder / "predictions.json").read_text())
    # The first dev file of a run is the best one's, also beside the runs.
    inner = json.loads(open_text(best.folder, "predictions.json"))
    assert written == inner
    average([folder / "run_*"], tmp_path / "both")
    both = json.loads((tmp_path / "both/predictions.json").read_text())
    assert both.keys() == written.keys()
    results = (tmp_path / "both/eval_results.txt").read_text()
    assert "f1 = " in results
    assert (tmp_path / "both/null_odds.json").exists() == (version == "2.0")
    # From the folder alone, without the answers.
    for article in content["data"]:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                question.pop("answers", None)
                question.pop("is_impossible", None)
    write(tmp_path / "own.json", json.dumps(content))
    predict.run(
        predict.PredictOptions(
            run_dir=str(folder),
            input_file=str(tmp_path / "own.json"),
            output_file=str(tmp_path / "own.jsonl"),
            batch_size=5,
        )
    )
    own = list(map(json.loads, open_lines(tmp_path / "own.jsonl")))
    assert {a["id"]: a["prediction"] for a in own} == written


def open_text(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8") as stream:
        return stream.read()


def test_squad_runs_with_other_windows_are_no_ensemble(world, tmp_path):
    """Their shapes are the same, but not what their numbers mean."""
    for name, values in (("a", {}), ("b", {"max_query_length": 15})):
        settings = answerer(world, tmp_path / name, train_step=1, **values)
        run_squad.run(changed(settings, do_predict=False))
    with pytest.raises(
        errors.UserError, match="(?s)other windows.*max_query_length: 16 there"
    ):
        average([tmp_path / "a", tmp_path / "b"], tmp_path / "both")


# The suite and its submission.


def suite(world, output_dir, **values):
    return run_glue.GlueOptions(
        data_dir=world.glue,
        output_dir=str(output_dir),
        spm_model_file=world.vocabulary,
        albert_config_file=world.config,
        **values,
    )


def test_command_of_a_task_names_its_recipe_first(world, tmp_path):
    settings = suite(
        world, tmp_path, tasks="RTE", overrides="--train_step=3 --do_eval"
    )
    assert run_glue.choose_tasks(settings) == ["rte"]
    assert run_glue.flags_of(settings, "rte") == [
        "--flagfile=configs/glue/rte.flags",
        "--task_name=rte",
        f"--data_dir={world.glue}",
        f"--output_dir={tmp_path}/rte",
        f"--albert_config_file={world.config}",
        f"--spm_model_file={world.vocabulary}",
        "--train_step=3",
        "--do_eval",
    ]


def test_small_tasks_may_start_from_mnli(world, mnli, tmp_path):
    shutil.copytree(mnli, tmp_path / "mnli")
    settings = suite(world, tmp_path, from_mnli=True, init_checkpoint="v2")
    names = run_glue.choose_tasks(settings)
    assert names[0] == "mnli"
    assert sorted(names) == sorted(glue.TASKS.keys() - {"ax"})
    best = scores.read(str(tmp_path / "mnli")).best.folder
    assert best.startswith(str(tmp_path))
    flags = {name: run_glue.flags_of(settings, name) for name in names}
    for flag, tasks in (
        (f"--init_checkpoint={best}", {"rte", "sts-b", "mrpc"}),
        ("--new_head=true", {"rte", "sts-b", "mrpc"}),
        ("--init_checkpoint=v2", set(names) - {"rte", "sts-b", "mrpc"}),
    ):
        assert {name for name in names if flag in flags[name]} == tasks


@pytest.mark.parametrize(
    "values, message",
    [
        ({"tasks": "rte,rtf"}, "--tasks has 'rtf'"),
        ({"tasks": "ax"}, "--tasks has 'ax'"),
        ({"tasks": "rte", "from_mnli": True}, "--from_mnli needs mnli"),
        ({"tasks": "rte", "recipe_dir": "no"}, "--recipe_dir=no/rte.flags"),
    ],
)
def test_suites_that_cannot_be_run_are_refused(world, values, message):
    with pytest.raises(errors.UserError, match=message):
        run_glue.choose_tasks(suite(world, "nowhere", **values))


def test_table_of_the_suite_by_hand():
    def summary(name, *values):
        runs = [scores.Run("f", n, 1, v) for n, v in enumerate(values)]
        return scores.Summary(name, "accuracy", tuple(runs))

    table = run_glue.to_markdown(
        {
            "mrpc": summary("mrpc", {"accuracy": 0.8, "f1": 0.9, "loss": 3.0}),
            "mnli": summary(
                "mnli",
                {"accuracy": 0.5, "accuracy_mismatched": 0.7, "loss": 1.0},
                {"accuracy": 0.6, "accuracy_mismatched": 0.8, "loss": 1.0},
                {"accuracy": 0.7, "accuracy_mismatched": 0.9, "loss": 1.0},
            ),
        }
    )
    assert table.splitlines()[2:] == [
        "| mrpc | accuracy / f1 | 80.0 / 90.0 | 85.0 | 0.0 / 0.0 | 1 |",
        "| mnli | accuracy / accuracy_mismatched | 60.0 / 80.0 | 70.0 | "
        "10.0 / 10.0 | 3 |",
        "| average of 2 | | | 77.5 | | |",
    ]


def test_submission_holds_what_was_predicted(two_runs, mnli, tmp_path):
    (tmp_path / "suite").mkdir()
    for folder in (two_runs, mnli):
        shutil.copytree(folder, tmp_path / "suite" / folder.name)
    settings = zip_glue_submission.ZipOptions(
        input_dir=str(tmp_path / "suite"),
        output_file=str(tmp_path / "glue.zip"),
    )
    with pytest.raises(errors.UserError, match="has no CoLA.tsv, SST-2.tsv"):
        zip_glue_submission.run(settings)
    zip_glue_submission.run(changed(settings, allow_missing=True))
    with zipfile.ZipFile(tmp_path / "glue.zip") as archive:
        assert archive.namelist() == [
            *("MNLI-m.tsv", "MNLI-mm.tsv", "AX.tsv", "RTE.tsv")
        ]
        kinds = {entry.compress_type for entry in archive.infolist()}
        assert kinds == {zipfile.ZIP_DEFLATED}
        rows = archive.read("RTE.tsv").decode()
    assert rows == (two_runs / "RTE.tsv").read_text()


def test_submission_has_all_names_of_the_leaderboard():
    assert set(zip_glue_submission.NAMES) == {
        *("CoLA.tsv", "SST-2.tsv", "MRPC.tsv", "STS-B.tsv", "QQP.tsv"),
        *("MNLI-m.tsv", "MNLI-mm.tsv", "QNLI.tsv", "RTE.tsv", "WNLI.tsv"),
        "AX.tsv",
    }


def test_ambiguous_or_strange_predictions_are_not_packed(tmp_path):
    settings = zip_glue_submission.ZipOptions(
        input_dir=str(tmp_path),
        output_file=str(tmp_path / "glue.zip"),
        allow_missing=True,
    )
    with pytest.raises(errors.UserError, match="has no CoLA.tsv"):
        zip_glue_submission.run(settings)
    write(tmp_path / "a/RTE.tsv", "no header\n")
    with pytest.raises(errors.UserError, match="is not a prediction file"):
        zip_glue_submission.run(settings)
    write(tmp_path / "b/RTE.tsv", "index\tprediction\n")
    with pytest.raises(errors.UserError, match="RTE.tsv several times"):
        zip_glue_submission.run(settings)
    assert not (tmp_path / "glue.zip").exists()


@pytest.mark.slow
def test_suite_runs_its_tasks_and_prints_the_table(world, tmp_path, run_module):
    settings = suite(
        world,
        tmp_path,
        tasks="rte,mnli",
        from_mnli=True,
        overrides="--train_step=2 --warmup_step=1 --max_seq_length=32 "
        "--train_batch_size=4",
    )
    flags = [
        f"--{name}={value}"
        for name, value in options.to_dict(settings).items()
        if value is not None
    ]
    done = run_module("albert_tf.run_glue", *flags)
    assert done.returncode == 0, done.stderr
    table = (tmp_path / "glue_table.md").read_text()
    assert done.stdout.endswith(table)
    assert "| average of 2 |" in table
    assert (tmp_path / "mnli/AX.tsv").exists()
