"""From text to a pretrained model, in separate processes.

The module's fixtures run the commands once. The tests look at their files.
"""

import json
import pathlib
import signal
import types

import pytest
import tensorflow as tf

from albert_tf.training import run_log
from tests.conftest import tiny_config
from tests.end_to_end import processes

STEPS = 6
EVERY = 2
CONFIG = tiny_config(hidden_dropout_prob=0.1)


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
    return types.SimpleNamespace(
        folder=folder,
        config=folder / "config.json",
        vocabulary=folder / "words.model",
        records=folder / "train.tfrecord",
        pretrained=folder / "pretrained",
    )


@pytest.fixture(scope="module")
def pretrained(inputs):
    run_script(
        "albert_tf.run_pretraining", **pretraining(inputs, inputs.pretrained)
    )
    return inputs.pretrained


def numbers(folder, split):
    return [x for x in run_log.read(str(folder)) if x["split"] == split]


def weights(prefix):
    """All values of a checkpoint, optimizer and step included, as bytes."""
    reader = tf.train.load_checkpoint(str(prefix))
    return {
        name: reader.get_tensor(name).tobytes()
        for name in reader.get_variable_to_shape_map()
        # Time is not the same twice.
        if not name.startswith(("_CHECKPOINTABLE", "save_counter", "elapsed"))
    }


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
