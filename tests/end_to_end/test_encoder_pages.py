"""The commands of the pages about encoders, on tiny models."""

import json
import re
import shutil

import pytest

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


def test_embeddings(place, capsys):
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
