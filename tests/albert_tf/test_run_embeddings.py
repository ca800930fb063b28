"""Vectors of texts; what runs learn: tasks/contract_suite.py."""

import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import convert_checkpoint, run_embeddings
from albert_tf.common import packed_vectors, scores
from albert_tf.finetuning import finetune, teacher_signal
from albert_tf.model import config
from albert_tf.tasks.embedding import task as embedding
from albert_tf.training import distribution
from tests import export_options, row_files
from tests.albert_tf.finetuning import small_runs
from tests.albert_tf.model import passes
from tests.albert_tf.tasks import contract
from tests.conftest import changed, make_replicas, refused

TOPICS = contract.TOPICS


def options(world, folder, kind, **values):
    rows = list(contract.of_vectors(kind))
    path = row_files.write(folder.parent / f"{kind}.jsonl", rows)
    settings = run_embeddings.RunEmbeddingsOptions(
        finetuning=small_runs.shared(world, folder, max_seq_length=24),
        train_file=path,
        dev_file=path,
        test_file=path,
        vectors=embedding.EmbeddingOptions(
            train_examples=kind, max_score=5.0, temperature=0.2
        ),
    )
    return changed(settings, **values)


@pytest.fixture(scope="module")
def trained(world, tmp_path_factory):
    """A run with new weights, which has begun."""
    folder = tmp_path_factory.mktemp("vectors") / "run"
    export_options.make_run(
        folder,
        config.AlbertConfig.from_json_file(world.config),
        world.vocabulary,
        "embedding",
        projection_size=6,
        text_pooling="max",
        prompts='{"query": "query: "}',
    )
    (folder / "checkpoint").touch()
    return folder


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
    with refused(f"{replicas} replica.*_steps={parts}` divide the batch"):
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
    first, second = TOPICS[0::3], TOPICS[1::3]
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

    def run(program, settings, sources, signal):
        assert program == "run_embeddings" and signal is None
        made = finetune._make_task(settings, sources).facts
        prompts = made.prompts and json.loads(made.prompts)
        assert prompts in (None, {"query": "query: "})
        found.append((made.text_pooling, made.projection_size, bool(prompts)))

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
        *[("mean", 0, False)] * 2,
        ("max", 6, True),
        ("cls", 0, True),
        *[("max", 6, True)] * 3,
        ("mean", 6, False),
    ]


def test_vectors_of_a_run_can_be_cut_and_rounded(trained, tmp_path):
    path = row_files.write(tmp_path / "rows.jsonl", [{"text": TOPICS[0]}])

    def ask(size):
        given_out = packed_vectors.VectorOptions(size, "int8")
        how = {"run_dir": trained, "given_out": given_out}
        return export_options.ask(path, tmp_path / "out", **how)

    with refused("`dimensions=7` is more than a vector has, 6"):
        ask(7)
    (answer,) = ask(4)
    assert all(type(number) is int for number in answer["embedding"])
    vector = np.array(answer["embedding"]) / packed_vectors.scale(4)
    assert vector.shape == (4,)
    assert np.linalg.norm(vector) == pytest.approx(1, abs=0.05)


def test_a_run_puts_the_prompt_before_texts_that_is_named(
    trained, tmp_path, caplog
):
    texts = [TOPICS[0], f"query: {TOPICS[0]}"]
    path = row_files.write(
        tmp_path / "rows.jsonl", [{"text": t} for t in texts]
    )

    def ask(prompt):
        how = {"run_dir": trained, "prompt": prompt}
        answers = export_options.ask(path, tmp_path / f"of_{prompt}", **how)
        return [answer["embedding"] for answer in answers]

    with refused("'passage' is no prompt. There are query"):
        ask("passage")
    (first, _), (one, other) = ask("query"), ask("")
    assert first == pytest.approx(other, abs=1e-6) and one != other
    assert "texts are read without" not in caplog.text


def test_the_model_of_the_package_keeps_its_linear_layer():
    assert teacher_signal.describe_vectors(
        "albert_small_en"
    ) == teacher_signal.VectorInfo(384, "mean", 384)


def test_margins_come_near_those_of_the_teacher(world, tmp_path):
    """Of a run that scores pairs, from the teacher alone."""
    given = config.AlbertConfig.from_json_file(world.config), world.vocabulary
    model = export_options.make_run(tmp_path / "teacher", *given, "sts-b")
    path = f"{tmp_path}/teacher/model.ckpt-best"
    passes.fill(model, 0.5).output_weights.assign(4 * model.output_weights)
    tf.train.Checkpoint(model=model).write(path)
    settings = changed(
        options(world, tmp_path / "run", "triplets"),
        teacher=str(tmp_path / "teacher"),
        teacher_weight=1.0,
        learning_rate=3e-3,
        train_step=150,
        save_checkpoints_steps=50,
        iterations_per_loop=50,
        do_eval=False,
        do_predict=False,
    )
    run_embeddings.run(settings)
    (part,) = tmp_path.glob("run/teacher-embedding-*/00000.npz")
    near, far = np.load(part)["scores"].T
    losses = [
        row["teacher_loss"]
        for row in small_runs.metrics(tmp_path / "run", "train")
    ]
    assert losses[-1] < 0.1 * np.mean((near - far) ** 2), (losses, near, far)
