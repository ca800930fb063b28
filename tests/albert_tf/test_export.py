"""Export: what it refuses, and that it restores what was trained."""

import dataclasses
import errno
import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import (
    convert_checkpoint,
    export,
    run_classifier,
    run_pretraining,
    run_squad,
)
from albert_tf.common import errors
from albert_tf.common import options as albert_options
from albert_tf.finetuning import finetuning_options
from albert_tf.model import modeling
from albert_tf.model.heads import (
    classification,
    pretraining,
    question_answering,
)
from albert_tf.serving import source
from albert_tf.serving.services import (
    answer_service,
    choice_service,
    encoder_service,
    text_service,
)
from albert_tf.text import tokenization
from albert_tf.training import run_folder
from tests.conftest import LAYER_ATOL
from tests.export_options import make_options, read_report, with_vocabulary


@pytest.fixture
def config(small_config):
    return dataclasses.replace(small_config, num_hidden_layers=2)


@pytest.fixture
def run_dir(tmp_path, config, tiny_vocab):
    """The folder of a pretraining run, with a checkpoint and a vocabulary."""
    folder = tmp_path / "run"
    settings = run_pretraining.PretrainingOptions(
        albert_config_file="c.json",
        input_file="r.tfrecord",
        output_dir=str(folder),
        max_seq_length=16,
        vocabulary=tokenization.VocabularyOptions(tiny_vocab),
    )
    run_folder.claim(
        str(folder), "run_pretraining", settings, config, settings.vocabulary
    )
    model = pretraining.AlbertPretrainer(modeling.AlbertModel(config))
    tf.train.Checkpoint(model=model).write(str(folder / "model.ckpt-best"))
    return folder


def options(run_dir, **changes):
    return make_options(
        **{
            "run_dir": str(run_dir),
            "export_dir": str(run_dir.parent / "exported"),
            **changes,
        }
    )


def refuse(settings, message):
    with pytest.raises(errors.UserError, match=message):
        export.run(settings)


@pytest.fixture
def no_saving(monkeypatch):
    """Stops before the slow part; tells what would have been saved."""
    saved = []

    def pretend(settings, *rest):
        saved.append(rest)
        return {}

    monkeypatch.setattr(export, "_save_model", pretend)
    return saved


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
    assert report["precision"] == "float32"
    for far in report["largest_difference"].values():
        assert max(far.values()) < LAYER_ATOL
    files = (run_dir.parent / "exported").rglob("*")
    size = sum(p.stat().st_size for p in files if p.is_file())
    # The report does not count itself.
    assert 0 < size - report["bytes"] < 2000


def test_bfloat16_takes_half_the_room_and_differs_little(run_dir):
    export.run(options(run_dir, precision="bfloat16"))
    loaded = tf.saved_model.load(str(run_dir.parent / "exported"))
    tables = [v for v in loaded.weights if v.shape.rank == 2]
    assert {v.dtype for v in tables if v.shape[0] > 2} >= {tf.bfloat16}
    report = read_report(run_dir)
    far = report["largest_difference"]["tokens"]
    assert 0 < max(far.values()) < 0.1


@pytest.mark.parametrize(
    "changes, message",
    [
        (
            {"precision": "int8"},
            "--precision=int8 does not go with --format=saved_model.*float32,"
            " bfloat16",
        ),
        (
            {"precision": "bfloat16", "format": "onnx"},
            "--precision=bfloat16 does not go with --format=onnx",
        ),
        ({"run_dir": None}, "`run_dir` and `init_checkpoint`: exactly one"),
        ({"run_dir": ""}, "`run_dir` and `init_checkpoint`: exactly one"),
        ({"init_checkpoint": "x"}, "exactly one of the two"),
        ({"run_dir": None, "init_checkpoint": "x"}, "needs `task`"),
        ({"task": "squad"}, "`task=squad` is given with `run_dir`"),
        (
            {"num_labels": 3},
            "`num_labels=3` is only used with `init_checkpoint`",
        ),
        (
            {"with_text": False, "format": "onnx"},
            "--with_text=false goes with --format=saved_model: onnx takes ids",
        ),
        (
            {
                "run_dir": None,
                "init_checkpoint": "x",
                "task": "race",
                "checkpoint": "y",
            },
            "`checkpoint=y` is only used with `run_dir`",
        ),
    ],
)
def test_options_that_contradict_one_another(tmp_path, changes, message):
    with pytest.raises(errors.UserError, match=message):
        make_options(
            **{
                "run_dir": "run",
                "export_dir": str(tmp_path / "exported"),
                **changes,
            }
        )


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"eval_file": "dev.tsv"}, "--eval_file=dev.tsv needs a finetuned"),
        ({"max_seq_length": 999}, "`max_seq_length=999` is longer than the"),
        ({"max_seq_length": 2}, "`max_seq_length=2` leaves no tokens"),
        (
            {"doc_stride": 8},
            "`doc_stride=8` is for squad, but the model is one of pretraining",
        ),
        (
            {"do_lower_case": False},
            "`do_lower_case=false`, but the run in .*run was trained with true",
        ),
        ({"keep_accents": True}, "`keep_accents=true`, but the run in"),
        ({"task": "encoder", "n_best_size": 3}, "`n_best_size=3` is for squad"),
    ],
)
def test_what_does_not_fit_the_run_is_refused(run_dir, changes, message):
    refuse(options(run_dir, **changes), message)
    assert not (run_dir.parent / "exported").exists()


def bare(tmp_path, config, tiny_vocab, model, **changes):
    """Export a checkpoint without the folder of a run."""
    tf.train.Checkpoint(model=model).write(str(tmp_path / "model.ckpt"))
    (tmp_path / "config.json").write_text(config.to_json())
    settings = make_options(
        export_dir=str(tmp_path / "exported"),
        init_checkpoint=str(tmp_path / "model.ckpt"),
        albert_config_file=str(tmp_path / "config.json"),
        **with_vocabulary(tiny_vocab),
        **changes,
    )
    found = source.find(settings.source)
    return source.make_service(found, source.make_task(found)), settings


BARE = {
    "encoder": (lambda e: e, encoder_service.EncoderService),
    "pretraining": (
        lambda e: pretraining.AlbertPretrainer(e, sentence_order=False),
        encoder_service.PretrainedService,
    ),
    "classifier": (
        lambda e: classification.AlbertClassifier(e, 3),
        text_service.ClassifierService,
    ),
    "regression": (
        lambda e: classification.AlbertClassifier(e, 1),
        text_service.RegressionService,
    ),
    "squad": (
        question_answering.AlbertSquadV1,
        answer_service.AnswerServiceV1,
    ),
    "race": (
        classification.AlbertMultipleChoice,
        choice_service.ChoiceService,
    ),
}


@pytest.mark.parametrize("task", sorted(BARE))
def test_bare_checkpoints_get_the_service_of_their_task(
    tmp_path, config, tiny_vocab, task, no_saving
):
    make, expected = BARE[task]
    changes = {
        "squad": {"squad_version": "1.1", "max_query_length": 8},
        "race": {"max_qa_length": 8},
        "classifier": {"labels": "no,yes,maybe", "pairs": True},
    }.get(task, {})
    model = make(modeling.AlbertModel(config))
    service, settings = bare(
        tmp_path, config, tiny_vocab, model, task=task, **changes
    )
    assert isinstance(service, expected)
    assert service.max_seq_length == config.max_position_embeddings
    export.run(settings)
    ((_, _, reference, _),) = no_saving
    for one, other in zip(
        model.variables, reference.model.variables, strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_a_folder_of_hugging_face_is_exported(
    tmp_path, config, tiny_vocab, no_saving
):
    model = pretraining.AlbertPretrainer(modeling.AlbertModel(config))
    folder = tmp_path / "hugging_face"
    tf.train.Checkpoint(model=model).write(str(tmp_path / "model.ckpt"))
    (tmp_path / "albert_config.json").write_text(config.to_json())
    convert_checkpoint.run(
        albert_options.from_dict(
            convert_checkpoint.ConvertOptions,
            {
                "from": str(tmp_path / "model.ckpt"),
                "to": str(folder),
                "format": "huggingface",
                "spm_model_file": tiny_vocab,
            },
        )
    )
    export.run(
        make_options(
            export_dir=str(tmp_path / "exported"),
            init_checkpoint=str(folder),
            task="pretraining",
        )
    )
    ((_, _, reference, _),) = no_saving
    assert reference.model.sentence_order
    for one, other in zip(
        model.variables, reference.model.variables, strict=True
    ):
        np.testing.assert_array_equal(one, other)


ROWS = [("0", "It rains."), ("1", "The ferry waits."), ("1", "It wet is.")]


@pytest.mark.parametrize(
    "form, precision",
    [
        ("saved_model", "float32"),
        ("saved_model", "bfloat16"),
        ("onnx", "int8"),
        ("litert", "float32"),
    ],
)
def test_score_of_an_export_stands_beside_that_of_the_model(
    tmp_path, config, tiny_vocab, form, precision
):
    folder = tmp_path / "run"
    classifier_run(folder, config, tiny_vocab, "cola")
    found = source.find(
        make_options(export_dir="x", run_dir=str(folder)).source
    )
    model = source.make_service(found, source.make_task(found)).model
    model.output_weights.assign_add(tf.ones_like(model.output_weights))
    tf.train.Checkpoint(model=model).write(str(folder / "model.ckpt-best"))
    dev = tmp_path / "dev.tsv"
    rows = [f"a\t{label}\t\t{text}\n" for label, text in ROWS * 20]
    dev.write_text("".join(rows))
    export.run(
        make_options(
            export_dir=str(tmp_path / "exported"),
            run_dir=str(folder),
            format=form,
            precision=precision,
            eval_file=str(dev),
        )
    )
    report = read_report(folder)
    assert (report["format"], report["precision"]) == (form, precision)
    ours, theirs = report["scores"], report["scores_in_float32"]
    assert ours.keys() == theirs.keys() >= {"matthew_corr"}
    # The last digits of the loss tell what was computed in.
    loss = next(name for name in ours if name.endswith("loss"))
    gap = abs(ours[loss] - theirs[loss])
    assert gap < 1e-5 if precision == "float32" else 1e-7 < gap < 0.1


def test_cut_off_checkpoint_is_named(run_dir):
    data = run_dir / "model.ckpt-best.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:2000])
    refuse(options(run_dir), "`run_dir=.* damaged")
    assert not (run_dir.parent / "exported").exists()


def test_names_of_classes_must_differ():
    with pytest.raises(errors.UserError, match="has a name twice"):
        source._labels({"num_labels": 2, "labels": "a, a"})


def test_names_of_classes_must_be_as_many(tmp_path, config, tiny_vocab):
    model = classification.AlbertClassifier(modeling.AlbertModel(config), 3)
    with pytest.raises(errors.UserError, match="3 classes and 2 names"):
        bare(
            tmp_path,
            config,
            tiny_vocab,
            model,
            task="classifier",
            labels="no,yes",
        )


def test_missing_vocabulary_is_asked_for(run_dir):
    (run_dir / "spm.model").unlink()
    refuse(options(run_dir), "no copy of its vocabulary.*`spm_model_file`")


def test_missing_vocabulary_can_be_given(run_dir, tiny_vocab, no_saving):
    (run_dir / "spm.model").unlink()
    export.run(options(run_dir, **with_vocabulary(tiny_vocab)))
    assert len(no_saving) == 1


def test_other_vocabulary_is_refused(run_dir, config):
    other = dataclasses.replace(config, vocab_size=401)
    (run_dir / "albert_config.json").write_text(other.to_json())
    refuse(options(run_dir), "has 400 pieces, but the model has vocab_size 401")


def test_existing_folder_is_kept_without_overwrite(run_dir):
    target = run_dir.parent / "exported"
    target.mkdir()
    (target / "saved_model.pb").write_text("old")
    refuse(options(run_dir), "--export_dir=.* already exists.*--overwrite")
    assert (target / "saved_model.pb").read_text() == "old"


@pytest.mark.parametrize(
    "name", ["run/model.ckpt-best.index/x", "link", "a" * 300, "b" * 247]
)
def test_folder_that_cannot_be_made_is_refused_at_once(
    run_dir, name, monkeypatch
):
    monkeypatch.setattr(export.source, "find", None)
    (run_dir.parent / "link").symlink_to("nowhere")
    before = sorted(run_dir.parent.iterdir())
    settings = options(run_dir, export_dir=str(run_dir.parent / name))
    refuse(settings, "`export_dir.* cannot be written|`export_dir`: Cannot")
    assert sorted(run_dir.parent.iterdir()) == before


@pytest.mark.parametrize("form", ["saved_model", "onnx", "litert"])
def test_existing_folder_is_replaced_whole_or_not_at_all(
    run_dir, form, monkeypatch
):
    """The report, which is made last, belongs to the export."""
    target = run_dir.parent / "exported"
    target.mkdir()
    (target / "saved_model.pb").write_text("old")
    settings = options(
        run_dir, overwrite=True, format=form, export_dir=f"{target}/"
    )

    def fail(*_):
        raise RuntimeError("pulled the plug")

    with monkeypatch.context() as patch:
        patch.setattr(export.quality, "num_bytes", fail)
        with pytest.raises(RuntimeError, match="pulled the plug"):
            export.run(settings)
    assert (target / "saved_model.pb").read_text() == "old"
    assert {p.name for p in run_dir.parent.iterdir()} == {"run", "exported"}
    export.run(settings)
    assert {p.name for p in run_dir.parent.iterdir()} == {"run", "exported"}
    names = {p.name for p in target.iterdir()}
    assert "export.json" in names
    if form != "saved_model":
        assert "saved_model.pb" not in names


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        tf.errors.ResourceExhaustedError(None, None, "No space left on device"),
    ],
)
def test_full_disk_is_named(run_dir, monkeypatch, error):
    def fail(root, folder, **_):
        pathlib.Path(folder, "saved_model.pb").write_text("half")
        raise error

    monkeypatch.setattr(tf.saved_model, "save", fail)
    with pytest.raises(OSError, match="bytes are free.*exported") as raised:
        export.run(options(run_dir))
    assert raised.value.errno == errno.ENOSPC
    assert [p.name for p in run_dir.parent.iterdir()] == ["run"]


def test_other_errors_of_tensorflow_stay_what_they_are(run_dir, monkeypatch):
    def fail(root, folder, **_):
        raise tf.errors.InvalidArgumentError(None, None, "a shape")

    monkeypatch.setattr(tf.saved_model, "save", fail)
    with pytest.raises(tf.errors.InvalidArgumentError, match="a shape"):
        export.run(options(run_dir))
    assert [p.name for p in run_dir.parent.iterdir()] == ["run"]


def test_mistyped_checkpoint_is_named_not_the_vocabulary(tmp_path):
    wrong = str(tmp_path / "albert_hff")
    settings = make_options(
        export_dir="x", init_checkpoint=wrong, task="encoder"
    )
    with pytest.raises(
        errors.UserError, match="albert_hff` is neither a folder nor"
    ):
        source.find(settings.source)


def test_vocabulary_beside_a_checkpoint_is_used_as_its_run_did(run_dir):
    path = run_dir / "run_options.json"
    content = json.loads(path.read_text())
    content["options"]["do_lower_case"] = False
    path.write_text(json.dumps(content))
    # Runs of earlier versions have no such file.
    (run_dir / "spm.normalization.json").unlink()
    given = {
        "export_dir": "x",
        "init_checkpoint": str(run_dir / "model.ckpt-best"),
        "task": "pretraining",
    }
    found = source.find(make_options(**given).source)
    assert found.vocabulary.path == str(run_dir / "spm.model")
    assert not found.vocabulary.do_lower_case
    with pytest.raises(errors.UserError, match="`keep_accents=true`, but"):
        source.find(make_options(**given, keep_accents=True).source)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"start_n_top": 3}, "`start_n_top=3` is for SQuAD 2.0"),
        ({"labels": "a,b"}, "`labels=a,b` is for classifier, but .* squad"),
        ({"num_options": 3}, "`num_options=3` is for race, but .* squad"),
    ],
)
def test_options_of_other_kinds_are_refused_for_checkpoints(changes, message):
    settings = make_options(
        export_dir="x",
        init_checkpoint="nowhere",
        task="squad",
        squad_version="1.1",
        **changes,
    )
    with pytest.raises(errors.UserError, match=message):
        source.find(settings.source)


def squad_run(folder, config, tiny_vocab, version):
    """Make the folder of a finetuned SQuAD model, without a checkpoint."""
    settings = albert_options.from_dict(
        run_squad.RunSquadOptions,
        {
            "albert_config_file": "c.json",
            "output_dir": str(folder),
            "train_file": "train.json",
            "do_train": True,
            "max_seq_length": 32,
            "max_query_length": 8,
            "doc_stride": 8,
            "squad_version": version,
            **with_vocabulary(tiny_vocab),
        },
    )
    run_folder.claim(
        str(folder),
        "run_squad",
        settings,
        config,
        tokenization.VocabularyOptions(tiny_vocab),
    )


@pytest.mark.parametrize(
    "version, changes, message",
    [
        ("2.0", {"doc_stride": 4, "n_best_size": 3, "start_n_top": 2}, None),
        ("1.1", {"doc_stride": 4}, None),
        ("1.1", {"end_n_top": 2}, "`end_n_top=2` is for SQuAD 2.0"),
        ("1.1", {"squad_version": "2.0"}, "was trained for 1.1"),
        ("2.0", {"max_qa_length": 2}, "`max_qa_length=2` is for race"),
    ],
)
def test_a_run_of_squad_takes_its_own_options(
    tmp_path, config, tiny_vocab, version, changes, message
):
    folder = tmp_path / "run"
    squad_run(folder, config, tiny_vocab, version)
    given = make_options(export_dir="x", run_dir=str(folder), **changes).source
    if message:
        with pytest.raises(errors.UserError, match=message):
            source.find(given)
    else:
        assert source.find(given).values["doc_stride"] == 4


def test_a_file_to_evaluate_on_is_named_by_its_option(
    tmp_path, config, tiny_vocab
):
    folder = tmp_path / "run"
    classifier_run(folder, config, tiny_vocab, "cola")
    dev = tmp_path / "dev.tsv"
    dev.write_text("two\tcolumns\n")
    settings = make_options(
        export_dir=str(tmp_path / "exported"),
        run_dir=str(folder),
        eval_file=str(dev),
    )
    refuse(settings, "--eval_file=.*dev.tsv cannot be used: .*2 columns")


def test_folder_without_checkpoint_is_refused(run_dir):
    for path in run_dir.glob("model.ckpt*"):
        path.unlink()
    refuse(options(run_dir), "`run_dir=.* does not say which checkpoint")


def test_missing_checkpoint_is_named(run_dir):
    wanted = str(run_dir / "model.ckpt-7")
    refuse(
        options(run_dir, checkpoint=wanted),
        "`checkpoint=.*model.ckpt-7` is neither a folder nor",
    )
    assert not (run_dir.parent / "exported").exists()


@pytest.mark.parametrize("exists", [True, False])
def test_folder_that_is_no_run_is_refused(run_dir, exists):
    folder = run_dir.parent / "something"
    if exists:
        folder.mkdir()
    refuse(
        options(folder, export_dir=str(run_dir.parent / "exported")),
        "`run_dir=.*/something` is not the folder of a run",
    )


def classifier_run(folder, config, tiny_vocab, task):
    """Make the folder of a finetuned classifier, without a checkpoint."""
    settings = run_classifier.ClassifierOptions(
        data_dir="glue",
        task_name=task,
        finetuning=finetuning_options.FinetuningOptions(
            vocabulary=tokenization.VocabularyOptions(tiny_vocab),
            albert_config_file="c.json",
            output_dir=str(folder),
            max_seq_length=16,
            do_train=True,
        ),
    )
    vocabulary = settings.finetuning.vocabulary
    run_folder.claim(
        str(folder), "run_classifier", settings, config, vocabulary
    )


@pytest.mark.parametrize(
    "task, pairs", [("cola", False), ("RTE", True), ("sst-2", False)]
)
def test_classifier_gets_the_signature_of_its_task(
    tmp_path, config, tiny_vocab, task, pairs
):
    folder = str(tmp_path / "run")
    classifier_run(folder, config, tiny_vocab, task)
    found = source.find(
        make_options(export_dir="exported", run_dir=folder).source
    )
    service = source.make_service(found, source.make_task(found))
    assert isinstance(service, text_service.ClassifierService)
    assert service.texts == (("text", "text_pair") if pairs else ("text",))
    assert service.max_seq_length == 16


def test_only_a_saved_model_is_overwritten(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "a.tex").write_text("years")
    settings = make_options(
        run_dir=str(tmp_path),
        export_dir=str(tmp_path / "thesis"),
        overwrite=True,
    )
    with pytest.raises(errors.UserError, match="is not an export"):
        export.check_target(settings)
    assert (tmp_path / "thesis" / "a.tex").read_text() == "years"
