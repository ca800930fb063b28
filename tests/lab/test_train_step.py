"""The exported step is the update of TensorFlow, on one device and on eight."""

import ast
import dataclasses
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import run_pretraining
from albert_tf.common import options
from lab import train_step
from tests.conftest import ROOT, python, tiny_config

SCRIPT = ROOT / "lab/train_step.py"
STEPS, LENGTH, PREDICTIONS = 5, 12, 3
# Several steps in float32, the sums in another order; eight bits of precision.
FLOAT32, BFLOAT16 = 1e-5, 1e-2


def make_batch(number, size, config):
    """A batch with padding, missing predictions and filling."""
    draws = np.random.default_rng(number)
    lengths = draws.integers(6, LENGTH + 1, size)
    real = np.arange(LENGTH) < lengths[:, None]
    counts = draws.integers(1, PREDICTIONS + 1, size)
    weights = np.arange(PREDICTIONS) < counts[:, None]
    places = np.argsort(draws.random((size, 6)))[:, :PREDICTIONS]
    integers = {
        "input_ids": draws.integers(5, config.vocab_size, real.shape) * real,
        "input_mask": real,
        "segment_ids": real & (np.arange(LENGTH) > 4),
        "masked_lm_positions": np.sort(places),
        "masked_lm_ids": draws.integers(5, config.vocab_size, weights.shape),
        "next_sentence_labels": draws.integers(0, 2, (size, 1)),
        "is_real_example": np.arange(size) < size - number % 2,
    }
    return {
        **{name: value.astype(np.int32) for name, value in integers.items()},
        "masked_lm_weights": weights.astype(np.float32),
    }


@pytest.fixture
def export(tmp_path):
    """Exports a step and writes batches; returns the options and the config."""

    def export(size=4, loop_layers=False, dropout=0.0, **changes):
        config = dataclasses.replace(
            tiny_config(),
            hidden_dropout_prob=dropout,
            attention_probs_dropout_prob=dropout,
        )
        path = tmp_path / "config.json"
        path.write_text(config.to_json())
        settings = options.from_dict(
            run_pretraining.PretrainingOptions,
            {
                "input_file": "none",
                "output_dir": str(tmp_path / "step"),
                "albert_config_file": str(path),
                "train_batch_size": size,
                "max_seq_length": LENGTH,
                "max_predictions_per_seq": PREDICTIONS,
                "num_train_steps": 20,
                "num_warmup_steps": 2,
                "learning_rate": 0.01,
                **changes,
            },
        )
        train_step.write_program(settings, loop_layers)
        for number in range(STEPS):
            batch = make_batch(number, size, config)
            np.savez(tmp_path / f"{number}.npz", **batch)
        return settings

    return export


def start(python, *arguments):
    own = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    flags = "--xla_force_host_platform_device_count=8"
    return subprocess.run(
        [python, str(SCRIPT), *arguments],
        env={**own, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags},
        capture_output=True,
        text=True,
        timeout=300,
    )


def train_with_jax(python, tmp_path, devices=1):
    done = start(
        python,
        "run",
        f"--program={tmp_path}/step",
        f"--steps={STEPS}",
        f"--save={tmp_path}/{devices}of.npz",
        f"--devices={devices}",
        "--batches",
        *(f"{tmp_path}/{number}.npz" for number in range(STEPS)),
    )
    assert done.returncode == 0, done.stderr
    *rows, measured = map(json.loads, done.stdout.splitlines())
    assert measured["devices"] == devices
    assert measured["tokens_per_second"] > 0
    assert measured["memory_mib"] > measured["arguments_mib"] > 0
    with np.load(tmp_path / f"{devices}of.npz") as stored:
        return rows, dict(stored)


def train_with_tensorflow(settings, tmp_path, compiled):
    config, step = train_step.make_step(settings, loop_layers=False)
    update = tf.function(lambda batch: step(batch), jit_compile=compiled)
    rows = []
    for number in range(STEPS):
        batch = make_batch(number, settings.train_batch_size, config)
        batch = {name: tf.constant(value) for name, value in batch.items()}
        row = step.summarize(update(batch).numpy()[None])
        del row["learning_rate"]  # That after the last update.
        rows.append(row)
    variables = train_step.variables_of(step)
    return rows, {n: v.numpy() for n, v in variables.items()}


def assert_same_training(found, expected, tolerance):
    for row, wanted in zip(found[0], expected[0], strict=True):
        assert row == pytest.approx(wanted, rel=tolerance, abs=tolerance)
    assert found[1].keys() == expected[1].keys()
    assert found[1]["iteration"] == STEPS
    largest = {"adam_m": 0.0, "adam_v": 0.0}
    for name, value in expected[1].items():
        kind = name.split("/")[0]
        if kind in largest:
            largest[kind] = max(largest[kind], np.abs(value).max())
    for name, value in found[1].items():
        np.testing.assert_allclose(
            value,
            expected[1][name],
            rtol=tolerance,
            atol=tolerance * largest.get(name.split("/")[0], 1.0),
            err_msg=name,
        )


@pytest.mark.jax
@pytest.mark.parametrize(
    ("changes", "compiled", "tolerance"),
    [
        ({}, False, FLOAT32),
        (
            {
                "sentence_objective": "nsp",
                "optimizer": "adamw",
                "gradient_accumulation_steps": 2,
            },
            False,
            FLOAT32,
        ),
        ({"sentence_objective": "none", "recompute": True}, False, FLOAT32),
        ({"loop_layers": True}, False, FLOAT32),
        ({"objective": "rtd", "optimizer": "adamw"}, False, FLOAT32),
        ({"optimizer": "muon"}, False, FLOAT32),
        # Only compiled do both draw the same dropout.
        ({"dropout": 0.2}, True, FLOAT32),
        # What is rounded when is up to the compiler.
        ({"precision": "bfloat16"}, True, BFLOAT16),
    ],
)
def test_five_steps_equal_those_of_tensorflow(
    jax_python, export, tmp_path, changes, compiled, tolerance
):
    settings = export(**changes)
    found = train_with_jax(jax_python, tmp_path)
    expected = train_with_tensorflow(settings, tmp_path, compiled)
    assert_same_training(found, expected, tolerance)


@pytest.mark.jax
def test_eight_devices_give_the_numbers_of_one(jax_python, export, tmp_path):
    export(size=8)
    one = train_with_jax(jax_python, tmp_path)
    assert_same_training(train_with_jax(jax_python, tmp_path, 8), one, FLOAT32)


@pytest.mark.jax
@pytest.mark.parametrize(
    ("topology", "chips"), [("v5e:1x1", 1), ("v5e:2x4", 8)]
)
def test_step_compiles_for_tpus(jax_python, export, tmp_path, topology, chips):
    export(size=8)
    done = start(
        jax_python,
        "compile",
        f"--program={tmp_path}/step",
        f"--topology={topology}",
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["device"], found["devices"]) == ("TPU v5 lite", chips)
    # All but the batch is replaced in place.
    assert 0 < found["arguments_mib"] - found["aliased_mib"] < 0.05
    assert found["gigaflops"] > found["model_gigaflops"] / 2 > 0


@pytest.mark.jax
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run"], "the following arguments are required: --program"),
        (["run", "--program=x"], "--program=x is not a folder that"),
        (["run", "{step}", "--steps=0"], "0 is below 1"),
        (["run", "{step}", "--devices=9"], "but jax finds 8"),
        (["run", "{step}", "--devices=8"], "8 devices cannot share batches of"),
        (["run", "{step}", "--batches", "x"], "x does not hold what the pro"),
        (["run", "{step}", "--batches", "{odd}"], r"\[3, 12\]; the program"),
        (["run", "{cut}"], "train_step.mlir cannot be read"),
        (["compile", "{step}", "--topology=v5e:3x3"], "is none that the"),
        (["train", "{step}"], "invalid choice: 'train'"),
        (["compile", "{step}", "--topology=v5e:2x4"], "8 devices cannot share"),
    ],
)
def test_what_does_not_fit_is_refused(
    jax_python, export, tmp_path, arguments, message
):
    export()
    np.savez(tmp_path / "odd.npz", **make_batch(0, 3, tiny_config()))
    if "{cut}" in arguments:
        (tmp_path / "step/train_step.mlir").write_text("module {")
    folder = f"--program={tmp_path}/step"
    places = {"step": folder, "cut": folder, "odd": f"{tmp_path}/odd.npz"}
    done = start(jax_python, *(word.format(**places) for word in arguments))
    assert done.returncode == 2
    assert re.search(message, done.stderr)
    assert "Traceback" not in done.stderr


# Without jax.


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"gradient_accumulation_steps": 2, "recompute": True, "dropout": 0.1},
    ],
)
def test_program_has_operations_of_stablehlo_only(export, tmp_path, changes):
    export(**changes)
    text = (tmp_path / "step/train_step.mlir").read_text()
    operations = re.findall(r'^ *(?:%.* = )?"?(\w+)\.\w+', text, re.MULTILINE)
    assert set(operations) == {"func", "stablehlo"}
    assert not re.findall(r"\bm?hlo\.\w+ %|custom_call", text)
    described = json.loads((tmp_path / "step/train_step.json").read_text())
    assert described["results"][0] == "numbers"
    assert set(described["results"][1:]) <= set(described["variables"])
    assert described["rows"][-2:] == ["gradient_norm", "skipped"]


def test_export_takes_the_options_of_pretraining(tmp_path):
    given = ["--output_dir=x", "--albert_config_file=missing.json", "--sed=3"]
    done = python("-m", "lab.train_step", "export", *given, status=2)
    assert (
        "Did you mean: seed" in done.stderr and "Traceback" not in done.stderr
    )


DRAWN = {
    "sentence_objective": "none",
    "masked_lm_budget": PREDICTIONS,
    "max_predictions_per_seq": 20,
}


@pytest.mark.parametrize(
    "changes",
    [
        {"word_embeddings_file": "words.npy"},
        {"init_schedule": "continue", "init_checkpoint": "x"},
        {"objective": "plm", **DRAWN},
        {"objective": "spans", **DRAWN},
        {"records": "passages", **DRAWN},
        {"pack_sequences": True},
        {"max_minutes": 5.0},
        {"weight_precision": "int8"},
    ],
)
def test_what_is_not_exported_is_refused(
    export, tmp_path, tiny_vocab, capsys, changes
):
    with pytest.raises(SystemExit):
        export(spm_model_file=tiny_vocab, **changes)
    name, said = next(iter(changes)), capsys.readouterr().err
    assert f"--{name}" in said and "is not exported" in said
    assert not (tmp_path / "step").exists()


def test_without_an_export_numpy_and_jax_are_enough():
    """The rest is imported within functions of the export."""
    known = {"jax", "jaxlib", "numpy", *sys.stdlib_module_names}
    tree = ast.parse(SCRIPT.read_text())
    own = {"export", "write_program", "make_step", "variables_of"}
    own |= {"random_batch", "lower", "packed"}
    for part in tree.body:
        if getattr(part, "name", None) in own:
            continue
        for node in ast.walk(part):
            names = [alias.name for alias in getattr(node, "names", [])]
            if isinstance(node, ast.ImportFrom):
                names = [str(node.module)]
            if isinstance(node, ast.Import | ast.ImportFrom):
                assert {name.split(".")[0] for name in names} <= known


@pytest.mark.parametrize("name", ["mine.npz", "mine", "nowhere/mine"])
def test_variables_are_saved_in_a_new_file_only(tmp_path, capsys, name):
    path = tmp_path / "mine.npz"
    path.write_text("mine")
    words = ["run", "--program=x", f"--save={tmp_path}/{name}"]
    with pytest.raises(SystemExit, match="2"):
        train_step.make_parser().parse_args(words)
    assert "--save" in capsys.readouterr().err
    words[-1] = f"--save={tmp_path}/new"
    given = train_step.make_parser().parse_args(words)
    assert given.save == str(tmp_path / "new.npz")


@pytest.mark.parametrize(
    "words", [["run", "--topology=v5e:1x1"], ["compile", "--steps=3"]]
)
def test_an_option_of_another_command_is_refused(capsys, words):
    with pytest.raises(SystemExit, match="2"):
        train_step.make_parser().parse_args([*words, "--program=x"])
    assert f"unrecognized arguments: {words[1]}" in capsys.readouterr().err


def test_a_failed_export_keeps_an_earlier_one(export, tmp_path, monkeypatch):
    export()
    folder = tmp_path / "step"
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def fail(*_):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(train_step, "lower", fail)
        with pytest.raises(MemoryError):
            export(learning_rate=0.5)
    after = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert after == before
    export(learning_rate=0.5)
    after = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert after.keys() == before.keys() and after != before
