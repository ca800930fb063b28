"""Small exported training steps, their batches, and what runs them."""

import io
import json
import os
import subprocess

import numpy as np

from albert_tf import export_train_step
from albert_tf.common import options
from albert_tf.data import layouts
from albert_tf.model import modeling
from albert_tf.training import run_log
from tests import record_files
from tests.conftest import ROOT

RUNNER = ROOT / "benchmarks" / "run_train_step"
STEPS = 5
EIGHT = 8  # Devices of a CPU.
BATCH, LENGTH, PREDICTIONS = 4, 12, 3
CONFIG = modeling.AlbertConfig(
    vocab_size=40,
    embedding_size=4,
    hidden_size=8,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=12,
    max_position_embeddings=16,
)


def make_options(folder, config=CONFIG, **changes):
    """Options of an export into a new folder, with the config beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(config.to_json())
    return options.from_dict(
        export_train_step.ExportOptions,
        {
            "output_dir": str(folder / "step"),
            "albert_config_file": str(folder / "config.json"),
            "train_batch_size": BATCH,
            "max_seq_length": LENGTH,
            "max_predictions_per_seq": PREDICTIONS,
            "num_train_steps": 20,
            "num_warmup_steps": 2,
            "learning_rate": 0.01,
            **changes,
        },
    )


def make_batches(size=BATCH):
    """Random batches with padding, missing predictions and filling."""
    generator = np.random.default_rng(5)
    for _ in range(STEPS):
        lengths = generator.integers(6, LENGTH + 1, size)
        real = (np.arange(LENGTH) < lengths[:, None]).astype(np.int32)
        counts = generator.integers(1, PREDICTIONS + 1, size)
        places = [
            np.sort(generator.choice(6, PREDICTIONS, replace=False))
            for _ in range(size)
        ]
        sizes = size, PREDICTIONS
        ids = generator.integers(5, CONFIG.vocab_size, (size, LENGTH))
        integers = {
            "input_ids": ids * real,
            "input_mask": real,
            "segment_ids": real * (np.arange(LENGTH) > 4),
            "masked_lm_positions": np.stack(places),
            "masked_lm_ids": generator.integers(5, CONFIG.vocab_size, sizes),
            "next_sentence_labels": generator.integers(0, 2, (size, 1)),
            "is_real_example": np.append(
                np.ones(size - 1), generator.integers(0, 2)
            ),
        }
        weights = np.arange(PREDICTIONS) < counts[:, None]
        yield {
            **{name: v.astype(np.int32) for name, v in integers.items()},
            "masked_lm_weights": weights.astype(np.float32),
        }


def write_batches(folder, size=BATCH):
    """Write the batches beside a program, a file for each."""
    os.mkdir(f"{folder}/batches")
    for number, batch in enumerate(make_batches(size)):
        np.savez(f"{folder}/batches/{number}.npz", **batch)


def write_records(folder, count=None):
    """Two files of (so many) random examples; returns their pattern."""
    layout = layouts.pretraining_layout(LENGTH, PREDICTIONS)
    paths = [str(folder / f"{number}.tfrecord") for number in range(2)]
    records = []
    for batch in make_batches():
        batch["token_boundary"] = batch["input_mask"]
        for row in range(BATCH):
            values = {f.name: batch[f.name][row] for f in layout}
            records.append(record_files.encode(layout, values))
    record_files.write(paths, records[:count])
    return str(folder / "*.tfrecord")


def export(folder, size=BATCH, **changes):
    """Export a step with batches; returns its folder."""
    settings = make_options(folder, train_batch_size=size, **changes)
    export_train_step.run(settings)
    write_batches(settings.output_dir, size)
    return settings.output_dir


def environment():
    """Variables for run_train_step: 8 devices, without this project."""
    own = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    flags = f"--xla_force_host_platform_device_count={EIGHT}"
    return {**own, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags}


def start_program(python, *arguments):
    """Run run_train_step; returns the finished process."""
    return subprocess.run(
        [python, str(RUNNER), "--matrix_size=64", *arguments],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )


def run_code(python, code):
    """Run a program of Python in the environment of run_train_step."""
    return subprocess.run(
        [python, "-c", code],
        env=environment(),
        capture_output=True,
        text=True,
    )


def run_program(python, *arguments):
    """What run_train_step prints."""
    finished = start_program(python, *arguments)
    assert finished.returncode == 0, finished.stderr
    return [json.loads(line) for line in finished.stdout.splitlines()]


def metrics(line):
    """The losses and accuracies of a line of the log."""
    return {k: v for k, v in line.items() if k not in run_log.NOT_METRICS}


def damaged_npz():
    """An npz file with damage in its compressed content."""
    stream = io.BytesIO()
    np.savez_compressed(stream, input_ids=np.arange(999))
    content = bytearray(stream.getvalue())
    content[200:240] = bytes(range(40))
    return bytes(content)


def load(path):
    """The arrays of an npz file."""
    with np.load(path) as stored:
        return dict(stored)
