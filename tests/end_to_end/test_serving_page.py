"""The commands, code and statements of docs/serving.md, on tiny models."""

import contextlib
import dataclasses
import functools
import io
import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import serve
from albert_tf.serving.server import models
from tests import export_options, row_files
from tests.albert_tf.serving.server import http_server
from tests.conftest import ROOT
from tests.end_to_end.pages import call, commands, read

pytestmark = pytest.mark.slow

PAGE = read("serving.md")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", PAGE, re.S)
SHELL = [text.replace("\\\n", " ") for kind, text in BLOCKS if not kind]
COMMANDS = [c for c in commands("serving.md") if "-m albert_tf" in c]
README = (ROOT / "README.md").read_text()
(PYTHON,) = re.findall(
    r"```python\n(.*?)```",
    README.split("\n## Serve\n")[1].split("\n## ")[0],
    re.S,
)
ANSWER, LITERT, ONNX = (text for kind, text in BLOCKS if kind == "python")
(REQUEST,) = (text for kind, text in BLOCKS if kind == "json")


@pytest.fixture(scope="module")
def place(tmp_path_factory, small_config, tiny_vocab):
    place = tmp_path_factory.mktemp("place")
    config = dataclasses.replace(
        small_config, num_hidden_layers=1, num_hidden_groups=1
    )
    runs = place / "runs"
    given = {"max_seq_length": 32, "data_dir": "glue"}
    export_options.make_run(runs / "rte", config, tiny_vocab, "rte", **given)
    pretrained = runs / "pretrained"
    export_options.make_pretrained(pretrained, config, tiny_vocab, 32)
    shutil.copytree(place / "runs" / "pretrained", place / "google")
    shutil.copy(tiny_vocab, place / "google" / "30k-clean.model")
    (place / "pairs.jsonl").write_text(REQUEST * 3)
    (place / "texts.txt").write_text("It [MASK].\nNo gap.\n")
    (place / "glue" / "RTE").mkdir(parents=True)
    (place / "glue" / "RTE" / "train.tsv").write_text(
        "index\tsentence1\tsentence2\tlabel\n"
        "0\tMara ran.\tShe moved.\tentailment\n"
    )
    with contextlib.chdir(place):
        for command in COMMANDS:
            if "albert_tf.export" in command:
                run(command)
    return place


def run(command):
    before, _, file = command.partition(" < ")
    said = io.TextIOWrapper(io.BytesIO())
    with contextlib.ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", said)
        if file:
            file = stack.enter_context(open(file.strip()))
            patch.setattr(sys, "stdin", file)
        call(before)
    return said.buffer.getvalue().decode()


@pytest.fixture(scope="module")
def load(place):
    return functools.cache(
        lambda name: tf.saved_model.load(str(place / "served" / name / "1"))
    )


@pytest.fixture
def here(place, monkeypatch):
    monkeypatch.chdir(place)
    return place


def find(part):
    (command,) = (text for text in COMMANDS if part in text)
    return command


def test_exports_offer_what_the_tables_say(load):
    rows = re.findall(r"^\| (.+) \| `(\w+)` \| (.+) \| (.+) \|$", PAGE, re.M)
    kinds = {
        "rte": ("all but RACE", "classifier"),
        "pretrained": ("all but RACE", "pretrained"),
        "encoder": ("all but RACE", "encoder"),
    }
    for name, words in kinds.items():
        loaded = load(name)
        wanted = {
            signature
            for of, signature, _, _ in rows
            if any(word in of for word in words)
        }
        assert set(loaded.signatures) == wanted
        for signature, function in loaded.signatures.items():
            told = " ".join(
                inputs + outputs
                for of, name, inputs, outputs in rows
                if name in (signature, "tokens")
                and any(word in of for word in words)
            )
            arguments = function.structured_input_signature[1]
            for tensor in {*arguments, *function.structured_outputs}:
                assert f"`{tensor}`" in told, (signature, tensor)


def test_python(here):
    names = {}
    exec(PYTHON, names)
    answer = names["answer"]
    assert answer["label"].numpy()[0] in (b"entailment", b"not_entailment")
    assert answer["probabilities"].shape == [1, 2]
    assert answer["truncated"].numpy().tolist() == [False]


def test_text_without_tensorflow(here, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    names = {}
    exec(ANSWER, names)
    assert names["found"]["label"] in ("entailment", "not_entailment")
    (command,) = (text for text in SHELL if "answer.py" in text)
    command = command.replace("python", sys.executable, 1)
    subprocess.run(["bash", "-c", command], check=True, timeout=300)
    run(find("--input_file=pairs.jsonl"))
    files = [here / name for name in ("rte.jsonl", "answers.jsonl")]
    found, wanted = map(row_files.read, files)
    for row, expected in zip(found, wanted, strict=True):
        chances = row.pop("probabilities"), expected.pop("probabilities")
        np.testing.assert_allclose(*chances, atol=1e-4, rtol=0)
        assert row == expected


@pytest.mark.parametrize("snippet", [LITERT, ONNX], ids=["litert", "onnx"])
def test_other_runtimes(here, load, snippet):
    ids = np.array([[2, 20, 21, 3, 0]], np.int32)
    mask = (ids > 0).astype(np.int32)
    names = {"ids": ids, "mask": mask, "segments": np.zeros_like(ids)}
    # The last line of one is an expression.
    *before, last = snippet.strip().split("\n")
    value = last.partition(" = ")[2] or last
    exec("\n".join(before), names)
    given = eval(value, names)
    given = given[0] if isinstance(given, list) else given
    expected = load("rte").signatures["tokens"](
        input_ids=tf.constant(ids),
        input_mask=tf.constant(mask),
        segment_ids=tf.zeros_like(ids),
    )["probabilities"]
    far = 0.1 if snippet is LITERT else 1e-4  # The page's LiteRT is 8-bit.
    np.testing.assert_allclose(given, expected, atol=far, rtol=0)


def test_predict_from_standard_input(here):
    lines = run(find("--signature=fill_mask")).splitlines()
    answers = [json.loads(line) for line in lines]
    assert [answer["line"] for answer in answers] == [1, 2]
    assert [len(answer["pieces"]) for answer in answers] == [1, 0]


def test_masks_that_are_cut_off(load):
    fill = load("pretrained").signatures["fill_mask"]
    cut = fill(text=tf.constant(["rain " * 40 + "[MASK]"]))
    assert cut["pieces"].shape == [1, 0, 5]
    assert cut["truncated"].numpy().tolist() == [True]
    assert fill(text=tf.constant([], tf.string))["pieces"].shape == [0, 0, 5]


def test_server_answers_the_calls_of_the_page(here):
    """Those to it, and those in the forms of TensorFlow Serving."""
    given = re.findall(r"--saved_model=(\S+)", find("albert_tf.serve"))
    options = serve.ServeOptions(saved_model=",".join(given))
    served = [
        models.load(name, version, folder)
        for name, (version, folder) in options.folders().items()
    ]
    assert [model.name for model in served] == ["rte", "pretrained"]
    calls = [
        re.fullmatch(r"curl http://\S+?:8501(\S+) -d '(.*)'\s*", text, re.S)
        for text in SHELL
        if text.startswith("curl")
    ]
    with http_server.running(http_server.make_app(*served)) as (_, port):
        own, forms = (
            http_server.ask(port, path, json.loads(body))
            for path, body in (call.groups() for call in calls)
        )
    assert own[0] == forms[0] == 200
    assert own[1].keys() == forms[1]["outputs"].keys()
    assert forms[1]["outputs"]["label"] == [own[1]["label"]]
