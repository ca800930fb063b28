"""Export of checkpoints in the layouts of brightmart and Hugging Face."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import export
from albert_tf.common import errors
from albert_tf.model import modeling
from albert_tf.model.checkpoints import (
    checkpoint_reader,
    huggingface,
    restoring,
)
from albert_tf.model.heads import classification
from albert_tf.serving import source
from albert_tf.text import wordpiece
from tests import brightmart_files
from tests.conftest import LAYER_ATOL
from tests.export_options import make_options, read_report, with_vocabulary


@pytest.fixture
def config(small_config):
    return dataclasses.replace(small_config, num_hidden_layers=2)


EVERY_FORMAT = [
    ("saved_model", "float32", LAYER_ATOL),
    ("saved_model", "bfloat16", 0.1),
    *((form, "float32", 1e-4) for form in ("litert", "onnx")),
    *((form, "int8", 0.2) for form in ("litert", "onnx")),
]


@pytest.fixture
def brightmart(tmp_path):
    """An archive of brightmart's albert_zh; its size is that of its files."""
    folder = tmp_path / "albert_tiny"
    folder.mkdir()
    weights = brightmart_files.make_weights()
    brightmart_files.save(weights, folder / "albert_model.ckpt")
    brightmart_files.write_config(folder / "albert_config_tiny.json")
    letters = [chr(ord("一") + i) for i in range(55)]
    pieces = [*wordpiece.SPECIAL_PIECES, *letters]
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n")
    return {
        "init_checkpoint": str(folder / "albert_model.ckpt"),
        "albert_config_file": str(folder / "albert_config_tiny.json"),
    }


@pytest.mark.parametrize(("form", "precision", "atol"), EVERY_FORMAT)
def test_brightmarts_layout_is_exported_in_every_format(
    tmp_path, brightmart, form, precision, atol
):
    """The whole model: the report compares all outputs with the live one."""
    settings = make_options(
        **brightmart,
        task="pretraining",
        export_dir=str(tmp_path / "exported"),
        format=form,
        precision=precision,
    )
    export.run(settings)
    far = read_report(tmp_path / "run")["largest_difference"]
    outputs = {name for function in far.values() for name in function}
    assert outputs >= {"sequence_output", "mlm_logits", "sop_logits"}
    for function in far.values():
        assert max(function.values()) < atol, far
    if form == "saved_model":
        found = source.find(settings.source)
        live = source.make_service(found, source.make_task(found))
        restoring.restore(live.model, found.checkpoint)
        text = tf.constant(["一[MASK]三"])
        loaded = tf.saved_model.load(settings.export_dir).signatures
        actual = loaded["fill_mask"](text)["probabilities"]
        expected = live.fill_mask(text)["probabilities"]
        np.testing.assert_allclose(actual, expected, atol=atol, rtol=0)


@pytest.mark.parametrize(("form", "precision", "atol"), EVERY_FORMAT)
def test_pooling_and_position_bias_are_exported_in_every_format(
    tmp_path, config, tiny_vocab, form, precision, atol
):
    """The report compares all outputs with those of the live model."""
    config = dataclasses.replace(config, pooling="pair", position_bias="alibi")
    model = classification.AlbertClassifier(modeling.AlbertModel(config), 3)
    (tmp_path / "run").mkdir()
    prefix = str(tmp_path / "run" / "model.ckpt-1")
    tf.train.Checkpoint(model=model).write(prefix)
    (tmp_path / "run" / "albert_config.json").write_text(config.to_json())
    settings = make_options(
        init_checkpoint=prefix,
        task="classifier",
        export_dir=str(tmp_path / "exported"),
        format=form,
        precision=precision,
        **with_vocabulary(tiny_vocab),
    )
    export.run(settings)
    far = read_report(tmp_path / "run")["largest_difference"]
    assert any("logits" in function for function in far.values())
    for function in far.values():
        assert max(function.values()) < atol, far


def hugging_face_classifier(folder, config, tiny_vocab, names):
    """A folder of transformers with a classifier of three classes."""
    model = classification.AlbertClassifier(modeling.AlbertModel(config), 3)
    weights = {checkpoint_reader.name_of(v): v.numpy() for v in model.variables}
    huggingface.write(str(folder), config, weights)
    values = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(values | names))
    return make_options(
        export_dir=str(folder / "exported"),
        init_checkpoint=str(folder),
        task="classifier",
        **with_vocabulary(tiny_vocab),
    )


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        ({"id2label": {"0": "no, never", "1": "so", "2": "ja"}}, None),
        ({"id2label": {"0": "no, never", "1": "so", "2": "ja"}}, "a,b,c"),
        ({}, None),
    ],
)
def test_classes_keep_their_names_of_hugging_face(
    tmp_path, config, tiny_vocab, names, labels
):
    settings = hugging_face_classifier(tmp_path, config, tiny_vocab, names)
    given = dataclasses.replace(settings.source, labels=labels)
    found = source.find(given)
    service = source.make_service(found, source.make_task(found))
    wanted = ["no, never", "so", "ja"] if names else ["0", "1", "2"]
    assert list(service.labels) == (labels.split(",") if labels else wanted)


def test_two_names_of_hugging_face_for_three_classes_are_refused(
    tmp_path, config, tiny_vocab
):
    names = {"id2label": {"0": "no", "1": "yes"}}
    settings = hugging_face_classifier(tmp_path, config, tiny_vocab, names)
    found = source.find(settings.source)
    with pytest.raises(errors.UserError, match="3 classes and 2 names"):
        source.make_service(found, source.make_task(found))
