"""The whole pipeline in separate processes: from text to SavedModels.

The module's fixtures run the commands once. The tests look at their files.
"""

import json
import os
import pathlib
import signal
import types

import pytest
import tensorflow as tf

from tests import own_tasks
from tests.conftest import python, tiny_config
from tests.end_to_end import processes

STEPS = 6
EVERY = 2
CONFIG = tiny_config(hidden_dropout_prob=0.1)
# Answers of a SavedModel, in a process that has only TensorFlow and TF Text.
QUESTION = """
import json, sys
import numpy as np
import tensorflow as tf
import tensorflow_text
signature = tf.saved_model.load(sys.argv[1]).signatures[sys.argv[2]]
texts = {k: tf.constant(v) for k, v in json.loads(sys.argv[3]).items()}
answer = {k: v.numpy() for k, v in signature(**texts).items()}
for key, value in answer.items():
    if value.dtype == object:
        answer[key] = np.char.decode(value.astype("S"), "utf-8")
print(json.dumps({key: value.tolist() for key, value in answer.items()}))
"""


def run_script(module, **options):
    processes.finish(processes.start(module, **options))


def pretraining(inputs, output_dir):
    return {
        "albert_config_file": inputs.config,
        "input_file": inputs.records,
        "eval_input_file": inputs.records,
        "spm_model_file": inputs.vocabulary,
        "output_dir": output_dir,
        "max_seq_length": 32,
        "max_predictions_per_seq": 5,
        "train_batch_size": 8,
        "eval_batch_size": 8,
        "max_eval_steps": 2,
        "num_train_steps": STEPS,
        "num_warmup_steps": 1,
        "learning_rate": 0.001,
        "iterations_per_loop": EVERY,
        "save_checkpoints_steps": EVERY,
        "do_eval": True,
    }


def finetuning(inputs):
    return {
        "data_dir": inputs.folder / "glue",
        "task_name": "RTE",
        "spm_model_file": inputs.vocabulary,
        "albert_config_file": inputs.config,
        "init_checkpoint": inputs.pretrained,
        "output_dir": inputs.finetuned,
        "max_seq_length": 64,
        "do_train": True,
        "do_eval": True,
        "do_predict": True,
        "train_batch_size": 8,
        "train_step": 4,
        "warmup_step": 1,
        "iterations_per_loop": 2,
        "save_checkpoints_steps": 2,
    }


@pytest.fixture(scope="module")
def inputs(tmp_path_factory, story_text):
    folder = tmp_path_factory.mktemp("inputs")
    text = folder / "text.txt"
    text.write_text(story_text[0])
    run_script(
        "data_prep.train_sentencepiece",
        input_file=text,
        output_prefix=folder / "words",
        vocab_size=CONFIG.vocab_size,
    )
    run_script(
        "data_prep.create_pretraining_data",
        input_file=text,
        output_file=folder / "train.tfrecord",
        spm_model_file=folder / "words.model",
        max_seq_length=32,
        max_predictions_per_seq=5,
        dupe_factor=1,
    )
    (folder / "config.json").write_text(CONFIG.to_json())
    own_tasks.write_rte(folder / "glue" / "RTE", train=40, dev=12, test=10)
    return types.SimpleNamespace(
        folder=folder,
        config=folder / "config.json",
        vocabulary=folder / "words.model",
        records=folder / "train.tfrecord",
        pretrained=folder / "pretrained",
        finetuned=folder / "finetuned",
    )


@pytest.fixture(scope="module")
def pretrained(inputs):
    run_script(
        "albert_tf.run_pretraining", **pretraining(inputs, inputs.pretrained)
    )
    return inputs.pretrained


@pytest.fixture(scope="module")
def finetuned(inputs, pretrained):
    run_script("albert_tf.run_classifier", **finetuning(inputs))
    return inputs.finetuned


def numbers(folder, split):
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [line for line in map(json.loads, lines) if line["split"] == split]


def weights(prefix):
    """All values of a checkpoint, optimizer and step included, as bytes."""
    reader = tf.train.load_checkpoint(str(prefix))
    return {
        name: reader.get_tensor(name).tobytes()
        for name in reader.get_variable_to_shape_map()
        # Time is not the same twice.
        if not name.startswith(("_CHECKPOINTABLE", "save_counter", "elapsed"))
    }


def ask(path, signature, **texts):
    environment = {k: v for k, v in os.environ.items() if "KERAS" not in k}
    given = path, signature, json.dumps(texts)
    done = python("-c", QUESTION, *given, cwd=path.parent, env=environment)
    return json.loads(done.stdout)


def test_pretraining_writes_its_files(inputs, pretrained):
    names = {path.name for path in pretrained.iterdir()}
    assert names >= {
        "run_options.json",
        "albert_config.json",
        "spm.model",
        "metrics.jsonl",
        "eval_results.txt",
        "run_card.md",
        "learning_curves.png",
        "model.ckpt-best.index",
        f"model.ckpt-{STEPS}.index",
        "train",
        "eval",
    }
    assert not [name for name in names if name.endswith(".partial")]
    assert [n["step"] for n in numbers(pretrained, "train")] == [2, 4, 6]
    assert [n["step"] for n in numbers(pretrained, "eval")] == [2, 4, 6]
    manifest = pathlib.Path(f"{inputs.records}.manifest.json").read_text()
    (facts,) = numbers(pretrained, "facts")
    card = (pretrained / "run_card.md").read_text()
    for name in ("entropy_of_labels", "share_of_most_frequent_label"):
        assert facts[name] == json.loads(manifest)["summary"][name] > 0
        assert f"| {name} | {facts[name]:.6g} |\n" in card


@pytest.mark.slow
def test_killed_pretraining_ends_like_an_undisturbed_one(
    inputs, pretrained, tmp_path
):
    killed = tmp_path / "killed"
    options = pretraining(inputs, killed)
    # Before the checkpoint of the step is written.
    at = ("SIGKILL", "train", 2 * EVERY)
    process = processes.start(
        "albert_tf.run_pretraining", signal_at=at, **options
    )
    processes.finish(process, -signal.SIGKILL)
    assert not (killed / "run_card.md").exists()
    assert not (killed / f"model.ckpt-{2 * EVERY}.index").exists()
    output = processes.finish(
        processes.start("albert_tf.run_pretraining", **options)
    )
    assert "Going on from" in output
    assert weights(killed / f"model.ckpt-{STEPS}") == weights(
        pretrained / f"model.ckpt-{STEPS}"
    )
    facts = numbers(killed, "facts")
    assert [line["step"] == 0 for line in facts] == [True, False]
    for split in ("train", "eval"):
        ours, theirs = numbers(killed, split), numbers(pretrained, split)
        assert [n["loss"] for n in ours] == [n["loss"] for n in theirs]


@pytest.mark.slow
def test_exported_classifier_gives_the_predictions_of_the_run(
    inputs, finetuned, tmp_path
):
    run_script(
        "albert_tf.export", run_dir=finetuned, export_dir=tmp_path / "model"
    )
    text = (inputs.folder / "glue" / "RTE" / "test.tsv").read_text()
    lines = text.removesuffix("\n").split("\n")
    rows = [line.split("\t") for line in lines[1:]]
    answer = ask(
        tmp_path / "model",
        "serving_default",
        text=[row[1] for row in rows],
        text_pair=[row[2] for row in rows],
    )
    lines = (finetuned / "submit_results.tsv").read_text().splitlines()[1:]
    assert answer["label"] == [line.split("\t")[1] for line in lines]
    written = (finetuned / "test_results.tsv").read_text().splitlines()
    for odds, line in zip(answer["probabilities"], written, strict=True):
        expected = [float(number) for number in line.split("\t")]
        assert odds == pytest.approx(expected, abs=1e-6)
