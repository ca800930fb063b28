"""The commands of the pages about encoders, on tiny models."""

import json
import re
import shutil
import sys
import types

import numpy as np
import pytest
import tensorflow as tf

from tests import row_files
from tests.conftest import ROOT
from tests.end_to_end.pages import (
    OWN_TEXT,
    TEXTS,
    commands,
    place,
    read,
    run,
)

pytestmark = pytest.mark.slow
place = pytest.fixture(place)


class FlatIndex:
    """What faiss.IndexFlatIP does, which is not installed."""

    def __init__(self, width):
        self.rows = np.zeros([0, width], np.float32)

    def add(self, rows):
        self.rows = np.concatenate([self.rows, rows])

    def search(self, queries, count):
        products = queries @ self.rows.T
        numbers = np.argsort(-products, 1)[:, :count]
        return np.take_along_axis(products, numbers, 1), numbers


class Ranking(tf.Module):
    """Asked as an export of a ranking is: longer texts come first."""

    @tf.function(
        input_signature=[
            tf.TensorSpec([None], tf.string, name)
            for name in ("text", "text_pair")
        ]
    )
    def __call__(self, text, text_pair):
        return {"score": tf.cast(tf.strings.length(text_pair), tf.float64)}


def run_retrieval(monkeypatch, capsys):
    """The code of docs/retrieval.md, on an export of vectors."""
    module = Ranking()
    tf.saved_model.save(module, "served/search/1", module.__call__)
    faiss = types.SimpleNamespace(IndexFlatIP=FlatIndex)
    monkeypatch.setitem(sys.modules, "faiss", faiss)
    (code,) = re.findall(r"```python\n(.*?)```", read("retrieval.md"), re.S)
    capsys.readouterr()
    exec(code, {})
    lines = capsys.readouterr().out.splitlines()
    found = [line.split(" ", 1)[1] for line in lines]
    assert sorted(found) == sorted(TEXTS)
    lengths = [*map(len, found)]
    assert lengths == sorted(lengths, reverse=True)


def test_embeddings(place, monkeypatch, capsys):
    train, export, of_encoder, folder, ask = commands("embeddings.md")
    run(train, train_step=2)
    run(export)
    run(ask)
    assert len(row_files.read(place / "vectors.jsonl")[0]["embedding"]) > 1
    code = read("embeddings.md").split("```python\n")[1].split("```")[0]
    capsys.readouterr()
    exec(code, {})
    found = [x.split(" ", 1) for x in capsys.readouterr().out.splitlines()]
    assert sorted(text for _, text in found) == sorted(TEXTS)
    cosines = [float(cosine) for cosine, _ in found]
    assert cosines == sorted(cosines, reverse=True)
    run_retrieval(monkeypatch, capsys)
    run(folder)
    assert (place / "hub/vectors/modules.json").is_file()
    shutil.rmtree(place / "served")
    run(of_encoder)


def test_distillation(place):
    first = commands("distillation.md")[0]
    first = re.sub(r"--vocab_file=\S+", "--spm_model_file=x", first)
    first = first.replace("--flagfile=configs", f"--flagfile={ROOT}/configs")
    run(first, train_step=2)
    assert (place / "runs/student/scores.md").is_file()


def test_depth(place):
    train, cut, adaptive = commands("depth.md")
    shutil.copytree(OWN_TEXT / "glue/SST-2", place / "glue/SST-2")
    train = train.replace("--vocab_file=", "--spm_model_file=")
    run(train, train_step=2, max_seq_length=16)
    run(cut)
    run(adaptive)
    report = json.loads((place / "served/sst2/1/export.json").read_text())
    kinds = [(point["kind"], point["value"]) for point in report["depths"]]
    depths = [("depth", n) for n in (2, 4, 6)]
    assert kinds == [*depths, ("patience", 1), ("patience", 2)]
