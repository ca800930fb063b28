"""Export: what it refuses, and that it restores what was trained."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import (
    errors,
    export,
    finetuning,
    modeling,
    run_classifier,
    run_folder,
    run_pretraining,
    serving,
    tokenization,
)
from albert_tf.heads import pretraining
from tests.conftest import LAYER_ATOL


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
    return export.ExportOptions(
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
    monkeypatch.setattr(serving, "save", lambda *args: saved.append(args))
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
    total = sum(float(np.abs(value).sum()) for value in stored)
    ours = sum(float(np.abs(value.numpy()).sum()) for value in loaded.weights)
    assert ours == pytest.approx(total, rel=LAYER_ATOL)


def test_missing_vocabulary_is_asked_for(run_dir):
    (run_dir / "spm.model").unlink()
    refuse(options(run_dir), "no copy of its vocabulary.*--spm_model_file")


def test_missing_vocabulary_can_be_given(run_dir, tiny_vocab, no_saving):
    (run_dir / "spm.model").unlink()
    export.run(options(run_dir, spm_model_file=tiny_vocab))
    assert len(no_saving) == 1


def test_other_vocabulary_is_refused(run_dir, config):
    other = dataclasses.replace(config, vocab_size=401)
    (run_dir / "albert_config.json").write_text(other.to_json())
    refuse(options(run_dir), "has 400 pieces, but the run has vocab_size 401")


def test_existing_folder_is_kept_without_overwrite(run_dir):
    target = run_dir.parent / "exported"
    target.mkdir()
    (target / "old").write_text("old")
    refuse(options(run_dir), "--export_dir=.* already exists.*--overwrite")
    assert (target / "old").read_text() == "old"


def test_existing_folder_is_replaced_with_overwrite(run_dir, no_saving):
    (run_dir.parent / "exported").mkdir()
    (run_dir.parent / "exported" / "saved_model.pb").write_text("")
    export.run(options(run_dir, overwrite=True))
    assert len(no_saving) == 1


def test_folder_without_checkpoint_is_refused(run_dir):
    for path in run_dir.glob("model.ckpt*"):
        path.unlink()
    refuse(options(run_dir), "--run_dir=.* does not say which checkpoint")


def test_missing_checkpoint_is_named(run_dir):
    wanted = str(run_dir / "model.ckpt-7")
    refuse(
        options(run_dir, checkpoint=wanted),
        "--checkpoint=.*model.ckpt-7 is not a checkpoint",
    )
    assert not (run_dir.parent / "exported").exists()


@pytest.mark.parametrize("exists", [True, False])
def test_folder_that_is_no_run_is_refused(run_dir, exists):
    folder = run_dir.parent / "something"
    if exists:
        folder.mkdir()
    refuse(
        options(folder, export_dir=str(run_dir.parent / "exported")),
        "something is not the folder of a run",
    )


@pytest.mark.parametrize(
    "task, pairs", [("cola", False), ("RTE", True), ("sst-2", False)]
)
def test_classifier_gets_the_signature_of_its_task(
    tmp_path, config, tiny_vocab, tiny_tokenizer, task, pairs
):
    folder = str(tmp_path / "run")
    settings = run_classifier.ClassifierOptions(
        data_dir="glue",
        task_name=task,
        finetuning=finetuning.FinetuningOptions(
            vocabulary=tokenization.VocabularyOptions(tiny_vocab),
            albert_config_file="c.json",
            output_dir=folder,
            max_seq_length=16,
            do_train=True,
        ),
    )
    vocabulary = settings.finetuning.vocabulary
    run_folder.claim(folder, "run_classifier", settings, config, vocabulary)
    service = export.make_service(run_folder.read(folder), tiny_tokenizer)
    assert isinstance(service, serving.ClassifierService)
    assert service._texts == (("text", "text_pair") if pairs else ("text",))
    assert service._max_seq_length == 16


def test_only_a_saved_model_is_overwritten(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "a.tex").write_text("years")
    settings = export.ExportOptions(
        run_dir=str(tmp_path),
        export_dir=str(tmp_path / "thesis"),
        overwrite=True,
    )
    with pytest.raises(errors.UserError, match="is not a SavedModel"):
        export.check_target(settings)
    assert (tmp_path / "thesis" / "a.tex").read_text() == "years"
