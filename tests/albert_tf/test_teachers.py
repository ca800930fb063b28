"""Every form of teacher that docs/distillation.md names.

Students are trained in a process that has done nothing else, which knows only
what the command loads; teachers of a kind share it.
"""

import functools
import json
import os
import pathlib
import pickle
import shutil
import subprocess
import sys

import numpy as np
import pytest

from albert_tf import (
    convert_checkpoint,
    distill,
    run_classifier,
    run_embeddings,
    run_race,
    run_squad,
    run_tagger,
)
from albert_tf.finetuning import predictions
from albert_tf.model.network.encoder import AlbertModel
from tests import export_options, sentence_folders
from tests.albert_tf import test_run_embeddings
from tests.albert_tf.finetuning import small_runs, tagged
from tests.albert_tf.model import passes
from tests.conftest import changed, tiny_config

pytestmark = pytest.mark.slow

TEXTS = "It rains in the north.\nThe ferry waits.\nWe stay.\n"
RUN = """
import importlib, pickle, sys
command = importlib.import_module(sys.argv[1])
for settings in pickle.load(sys.stdin.buffer):
    command.run(settings)
"""
ONE_STEP = {"train_step": 1, "do_eval": False, "do_predict": False}


def run_alone(command, settings):
    done = subprocess.run(
        [sys.executable, "-c", RUN, command],
        input=pickle.dumps(settings),
        cwd=pathlib.Path(__file__).parents[2],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]


def encoder(world, folder):
    model = passes.fill(AlbertModel(tiny_config()))
    model.save_weights(str(folder / "model.ckpt"))
    (folder / "albert_config.json").write_text(tiny_config().to_json())
    shutil.copy(world.vocabulary, folder / "spm.model")
    return folder / "model.ckpt"


def converted(source, folder):
    options = convert_checkpoint.ConvertOptions(
        from_=str(source), to=str(folder), format="huggingface"
    )
    convert_checkpoint.run(options)
    return folder


def sentence_transformers(world, folder):
    hub = converted(encoder(world, folder), folder / "hub")
    sentence_folders.write(hub, ["Pooling"])
    return hub


def saved_vectors(world, folder):
    given = {"init_checkpoint": encoder(world, folder), "max_seq_length": 24}
    export_options.exported(folder / "saved", task="embedding", **given)
    return folder / "saved"


def embedding_run(kind):
    def make(world, folder):
        given = {"train_step": 2, "save_checkpoints_steps": 2}
        options = test_run_embeddings.options(world, folder / "run", kind)
        run_embeddings.run(changed(options, **given))
        return folder / "run"

    return make


def distilled(world, folder):
    teacher = folder / "first"
    teacher.mkdir()
    options = student(world, folder, encoder(world, teacher))
    distill.run(changed(options, output_dir=str(folder / "run")))
    return folder / "run"


def student(world, folder, teacher, **values):
    (folder / "train.txt").write_text(TEXTS)
    settings = distill.DistillOptions(
        finetuning=small_runs.shared(
            world, folder / "student", max_seq_length=24, **ONE_STEP
        ),
        teacher=str(teacher),
        train_file=str(folder / "train.txt"),
    )
    return changed(settings, **values)


VECTORS = {
    "checkpoint": encoder,
    "hugging face": lambda world, folder: converted(
        encoder(world, folder), folder / "hub"
    ),
    "sentence-transformers": sentence_transformers,
    "by name": lambda world, folder: pathlib.Path("albert_small_en"),
    "scored": embedding_run("scored"),
    "triplets": embedding_run("triplets"),
    "distill": distilled,
    "saved model": saved_vectors,
}
KEPT = "kept outputs"
ONE_TEXT = "scored", "saved model"  # One is enough.


@pytest.fixture(scope="module")
def make_teacher(world, tmp_path_factory):
    @functools.cache
    def make(form):
        if form == KEPT:
            (kept,) = make("distill").glob("teacher-embedding-*")
            return kept
        return VECTORS[form](world, tmp_path_factory.mktemp("teacher"))

    return make


@pytest.mark.parametrize(
    "forms", [[*VECTORS][:4], [*VECTORS][4:7], ["saved model", KEPT]]
)
def test_teachers_of_vectors(world, make_teacher, tmp_path, forms):
    options = []
    for form in forms:
        (tmp_path / form).mkdir()
        shows_words = form not in ("saved model", KEPT)
        given = {"word_embeddings": "teacher" if shows_words else "random"}
        teacher = make_teacher(form)
        options += [student(world, tmp_path / form, teacher, **given)]
        if form in ONE_TEXT:
            (tmp_path / form / "train.txt").write_text("It rains.")
    run_alone("albert_tf.distill", options)
    for form in forms:
        if form != KEPT:
            count = 1 if form in ONE_TEXT else 3
            assert_vectors(tmp_path / form, make_teacher(form), count)


def assert_vectors(folder, teacher, count):
    """The student has read those of its teacher, whose length is 1."""
    (part,) = folder.glob("student/teacher-embedding-*/00000.npz")
    vectors = np.load(part)["embedding"]
    lengths = np.linalg.norm(vectors, axis=-1)
    np.testing.assert_allclose(lengths, np.ones(count), atol=1e-5)
    if (teacher / "run_options.json").exists():
        predictor = predictions.RunPredictor(str(teacher), None, 8)
        items = predictor.read(str(folder / "train.txt"))
        predictor.load()
        answers = [x["embedding"] for x in predictor.answers(items)]
        np.testing.assert_allclose(vectors, answers, atol=1e-5)


def saved_probabilities(run, folder):
    export_options.exported(folder, run_dir=run)
    return folder


def answerer_of_1_1(world, folder):
    """Every question of it has an answer."""
    content = json.loads((world.squad / "train.json").read_text())
    for article in content["data"]:
        for paragraph in article["paragraphs"]:
            questions = paragraph["qas"]
            paragraph["qas"] = [q for q in questions if q["answers"]]
    path = folder.parent / "answered.json"
    path.write_text(json.dumps(content))
    settings = small_runs.answerer(world, folder, squad_version="1.1")
    return changed(settings, train_file=str(path), predict_file=str(path))


def tagger(world, folder):
    path = tagged.write(folder.parent / "tags.txt")
    return run_tagger.RunTaggerOptions(
        finetuning=small_runs.shared(
            world, folder, max_seq_length=24, pad_to_max=True
        ),
        train_file=path,
        dev_file=path,
        test_file=path,
    )


def same(run, folder):
    return run


LABELS = {
    "classifier": (
        run_classifier,
        small_runs.classifier,
        [same, converted, saved_probabilities],
    ),
    "race": (run_race, small_runs.racer, [same, converted]),
    "squad 2.0": (run_squad, small_runs.answerer, [same]),
    "squad 1.1": (run_squad, answerer_of_1_1, [converted]),
    "tagger": (run_tagger, tagger, [same, converted]),
}


@pytest.mark.parametrize("task", LABELS)
def test_teachers_of_labels(world, tmp_path, task):
    """The run, its folder for transformers, and its SavedModel."""
    module, make, forms = LABELS[task]
    settings = changed(make(world, tmp_path / "teacher"), **ONE_STEP)
    module.run(settings)
    taught = []
    for number, become in enumerate(forms):
        teacher = become(tmp_path / "teacher", tmp_path / f"form{number}")
        given = {"output_dir": f"{tmp_path}/{number}", "teacher": str(teacher)}
        taught += [changed(settings, **given)]
    run_alone(module.__name__, taught)
    for number in range(len(forms)):
        (row,) = small_runs.metrics(tmp_path / str(number), "train")
        assert np.isfinite(row["teacher_loss"])
