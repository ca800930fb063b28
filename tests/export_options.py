"""Finetuned runs, their exports, and what both answer, for tests."""

import json
import pathlib

import tensorflow as tf
import tf_keras as keras

from albert_tf import (
    export,
    predict,
    run_classifier,
    run_embeddings,
    run_race,
    run_squad,
)
from albert_tf.common import options as albert_options
from albert_tf.finetuning import registry
from albert_tf.model.heads import pretraining
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.text import tokenization
from albert_tf.training import pretraining_options, run_folder
from tests import row_files

_PROGRAMS = {
    "squad": ("run_squad", run_squad.RunSquadOptions, {"train_file": "t"}),
    "embedding": (
        "run_embeddings",
        run_embeddings.RunEmbeddingsOptions,
        {"train_file": "t"},
    ),
    "race": ("run_race", run_race.RunRaceOptions, {"data_dir": "d"}),
}
_CLASSIFIER = run_classifier.ClassifierOptions
_OTHERS = ("run_classifier", _CLASSIFIER, {"data_dir": "d"})


def make_run(folder, config, vocabulary, task_name, **values):
    """Make the folder of a finetuned run with new weights.

    Returns:
        The model, which is in `model.ckpt-best`.
    """
    program, kind, needed = _PROGRAMS.get(task_name, _OTHERS)
    values = {
        "albert_config_file": "config.json",
        "output_dir": str(folder),
        "max_seq_length": 32,
        "do_train": True,
        "spm_model_file": vocabulary,
        **needed,
        **values,
    }
    if program == "run_classifier":
        values["task_name"] = task_name
    settings = albert_options.from_dict(kind, values)
    known = settings.finetuning.vocabulary
    run_folder.RunStart(
        str(folder), program, settings, config, known
    ).write_options()
    task = registry.make(
        run_folder.read(str(folder)).options,
        tokenization.Tokenizer(vocabulary),
    )
    keras.utils.set_random_seed(values.get("seed", 1))
    model = task.make_model(AlbertModel(config))
    tf.train.Checkpoint(model=model).write(f"{folder}/model.ckpt-best")
    return model


def make_pretrained(folder, config, vocabulary, max_seq_length):
    """Make the folder of a pretraining run with new weights."""
    settings = albert_options.from_dict(
        pretraining_options.PretrainingOptions,
        {
            "albert_config_file": "c.json",
            "input_file": "r.tfrecord",
            "output_dir": str(folder),
            "max_seq_length": max_seq_length,
            "spm_model_file": vocabulary,
        },
    )
    run_folder.RunStart(
        *(str(folder), "run_pretraining", settings, config),
        settings.data.vocabulary,
    ).write_options()
    model = pretraining.AlbertPretrainer(AlbertModel(config))
    tf.train.Checkpoint(model=model).write(f"{folder}/model.ckpt-best")


def make_options(**values):
    return albert_options.from_dict(export.ExportOptions, values)


def _texts(values):
    is_path = {k: isinstance(v, pathlib.Path) for k, v in values.items()}
    return {k: str(v) if is_path[k] else v for k, v in values.items()}


def exported(folder, **values):
    """Export to a folder; return the report."""
    export.run(make_options(export_dir=str(folder), **_texts(values)))
    return json.loads((folder / "export.json").read_text())


def ask(source, output, **values):
    """Predict a file; return the answers."""
    given = {"input_file": source, "output_file": output, **values}
    predict.run(predict.PredictOptions(**_texts(given)))
    return row_files.read(output)


def read_report(run_dir):
    return json.loads((run_dir.parent / "exported" / "export.json").read_text())
