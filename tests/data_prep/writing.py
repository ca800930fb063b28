"""What tests of the writer share: a small corpus, and runs on it."""

import pathlib
import random

import numpy as np
import pytest

from albert_tf.data import layouts
from data_prep import create_pretraining_data
from tests.conftest import changed

WORDS = "it rains we stay at home and read old books by the fire".split()


def write_corpus(path, seed, num_documents=12):
    rng = random.Random(seed)
    with open(path, "w") as stream:
        for _ in range(num_documents):
            for _ in range(rng.randint(2, 10)):
                words = rng.choices(WORDS, k=rng.randint(3, 9))
                stream.write(" ".join(words) + " .\n")
            stream.write("\n")


def markers(folder, text, objective="discourse"):
    """Write a file of discourse markers, and return options."""
    path = folder / "markers.txt"
    path.write_text(text)
    return {"sentence_objective": objective, "markers_file": str(path)}


def run(wanted, **changes):
    wanted = changed(wanted, **changes)
    create_pretraining_data.run(wanted)
    return wanted


def read_arrays(options):
    import tensorflow as tf

    from albert_tf.data import parsing

    paths = options.output_file.split(",")
    batch = next(iter(tf.data.TFRecordDataset(paths).batch(100_000)))
    parsed = parsing.parse(options.layout, batch)
    return {name: value.numpy() for name, value in parsed.items()}


def content(folder):
    return {
        path.name: path.read_bytes()
        for path in pathlib.Path(folder).iterdir()
        if path.suffix != ".md"
    }


def in_folder(base, folder, **changes):
    folder.mkdir()
    output = ",".join(str(folder / f"{i}.tfrecord") for i in range(3))
    run(base, output_file=output, **changes)
    files = content(folder)
    # Its options differ.
    del files["0.tfrecord.manifest.json"]
    return files


class Killed(BaseException):
    """Stands for a signal that cannot be caught."""


def interrupt(options, monkeypatch, owner, name, **changes):
    """Run until a function is called, and end there as if killed."""

    def die(*_):
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(owner, name, die)
        run(options, **changes)


def read_folder(path):
    return {p.name: p.read_bytes() for p in pathlib.Path(path).iterdir()}


def read_file(path, length, predictions, compression=""):
    import tensorflow as tf

    from albert_tf.data import parsing

    dataset = tf.data.TFRecordDataset(str(path), compression_type=compression)
    batch = next(iter(dataset.batch(100_000)))
    layout = layouts.pretraining_layout(length, predictions)
    parsed = parsing.parse(layout, batch)
    return {name: value.numpy() for name, value in parsed.items()}


def restore(arrays):
    """The sequences before masking."""
    ids = arrays["input_ids"].copy()
    rows, columns = np.nonzero(arrays["masked_lm_weights"])
    positions = arrays["masked_lm_positions"][rows, columns]
    ids[rows, positions] = arrays["masked_lm_ids"][rows, columns]
    return ids
