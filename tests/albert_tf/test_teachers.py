"""Every form of teacher that docs/distillation.md names, each in a process.

A process that has not done anything else knows only what the command loads.
"""

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
RUN = (
    "import importlib, pickle, sys;"
    "importlib.import_module(sys.argv[1]).run(pickle.load(sys.stdin.buffer))"
)
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


def distilled(world, folder, **values):
    teacher = folder / "first"
    teacher.mkdir()
    options = student(world, folder, encoder(world, teacher), **values)
    distill.run(changed(options, output_dir=str(folder / "run")))
    return folder / "run"


def kept_outputs(world, folder):
    run = distilled(world, folder, word_embeddings="random")
    (kept,) = run.glob("teacher-embedding-*")
    return kept


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
    "scored": embedding_run("scored"),
    "triplets": embedding_run("triplets"),
    "distill": distilled,
    "by name": lambda world, folder: pathlib.Path("albert_small_en"),
    "saved model": saved_vectors,
    "kept outputs": kept_outputs,
}


@pytest.mark.parametrize("form", VECTORS)
def test_teachers_of_vectors(world, tmp_path, form):
    teacher = VECTORS[form](world, tmp_path)
    shows_words = form not in ("saved model", "kept outputs")
    words = "teacher" if shows_words else "random"
    settings = student(world, tmp_path, teacher, word_embeddings=words)
    run_alone("albert_tf.distill", settings)
    if form == "kept outputs":
        return
    (part,) = tmp_path.glob("student/teacher-embedding-*/00000.npz")
    vectors = np.load(part)["embedding"]
    np.testing.assert_allclose(
        np.linalg.norm(vectors, axis=-1), [1, 1, 1], atol=1e-5
    )
    if (teacher / "run_options.json").exists():
        predictor = predictions.RunPredictor(str(teacher), None, 8)
        items = predictor.read(str(tmp_path / "train.txt"))
        predictor.load()
        answers = [x["embedding"] for x in predictor.answers(items)]
        np.testing.assert_allclose(vectors, answers, atol=1e-5)


@pytest.mark.parametrize("form", ["scored", "saved model"])
def test_one_text_is_enough(world, tmp_path, form):
    teacher = VECTORS[form](world, tmp_path)
    settings = student(world, tmp_path, teacher, word_embeddings="random")
    (tmp_path / "train.txt").write_text("It rains.")
    distill.run(settings)


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
    "classifier": (run_classifier, small_runs.classifier, same),
    "race": (run_race, small_runs.racer, same),
    "squad": (run_squad, small_runs.answerer, same),
    "tagger": (run_tagger, tagger, same),
    "hugging face": (run_classifier, small_runs.classifier, converted),
    "hugging face race": (run_race, small_runs.racer, converted),
    "hugging face squad": (run_squad, answerer_of_1_1, converted),
    "hugging face tagger": (run_tagger, tagger, converted),
    "saved model": (
        run_classifier,
        small_runs.classifier,
        saved_probabilities,
    ),
}


@pytest.mark.parametrize("form", LABELS)
def test_teachers_of_labels(world, tmp_path, form):
    module, make, become = LABELS[form]
    settings = changed(make(world, tmp_path / "teacher"), **ONE_STEP)
    module.run(settings)
    teacher = become(tmp_path / "teacher", tmp_path / "other")
    taught = changed(
        settings, output_dir=str(tmp_path / "student"), teacher=str(teacher)
    )
    run_alone(module.__name__, taught)
    (row,) = small_runs.metrics(tmp_path / "student", "train")
    assert np.isfinite(row["teacher_loss"])
