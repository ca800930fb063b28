"""Export: what it refuses, and that it restores what was trained."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import export
from albert_tf.common import strict_json
from albert_tf.model.checkpoints import restoring
from albert_tf.model.heads import classification, pretraining
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.serving import export as export_work
from albert_tf.serving import source
from albert_tf.serving.services import encoder_service
from albert_tf.tasks.embedding import model as embedding
from albert_tf.tasks.embedding import service as embedding_service
from albert_tf.tasks.race import model as multiple_choice
from albert_tf.tasks.race import service as race_service
from albert_tf.tasks.squad import model as squad_model
from albert_tf.tasks.squad import service as answer_service
from albert_tf.tasks.text import service
from albert_tf.text import tokenization
from tests import brightmart_files
from tests.albert_tf.model import passes
from tests.albert_tf.serving import saved_services
from tests.conftest import LAYER_ATOL, refused
from tests.export_options import (
    exported,
    make_options,
    make_pretrained,
    make_run,
    read_report,
)


@pytest.fixture
def config(small_config):
    return dataclasses.replace(small_config, num_hidden_layers=2)


@pytest.fixture
def run_dir(tmp_path, config, tiny_vocab):
    folder = tmp_path / "run"
    make_pretrained(folder, config, tiny_vocab, 16)
    return folder


def options(run_dir, /, **changes):
    return make_options(
        **{
            "run_dir": str(run_dir),
            "export_dir": str(run_dir.parent / "exported"),
            **changes,
        }
    )


@pytest.fixture
def no_saving(monkeypatch):
    """Stops before the slow part; tells what would have been saved."""
    saved = []

    def pretend(settings, *rest):
        saved.append(rest)
        return {}

    monkeypatch.setattr("albert_tf.serving.export._save_model", pretend)
    return saved


@pytest.mark.slow
def test_export_saves_the_weights_of_the_run(run_dir):
    export.run(options(run_dir))
    loaded = tf.saved_model.load(str(run_dir.parent / "exported"))
    reader = tf.train.load_checkpoint(str(run_dir / "model.ckpt-best"))
    stored = [
        reader.get_tensor(key)
        for key in reader.get_variable_to_shape_map()
        if key.endswith("VARIABLE_VALUE") and "save_counter" not in key
    ]
    assert len(loaded.weights) == len(stored)
    # The same file each time.
    names = [value.name for value in loaded.weights]
    assert names == sorted(names)
    total = sum(float(np.abs(value).sum()) for value in stored)
    ours = sum(float(np.abs(value.numpy()).sum()) for value in loaded.weights)
    assert ours == pytest.approx(total, rel=LAYER_ATOL)
    report = read_report(run_dir)
    fingerprint = tokenization.Tokenizer(str(run_dir / "spm.model")).fingerprint
    assert report["vocab_sha256"] == fingerprint
    assert report["precision"] == "float32"
    for far in report["largest_difference"].values():
        assert max(far.values()) < LAYER_ATOL
    files = (run_dir.parent / "exported").rglob("*")
    size = sum(p.stat().st_size for p in files if p.is_file())
    # The report does not count itself.
    assert 0 < size - report["bytes"] < 2000


@pytest.mark.parametrize(
    ("pattern", "change", "message"),
    [
        ("model.ckpt-best.data*", lambda old: old[:2000], "`run_dir=.*damaged"),
        ("spm.model", None, "no copy of its vocabulary.*`spm_model_file`"),
        (
            "albert_config.json",
            lambda old: old.replace(b"400", b"1400"),
            "has 400 pieces, but the model has vocab_size 1400",
        ),
        ("model.ckpt*", None, "`run_dir=.* does not say which checkpoint"),
    ],
)
def test_damaged_run_is_refused(run_dir, pattern, change, message):
    for path in run_dir.glob(pattern):
        content = path.read_bytes()
        path.unlink()
        if change:
            path.write_bytes(change(content))
    with refused(message):
        export.run(options(run_dir))
    assert not (run_dir.parent / "exported").exists()


BARE = {
    "encoder": (lambda e: e, encoder_service.EncoderService, {}),
    "embedding": (
        lambda e: embedding.AlbertEmbedder(e, "cls"),
        embedding_service.EmbeddingService,
        {"text_pooling": "cls"},
    ),
    "pretraining": (
        lambda e: pretraining.AlbertPretrainer(e, sentence_order=False),
        encoder_service.PretrainedService,
        {},
    ),
    "classifier": (
        lambda e: classification.AlbertClassifier(e, 3),
        service.ClassifierService,
        {"labels": "no,yes,maybe", "pairs": True},
    ),
    "regression": (
        lambda e: classification.AlbertClassifier(e, 1),
        service.RegressionService,
        {},
    ),
    "squad": (
        squad_model.AlbertSquadV1,
        answer_service.AnswerServiceV1,
        {"squad_version": "1.1", "max_query_length": 8},
    ),
    "race": (
        multiple_choice.AlbertMultipleChoice,
        race_service.ChoiceService,
        {"max_qa_length": 8},
    ),
}


def bare_options(folder, config, vocabulary, model, task, changes=()):
    tf.train.Checkpoint(model=model).write(str(folder / "model.ckpt"))
    path = folder / "config.json"
    path.write_text(config.to_json())
    return make_options(
        export_dir=str(folder / "exported"),
        init_checkpoint=str(folder / "model.ckpt"),
        albert_config_file=str(path),
        task=task,
        spm_model_file=vocabulary,
        **dict(changes),
    )


@pytest.mark.parametrize("task", BARE)
def test_bare_checkpoints_get_the_service_of_their_task(
    tmp_path, config, tiny_vocab, task, no_saving
):
    make, expected, changes = BARE[task]
    model = make(AlbertModel(config))
    export.run(bare_options(tmp_path, config, tiny_vocab, model, task, changes))
    ((_, _, service, _),) = no_saving
    assert isinstance(service, expected)
    assert service.max_seq_length == config.max_position_embeddings
    assert_restored(service, model)


def assert_restored(service, model):
    """Vectors of texts have no pooler."""
    has_pooler = not isinstance(service.model, embedding.AlbertEmbedder)
    variables = [
        v for v in model.variables if has_pooler or "pooler" not in v.name
    ]
    restored = service.model.variables
    for one, other in zip(variables, restored, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_run_gives_vectors_of_its_encoder_as_an_option_says(
    tmp_path, config, tiny_vocab, no_saving
):
    """The pooler is left out, whatever it reads."""
    config = dataclasses.replace(config, pooling="pair")
    model = make_run(tmp_path / "run", config, tiny_vocab, "RTE")
    given = {"text_pooling": "max", "prompts": '{"query": "query: "}'}
    export.run(options(tmp_path / "run", task="embedding", **given))
    about = read_report(tmp_path / "run")["options"]
    assert about["prompts"] == {"query": "query: "}
    assert about["default_prompt_name"] is None
    ((_, _, service, _),) = no_saving
    assert service.model.text_pooling == "max"
    ours = service.model.encoder.variables
    theirs = [v for v in model.encoder.variables if "pooler" not in v.name]
    assert len(ours) == len(theirs) > 10
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "task",
    [
        "encoder",
        *(
            pytest.param(task, marks=pytest.mark.slow)
            for task in ("embedding", "pretraining", "squad")
        ),
    ],
)
def test_a_checkpoint_without_a_pooler_is_exported(
    tmp_path, config, tiny_vocab, task
):
    make, _, changes = BARE[task]
    model = saved_services.spread(make(AlbertModel(config, with_pooler=False)))
    export.run(bare_options(tmp_path, config, tiny_vocab, model, task, changes))
    saved = tf.saved_model.load(str(tmp_path / "exported"))
    names = [variable.name for variable in saved.weights]
    assert len(names) > 10
    assert not any("pooler" in name for name in names)
    inputs = {"input_ids": tf.constant([[2, 7, 8, 3]])}
    inputs |= {"input_mask": tf.ones_like(inputs["input_ids"])}
    ask = saved.signatures["tokens"]
    outputs = ask(**inputs, segment_ids=tf.zeros_like(inputs["input_ids"]))
    assert "pooled_output" not in outputs
    encoder = model if task == "encoder" else model.encoder
    np.testing.assert_allclose(
        outputs["sequence_output"],
        encoder(inputs)["sequence_output"],
        atol=LAYER_ATOL,
    )


def test_a_classifier_without_a_pooler_is_refused(
    tmp_path, config, tiny_vocab, no_saving
):
    encoder = AlbertModel(config, with_pooler=False)
    settings = bare_options(tmp_path, config, tiny_vocab, encoder, "regression")
    with refused("has no pooler.*need none"):
        export.run(settings)
    assert not no_saving


@pytest.mark.parametrize("task", ["classifier", "regression", "embedding"])
def test_a_finetuned_run_is_not_taken_for_a_bare_checkpoint(
    tmp_path, config, tiny_vocab, no_saving, task
):
    """Its labels, units, exits and pooling would be lost."""
    run = tmp_path / "run"
    make_run(run, config, tiny_vocab, "RTE")
    given = {"export_dir": str(tmp_path / "exported")}
    given["init_checkpoint"] = str(run / "model.ckpt-best")
    with refused(f"Use `run_dir={run}`"):
        export.run(make_options(task=task, **given))
    assert not no_saving
    export.run(make_options(task="encoder", **given))
    assert len(no_saving) == 1


# What a run of each kind of task needs, and a labelled file of it.
LABELLED = {
    "RTE": ({}, "glue/RTE/dev.tsv"),
    "squad": ({"doc_stride": 8, "max_query_length": 8}, "squad/dev.json"),
}
ONNX = {"format": "onnx"}
BFLOAT16 = {"precision": "bfloat16"}


@pytest.fixture
def score(world, tmp_path, config, tiny_vocab):
    """Exports a run with weights all its own; gives both of its scores."""

    def export_run(kind, **how):
        values, path = LABELLED[kind]
        folder = tmp_path / "run"
        model = make_run(folder, config, tiny_vocab, kind, **values)
        saved_services.spread(model)
        tf.train.Checkpoint(model=model).write(f"{folder}/model.ckpt-best")
        path = str(world.folder / path)
        export.run(options(folder, eval_file=path, **how))
        report = read_report(folder)
        return report["scores"], report["scores_in_float32"]

    return export_run


@pytest.mark.slow
@pytest.mark.parametrize("kind", LABELLED)
def test_exports_without_texts_are_scored(score, kind):
    """As the model itself, from ids; of texts: tasks/contract_suite.py."""
    ours, theirs = score(kind, with_text=False)
    assert ours == pytest.approx(theirs, rel=1e-4)
    assert len(set(ours.values())) > 1


@pytest.mark.slow
@pytest.mark.parametrize("how", [BFLOAT16, {**ONNX, "precision": "int8"}])
def test_score_of_rounded_weights_is_another(score, how):
    ours, theirs = score("RTE", **how)
    assert ours.keys() == theirs.keys() == {"accuracy", "loss"}
    assert 1e-7 < abs(ours["loss"] - theirs["loss"]) < 0.1


def test_calibration_reads_texts_of_the_file(
    world, tmp_path, config, tiny_vocab, monkeypatch
):
    """As many as there are, as they are served: without padding."""
    make_run(tmp_path / "run", config, tiny_vocab, "RTE", max_seq_length=64)
    found = []
    monkeypatch.setattr(
        "albert_tf.serving.formats.onnx_int8._sensitive",
        lambda model, texts: found.extend(texts) or [],
    )
    path = world.folder / LABELLED["RTE"][1]
    given = {"calibration_file": str(path), "precision": "int8", **ONNX}
    export.run(options(tmp_path / "run", **given))
    assert len(found) == path.read_text().count("\n") - 1  # And a header.
    assert all(text["input_mask"].all() for text in found)
    assert len({text["input_ids"].tobytes() for text in found}) > 1


@pytest.mark.parametrize(
    ("count", "step"), [(0, 1), (256, 1), (257, 2), (511, 2), (513, 3)]
)
def test_texts_of_calibration_are_256_at_most(count, step):
    found = export_work._select_evenly(range(count))
    assert [*found] == [*range(0, count, step)]


def test_what_users_call_is_scored(score, monkeypatch):
    answer = service.ClassifierService.answer

    def confuse(self, *texts):
        found = answer(self, *texts)
        return {**found, "probabilities": found["probabilities"][:, ::-1]}

    monkeypatch.setattr(service.ClassifierService, "answer", confuse)
    ours, theirs = score("RTE")
    assert ours["accuracy"] == pytest.approx(1 - theirs["accuracy"])


def test_only_an_export_is_replaced_and_with_overwrite_alone(run_dir):
    target = run_dir.parent / "exported"
    target.mkdir()
    for name, message in (
        ("a.tex", "is not an export"),
        ("saved_model.pb", "`export_dir=.* already exists.*`overwrite"),
    ):
        (target / name).write_text("years")
        with refused(message):
            export.run(options(run_dir, overwrite=name == "a.tex"))
        assert (target / name).read_text() == "years"


@pytest.mark.parametrize(
    "name", ["run/model.ckpt-best.index/x", "link", "a" * 300, "b" * 247]
)
def test_folder_that_cannot_be_made_is_refused_at_once(
    run_dir, name, monkeypatch
):
    monkeypatch.setattr(source, "find", None)
    (run_dir.parent / "link").symlink_to("nowhere")
    before = sorted(run_dir.parent.iterdir())
    with refused("`export_dir.* cannot be written|`export_dir`: Cannot"):
        export.run(options(run_dir, export_dir=str(run_dir.parent / name)))
    assert sorted(run_dir.parent.iterdir()) == before


def test_existing_folder_is_replaced_whole_or_not_at_all(
    run_dir, no_saving, monkeypatch
):
    """The report, which is made last, belongs to the export."""
    target = run_dir.parent / "exported"
    target.mkdir()
    (target / "saved_model.pb").write_text("old")
    settings = options(run_dir, overwrite=True, export_dir=f"{target}/")

    def fail(*_, **__):
        raise RuntimeError("pulled the plug")

    with monkeypatch.context() as patch:
        patch.setattr(strict_json, "dumps", fail)
        with pytest.raises(RuntimeError, match="pulled the plug"):
            export.run(settings)
    assert (target / "saved_model.pb").read_text() == "old"
    assert {p.name for p in run_dir.parent.iterdir()} == {"run", "exported"}
    export.run(settings)
    assert {p.name for p in run_dir.parent.iterdir()} == {"run", "exported"}
    assert {p.name for p in target.iterdir()} == {"export.json"}
    assert len(no_saving) == 2


# Other layouts, in every format.


@pytest.fixture
def brightmart(tmp_path):
    """Its size is that of its files."""
    return brightmart_files.archive(tmp_path / "albert_tiny")


@pytest.fixture
def biased(request, tmp_path, config, tiny_vocab):
    """A classifier that pools two positions, with a `position_bias`."""
    bias = getattr(request, "param", "alibi")
    config = dataclasses.replace(config, pooling="pair", position_bias=bias)
    model = classification.AlbertClassifier(AlbertModel(config), 3)
    if bias != "alibi":  # Else its weights hardly count.
        passes.fill(model)
    prefix = str(tmp_path / "run" / "model.ckpt-1")
    tf.train.Checkpoint(model=model).write(prefix)
    (tmp_path / "run" / "albert_config.json").write_text(config.to_json())
    return {"init_checkpoint": prefix, "spm_model_file": tiny_vocab}


ENCODER = {"sequence_output", "pooled_output"}
LAYOUTS = {
    "brightmart": ("pretraining", ENCODER | {"mlm_logits", "sop_logits"}),
    "biased": ("classifier", ENCODER | {"logits", "probabilities"}),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layout", "form", "precision", "atol"),
    [
        ("brightmart", "saved_model", "float32", LAYER_ATOL),
        # Its weights are too small for LiteRT's int8, which begins at 1,024.
        ("brightmart", "litert", "float32", 1e-4),
        ("brightmart", "onnx", "float32", 1e-4),
        ("biased", "saved_model", "bfloat16", 0.1),
        ("biased", "litert", "int8", 0.2),
        ("biased", "onnx", "int8", 0.2),
    ],
)
def test_layouts_are_exported_in_every_format(
    request, tmp_path, layout, form, precision, atol
):
    """The report compares all outputs with those of the live model."""
    task, names = LAYOUTS[layout]
    given = {**request.getfixturevalue(layout), "task": task, "format": form}
    target = tmp_path / "exported"
    report = exported(target, precision=precision, **given)
    far = report["largest_difference"]
    assert {name for function in far.values() for name in function} == names
    largest = [max(function.values()) for function in far.values()]
    assert max(largest) < atol, far
    # Another precision is another network, whose numbers are near.
    assert precision == "float32" or max(largest) > 1e-5, far
    if form == "saved_model":
        loaded = tf.saved_model.load(str(target))
        tables = [v for v in loaded.weights if v.shape.rank == 2]
        kept = {v.dtype.name for v in tables if v.shape[0] > 3}
        assert precision in kept, kept
    if (layout, form) == ("brightmart", "saved_model"):
        found = source.find(make_options(export_dir="x", **given).source)
        live = source.make_service(found, source.make_task(found))
        restoring.restore(live.model, found.checkpoint)
        text = tf.constant(["一[MASK]三"])
        actual = loaded.signatures["fill_mask"](text)["probabilities"]
        expected = live.fill_mask(text)["probabilities"]
        np.testing.assert_allclose(actual, expected, atol=atol, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["saved_model", "litert", "onnx"])
@pytest.mark.parametrize("biased", ["relative", "buckets"], indirect=True)
def test_trained_biases_are_exported(tmp_path, biased, form):
    given = {**biased, "task": "classifier", "format": form}
    far = exported(tmp_path / "exported", **given)["largest_difference"]
    assert max(max(values.values()) for values in far.values()) < 1e-4, far
