"""Vectors of texts: what runs learn, and all that is made of a run."""

import shutil

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import convert_checkpoint, run_embeddings
from albert_tf.common import errors, scores
from albert_tf.finetuning import finetune, lesson
from albert_tf.tasks.embedding import task as embedding
from albert_tf.training import distribution
from tests import export_options, row_files
from tests.albert_tf.finetuning import small_runs
from tests.conftest import LAYER_ATOL, changed, make_replicas

SENTENCES = ["It rains in the north.", "The ferry waits.", "We stay.", "A boat"]
# Texts of the same number are one topic.
WORDS = [f"{s} {end}" for s in SENTENCES for end in ("now", "again", "here")]


def rows(kind):
    """Pairs of one topic have score 5, others 0."""
    for n, text in enumerate(WORDS):
        near = WORDS[n // 3 * 3 + (n + 1) % 3]
        far = WORDS[(n + 3) % len(WORDS)]
        if kind == "scored":
            yield {"text": text, "text_pair": near, "score": 5}
            yield {"text": text, "text_pair": far, "score": 0}
        elif kind == "pairs":
            yield {"text": text, "text_pair": near}
        else:
            yield {"text": text, "positive": near, "negative": far}


def options(world, folder, kind, **values):
    path = row_files.write(folder.parent / f"{kind}.jsonl", rows(kind))
    settings = run_embeddings.RunEmbeddingsOptions(
        finetuning=small_runs.shared(world, folder, max_seq_length=24),
        train_file=path,
        dev_file=path,
        test_file=path,
        vectors=embedding.EmbeddingOptions(
            train_examples=kind, max_score=5.0, temperature=0.2
        ),
    )
    return changed(
        settings,
        train_step=60,
        learning_rate=3e-3,
        save_checkpoints_steps=60,
        iterations_per_loop=60,
        **values,
    )


@pytest.fixture(scope="module")
def trained(world, tmp_path_factory):
    folder = tmp_path_factory.mktemp("vectors") / "run"
    run_embeddings.run(
        options(world, folder, "scored", projection_size=6, text_pooling="max")
    )
    return folder


@pytest.mark.parametrize(
    "kind",
    [
        "scored",
        *(
            pytest.param(x, marks=pytest.mark.slow)
            for x in ("pairs", "triplets")
        ),
    ],
)
def test_texts_of_one_topic_become_close(world, trained, tmp_path, kind):
    folder = trained if kind == "scored" else tmp_path / "run"
    if kind != "scored":
        run_embeddings.run(options(world, folder, kind))
    found = scores.read(str(folder)).best.scores
    least = {
        "scored": {"spearmanr": 0.8, "pearson": 0.9},
        "pairs": {"mrr": 0.6, "recall_at_1": 0.2, "recall_at_10": 0.99},
        "triplets": {"accuracy": 0.9, "mrr": 0.5},
    }
    for name, value in least[kind].items():
        assert found[name] >= value, found
    first, second, *_ = row_files.read(folder / "test_predictions.jsonl")
    assert {"line", "prediction"} == first.keys()
    if kind == "scored":
        assert first["prediction"] > second["prediction"] + 0.3


@pytest.mark.slow
def test_run_predicts_and_exports_the_same_vectors(trained, tmp_path):
    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join(WORDS) + "\n")
    out = tmp_path / "vectors.jsonl"
    ours = export_options.ask(texts, out, run_dir=trained)
    assert [answer["line"] for answer in ours] == list(range(1, 13))
    vectors = np.array([answer["embedding"] for answer in ours])
    assert vectors.shape == (12, 6)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)

    served = tmp_path / "served"
    dev = trained.parent / "scored.jsonl"
    report = export_options.exported(served, run_dir=trained, eval_file=dev)
    ask = tf.saved_model.load(str(served)).signatures["serving_default"]
    np.testing.assert_allclose(
        ask(text=tf.constant(WORDS))["embedding"], vectors, atol=LAYER_ATOL
    )
    best = scores.read(str(trained)).best.scores
    for name in ("scores", "scores_in_float32"):
        for metric in ("spearmanr", "pearson"):
            assert report[name][metric] == pytest.approx(best[metric], abs=1e-4)


@pytest.mark.parametrize(
    ("kind", "replicas", "parts"),
    [("pairs", 1, 1), ("pairs", 2, 1), ("triplets", 1, 2), ("pairs", 2, 2)],
)
def test_an_example_without_others_is_refused(
    world, tmp_path, monkeypatch, kind, replicas, parts
):
    """Each replica compares within its part; scores need no others."""
    strategy = make_replicas(replicas)
    monkeypatch.setattr(distribution, "make_strategy", lambda _: strategy)
    settings = changed(
        options(world, tmp_path / "run", kind),
        train_batch_size=replicas * parts,
        gradient_accumulation_steps=parts,
        train_step=1,
        warmup_step=0,
        do_eval=False,
        do_predict=False,
    )
    message = f"{replicas} replica.*_steps={parts}` divide the batch"
    with pytest.raises(errors.UserError, match=message):
        run_embeddings.run(settings)
    task = embedding.EmbeddingTask(None, 24, settings.vectors)
    finetune._check_batch_sizes(
        changed(settings, train_batch_size=2 * replicas * parts).finetuning,
        task,
        strategy,
    )
    scored = embedding.EmbeddingTask(None, 24, embedding.EmbeddingOptions())
    finetune._check_batch_sizes(settings.finetuning, scored, strategy)


def test_queries_find_what_pairs_find(world, trained, tmp_path):
    """Of the same texts; without training, from a run's weights."""
    first, second = WORDS[0::3], WORDS[1::3]
    pairs = [
        {"text": a, "text_pair": b} for a, b in zip(first, second, strict=True)
    ]
    queries = [{"id": n, "text": text} for n, text in enumerate(second)]
    queries += [
        {"query": text, "relevant": [n]} for n, text in enumerate(first)
    ]
    found = []
    for kind, rows in (("pairs", pairs), ("retrieval", queries)):
        path = row_files.write(tmp_path / f"{kind}.jsonl", rows)
        settings = options(world, tmp_path / kind, "scored")
        settings = changed(
            settings,
            dev_examples=kind,
            dev_file=path,
            test_file=path,
            do_train=False,
            init_checkpoint=str(trained),
            text_pooling="max",
            projection_size=6,
        )
        run_embeddings.run(settings)
        found.append(scores.read(str(tmp_path / kind)).best.scores)
    assert found[1] == pytest.approx(found[0])
    assert found[0]["recall_at_10"] == 1
    answers = row_files.read(tmp_path / "retrieval/test_predictions.jsonl")
    assert [answer["line"] for answer in answers] == [5, 6, 7, 8]
    assert all(sorted(a["prediction"]) == [0, 1, 2, 3] for a in answers)


def test_pooling_and_width_are_those_of_the_folder(
    world, trained, tmp_path, monkeypatch
):
    """Of sentence-transformers, a run, weights; or of the run that goes on."""
    folder = tmp_path / "hub"
    convert_checkpoint.run(
        convert_checkpoint.ConvertOptions(
            from_=str(trained), to=str(folder), format="sentence_transformers"
        )
    )
    found = []

    def run(program, settings, sources):
        del program
        made = finetune._make_task(settings, sources).facts
        found.append((made.text_pooling, made.projection_size))

    monkeypatch.setattr(finetune, "run", run)
    here = options(world, tmp_path / "run", "scored")
    broken_off = tmp_path / "broken off"  # Before its first checkpoint.
    broken_off.mkdir()
    for name in ("run_options.json", "albert_config.json"):
        shutil.copy(trained / name, broken_off)
    weights = tmp_path / "weights"
    weights.mkdir()
    for path in trained.glob("model.ckpt-best.*"):
        shutil.copy(path, weights)
    for settings in (
        here,
        changed(here, output_dir=str(broken_off)),
        changed(here, init_checkpoint=str(folder)),
        changed(
            here,
            init_checkpoint=str(folder),
            text_pooling="cls",
            projection_size=0,
        ),
        changed(here, output_dir=str(trained), init_checkpoint="gone"),
        changed(here, init_checkpoint=str(trained)),
        changed(here, init_checkpoint=str(trained / "model.ckpt-best")),
        changed(here, init_checkpoint=str(weights / "model.ckpt-best")),
    ):
        run_embeddings.run(settings)
    assert found == [
        *[("mean", 0)] * 2,
        ("max", 6),
        ("cls", 0),
        *[("max", 6)] * 3,
        ("mean", 6),
    ]


def test_the_model_of_the_package_keeps_its_linear_layer():
    assert lesson.vectors_of("albert_small_en") == lesson.Vectors(
        384, "mean", 384
    )
