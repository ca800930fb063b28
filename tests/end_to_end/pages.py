"""The commands of pages, and a folder to run them in."""

import importlib
import re
import shlex
import shutil

import tensorflow as tf

from albert_tf.common import options
from albert_tf.model.network.encoder import AlbertModel
from tests.albert_tf.finetuning import tagged
from tests.conftest import ROOT, tiny_config

OWN_TEXT = ROOT / "tests" / "fixtures" / "own_text"
NAMED = r"--(albert_config_file|init_checkpoint|spm_model_file)=\S+"
TEXTS = [f"{who} {what}." for who in ("Mara", "Ivo") for what in ("ran", "sat")]


def read(page):
    return (ROOT / "docs" / page).read_text()


def commands(page):
    return [
        command.replace("\\\n", " ").strip()
        for block in re.findall(r"```\n(python -m .*?)```", read(page), re.S)
        for command in re.split(r"\n(?=python)", block)
    ]


def call(command):
    """Run a command as it is, in this process; return its options."""
    words = shlex.split(command)
    assert words[:2] == ["python", "-m"]
    module = importlib.import_module(words[2])
    (name,) = re.findall(
        r"run_script\(run, (\w+)\)", (ROOT / module.__file__).read_text()
    )
    settings = options.parse(getattr(module, name), words[3:])
    module.run(settings)
    return settings


def place(tmp_path, tiny_vocab, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = tiny_config(max_position_embeddings=128)
    for name in ("encoder", "all-MiniLM-L6-v2"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "albert_config.json").write_text(config.to_json())
        checkpoint = tf.train.Checkpoint(model=AlbertModel(config))
        checkpoint.write(str(folder / "model.ckpt-best"))
        shutil.copy(tiny_vocab, folder / "spm.model")
    for split in ("train", "dev"):
        path = tagged.write(tmp_path / f"{split}.txt")
        shutil.move(path, tmp_path / f"{split}.conll")
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n")
    rows = [
        f"{a}\t{b}\t{n}"
        for n, (a, b) in enumerate(zip(TEXTS, TEXTS[::-1], strict=True))
    ]
    table = "\n".join(["text\ttext_pair\tscore", *rows]) + "\n"
    for name in ("train.tsv", "dev.tsv", "sts_dev.tsv"):
        (tmp_path / name).write_text(table)
    (tmp_path / "sentences.txt").write_text("\n".join(TEXTS * 20) + "\n")
    return tmp_path


def run(command, **values):
    """Run a command with the encoder of `place`, and these options."""
    given = {
        "albert_config_file": "encoder/albert_config.json",
        "init_checkpoint": "encoder",
        "spm_model_file": "encoder/spm.model",
    }
    short = re.sub(NAMED, lambda m: f"--{m[1]}={given[m[1]]}", command)
    added = " ".join(f"--{name}={value}" for name, value in values.items())
    call(f"{short} {added}")
