"""Which models can teach a task."""

import contextlib
import json
import shutil

import numpy as np
import pytest

from albert_tf import export
from albert_tf.finetuning import (
    finetuning_options,
    packing,
    predictions,
    registry,
    teacher,
)
from albert_tf.model.config import AlbertConfig
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.tasks.embedding import task as embedding
from albert_tf.tasks.race import task as race
from tests import export_options
from tests.albert_tf.finetuning import small_runs
from tests.albert_tf.tasks.glue import small_tasks
from tests.conftest import refused, tiny_config
from tests.export_options import make_options


@pytest.fixture
def tokenizer(world):
    return finetuning_options.load_tokenizer(small_runs.shared(world, "x"))


@pytest.fixture
def encoder(world, tmp_path):
    """A folder with weights of an encoder, config and vocabulary."""
    folder = tmp_path / "encoder"
    AlbertModel(tiny_config()).save_weights(str(folder / "model.ckpt"))
    shutil.copy(world.config, folder / "albert_config.json")
    shutil.copy(world.vocabulary, folder / "spm.model")
    return folder


def vectors(tokenizer, length=24):
    wanted = embedding.EmbeddingOptions(train_examples="texts")
    return embedding.EmbeddingTask(tokenizer, length, wanted)


def test_outputs_are_those_that_can_be_learned(new_runs, tokenizer):
    task = small_tasks.make("rte", tokenizer, 48)
    found = teacher.open_teacher(str(new_runs / "run_1"), task)
    examples = []
    assert found.outputs(examples)["logits"].shape == (0, 2)
    other = teacher.open_teacher(str(new_runs / "run_2"), task)
    one, others = found.identity, other.identity
    assert one.pop("weights_sha256") != others.pop("weights_sha256")
    assert one == others
    before = other.identity
    other.model.output_bias.assign_add([1, 0])
    assert other.identity != before  # A head counts, too.
    json.dumps(one)


def test_a_saved_model_teaches_as_its_run(new_runs, tokenizer, tmp_path):
    """Its logits are those of the run, less a constant of each example."""
    run, folder = str(new_runs / "run_1"), str(tmp_path / "saved")
    export.run(make_options(run_dir=run, export_dir=folder))
    task = small_tasks.make("rte", tokenizer, 48)
    one, other = (teacher.open_teacher(t, task) for t in (run, folder))
    texts = ("It rains.", "The ferry waits."), ("We stay.", ""), ("A", "boat")
    examples = [
        packing.TextExample(number, two, 0) for number, two in enumerate(texts)
    ]
    logits, found = (t.outputs(examples)["logits"] for t in (one, other))
    differences = found - logits
    np.testing.assert_allclose(
        differences[:, 0], differences[:, 1], atol=1e-6, rtol=0
    )
    with refused("entailment, not_entailment"):
        teacher.open_teacher(folder, small_tasks.make("mrpc", tokenizer, 48))
    with refused("no float32 probabilities for text\\."):
        teacher.open_teacher(folder, small_tasks.make("sst-2", tokenizer, 48))


def test_a_teacher_computes_in_the_student_s_precision(new_runs, tokenizer):
    """Its outputs are kept apart from those in float32."""
    task = small_tasks.make("rte", tokenizer, 48)
    run = str(new_runs / "run_1")
    half = teacher.open_teacher(run, task, "bfloat16")
    full = teacher.open_teacher(run, task)
    examples = [packing.TextExample(0, ("It rains.", "The ferry waits."), 0)]
    found, expected = (t.outputs(examples)["logits"] for t in (half, full))
    assert (found != expected).any()
    np.testing.assert_allclose(found, expected, atol=0.02, rtol=0)
    assert half.identity != full.identity


def test_a_finetuned_encoder_gives_vectors_too(new_runs, tokenizer):
    for length, kept in ((24, 24), (999, 64)):  # As many as it has positions.
        task = vectors(tokenizer, length)
        found = teacher.open_teacher(str(new_runs / "run_1"), task)
        assert found.task.max_seq_length == kept
    assert found.outputs([])["embedding"].shape == (0, 16)


def test_teachers_of_other_tasks_are_refused(new_runs, tokenizer):
    run = str(new_runs / "run_1")
    turned = small_tasks.make("rte", tokenizer, 48)
    turned.labels = turned.labels[::-1]
    for path, task in (
        (run, turned),
        (str(new_runs), turned),  # The best of several.
        (f"{run}/model.ckpt-best", turned),
    ):
        with refused("entailment, not_entail"):
            teacher.open_teacher(path, task)
    for other in (
        race.RaceTask(tokenizer, 300, race.RaceOptions()),
        small_tasks.make("qnli", tokenizer, 48),  # With the same labels.
    ):
        with refused(f"finetuned for rte, the student is for {other.name}"):
            teacher.open_teacher(run, other)


SQUAD = {"task_name": "squad", "max_seq_length": 300}
RACE = {"task_name": "race", "max_seq_length": 300}
TABLE = {"task_name": "table", "max_seq_length": 24, "labels": "glad,sad"}
SINGLE, PAIRS = "table .label of single texts.", "table .label of pairs."


@pytest.mark.parametrize(
    ("values", "name", "there", "here", "message"),
    [
        (SQUAD, "squad_version", "1.1", "1.1", None),
        (SQUAD, "squad_version", "1.1", "2.0", "`squad_version=1.1`, the st"),
        (RACE, "num_options", 4, 5, "`num_options=4`, the student has"),
        (TABLE, "text_columns", "a", "b", None),
        (TABLE, "text_columns", "a", "a,b", f"{SINGLE}, the .* for {PAIRS}"),
        (TABLE, "text_columns", "a,b", "a", f"{PAIRS}, the .* for {SINGLE}"),
    ],
)
def test_teachers_of_other_heads_are_refused(
    tokenizer, values, name, there, here, message
):
    tasks = [
        registry.make({**values, name: value}, tokenizer)
        for value in (there, here)
    ]
    if message is None:
        teacher._check_task(*tasks, "run")
        return
    with refused(message):
        teacher._check_task(*tasks, "run")


RANKING = {
    "task_name": "table",
    "query_column": "text",
    "text_columns": "text_pair",
    "label_column": "label",
    "max_seq_length": 32,
}
UNITS = {"ranking_loss": "pointwise", "label_mean": 1.0, "label_deviation": 2.0}


def test_scores_of_pairs_are_those_of_the_run(world, tokenizer, tmp_path):
    """Of texts alone, in pairs, and beside a text of a triplet."""
    run = str(tmp_path / "run")
    config = AlbertConfig.from_json_file(world.config)
    given = {**RANKING, **UNITS, "data_dir": None}
    name = given.pop("task_name")
    export_options.make_run(run, config, world.vocabulary, name, **given)
    texts = [("Rain?", "It rains."), ("Rain?", "We stay."), ("Who?", "A boat")]
    one, other, third = (
        packing.TextExample(n, t, 0) for n, t in enumerate(texts)
    )
    predictor = predictions.RunPredictor(run, None, 8)
    predictor.load()
    answers = predictor.answers([one, other, third])
    expected = [answer["prediction"] for answer in answers]
    pairwise, pointwise = (
        registry.make({**RANKING, **values}, tokenizer)
        for values in ({}, UNITS)
    )
    triplets = embedding.EmbeddingTask(
        tokenizer, 24, embedding.EmbeddingOptions(train_examples="triplets")
    )
    triplet = packing.TextExample(0, ("Rain?", "It rains.", "We stay."))
    for task, examples, name, found in (
        (
            pointwise,
            [one, other, third],
            "logits",
            np.reshape(expected, [3, 1]),
        ),
        (
            pairwise,
            [(one, other), (third, one)],
            "logits",
            [expected[:2], expected[::-2]],
        ),
        (triplets, [triplet], "scores", [expected[:2]]),
    ):
        outputs = teacher.open_teacher(run, task).outputs(examples)
        np.testing.assert_allclose(outputs[name], found, atol=1e-5, rtol=0)


def of_pairs(**values):
    return {**TABLE, "labels": None, "text_columns": "a,b", **values}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"task_name": "sts-b", "max_seq_length": 24}, None),
        ({"task_name": "mrpc", "max_seq_length": 24}, None),
        (of_pairs(regression=True), None),
        ({"task_name": "rte", "max_seq_length": 24}, "finetuned for rte. Name"),
        (RACE, "finetuned for race. Name a run"),
        (of_pairs(multi_label=True, labels="0,1"), "table .labels of pairs."),
        (of_pairs(regression=True, text_columns="a"), "number of single texts"),
        (None, "is no run. Name a run of run_classifier"),
    ],
)
def test_what_does_not_score_pairs_is_refused(tokenizer, values, message):
    task = registry.make(values, tokenizer) if values else None
    with refused(message) if message else contextlib.nullcontext():
        teacher._require_scores("run", task)


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("albert_config.json", "no config file beside it"),
        ("spm.model", "no vocabulary in .*encoder, or several"),
        ("model.ckpt.index", "does not say which checkpoint"),
    ],
)
def test_a_checkpoint_needs_config_and_vocabulary(
    encoder, tokenizer, missing, message
):
    teacher.open_teacher(str(encoder / "model.ckpt"), vectors(tokenizer))
    with refused("output_bias: model"):
        task = small_tasks.make("rte", tokenizer, 48)
        teacher.open_teacher(str(encoder / "model.ckpt"), task)
    (encoder / missing).unlink()
    path = encoder if "ckpt" in missing else encoder / "model.ckpt"
    with refused(message):
        teacher.open_teacher(str(path), vectors(tokenizer))
