"""The commands of the pages about tasks, on tiny models."""

import contextlib
import dataclasses
import io
import json
import re
import shutil

import pytest
import tensorflow as tf

from albert_tf.model.network.encoder import AlbertModel
from tests.albert_tf.finetuning import tagged
from tests.conftest import ROOT
from tests.end_to_end import test_checkpoint_page

pytestmark = pytest.mark.slow

OWN_TEXT = ROOT / "tests" / "fixtures" / "own_text"
NAMED = r"--(albert_config_file|init_checkpoint|spm_model_file)=\S+"
TEXTS = [f"{who} {what}." for who in ("Mara", "Ivo") for what in ("ran", "sat")]


def commands(page):
    text = (ROOT / "docs" / page).read_text()
    return [
        command.replace("\\\n", " ").strip()
        for block in re.findall(r"```\n(python -m .*?)```", text, re.S)
        for command in re.split(r"\n(?=python)", block)
    ]


@pytest.fixture
def place(tmp_path, small_config, tiny_vocab, monkeypatch):
    """A folder with the readers' files and an encoder."""
    monkeypatch.chdir(tmp_path)
    config = dataclasses.replace(small_config, max_position_embeddings=128)
    for name in ("encoder", "all-MiniLM-L6-v2"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "albert_config.json").write_text(config.to_json())
        checkpoint = tf.train.Checkpoint(model=AlbertModel(config))
        checkpoint.write(str(folder / "model.ckpt-best"))
        shutil.copy(tiny_vocab, folder / "spm.model")
    for split in ("train", "dev"):
        path = tagged.write(tmp_path / f"{split}.txt", kind="columns")
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
    test_checkpoint_page.run(f"{short} {added}")


def spans(place, command, name):
    run(command, output_file=name)
    lines = (place / name).read_text().splitlines()
    return [
        [(s["start"], s["end"], s["label"]) for s in json.loads(line)["spans"]]
        for line in lines
    ]


def test_tagging(place):
    train, ask, export, ask_saved, serve, convert, back = commands("tagging.md")
    assert "albert_tf.serve" in serve  # See test_serving_page.py.
    run(train, train_step=2)
    of_run = spans(place, ask, "of_run.jsonl")
    run(export)
    assert spans(place, ask_saved, "saved.jsonl") == of_run
    assert len(of_run) == len(TEXTS)
    run(convert)
    test_checkpoint_page.run(back)
    assert (place / "served/names/2/saved_model.pb").is_file()


def answers(place, command):
    """Ask, and return what each answer holds but for its key."""
    run(command, output_file="answers.jsonl", overwrite="true")
    lines = (place / "answers.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_glue(place):
    train, ask = commands("finetuning.md")
    shutil.copytree(OWN_TEXT / "glue", place / "glue_data")
    page = (ROOT / "docs" / "finetuning.md").read_text()
    pair = re.search(r"`(\{.*?\})`", page, re.S)[1].replace("\n", " ")
    (place / "pairs.jsonl").write_text(f"{pair}\n")
    run(train, train_step=2)
    (answer,) = answers(place, ask)
    assert answer["prediction"] in ("entailment", "not_entailment")


def test_squad(place):
    train, ask, export, ask_saved = commands("squad.md")
    for split in ("train", "dev"):
        path = OWN_TEXT / "squad" / f"{split}-v2.0.json"
        shutil.copy(path, place)
    page = (ROOT / "docs" / "squad.md").read_text()
    question = re.search(r"`(\{.*?\})`", page)[1]
    (place / "questions.jsonl").write_text(f"{question}\n")
    run(train, train_step=2, max_seq_length=64, max_query_length=16)
    (of_run,) = answers(place, ask)
    run(export)
    (saved,) = answers(place, ask_saved)
    assert of_run["prediction"] == saved["answer"]
    best = [answer["text"] for answer in of_run["n_best"]]
    assert best and best == [text for text in saved["n_best_answers"] if text]
    assert best[0] in json.loads(question)["context"]


def test_race(place):
    train, ask, export, ask_saved = commands("race.md")
    page = (ROOT / "docs" / "race.md").read_text()
    line = re.search(r"```\n(\{.*?\})\n```", page)[1]
    for name in ("RACE/train/all.txt", "RACE/dev/all.txt", "articles.jsonl"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(f"{line}\n")
    run(train, train_step=2, max_seq_length=64, max_qa_length=16)
    (of_run,) = answers(place, ask)
    run(export)
    article = json.loads(line)
    question = {
        "article": article["article"],
        "question": article["questions"][0],
        "options": article["options"][0],
    }
    (place / "questions.jsonl").write_text(json.dumps(question) + "\n")
    (saved,) = answers(place, ask_saved)
    assert of_run["prediction"] == saved["label"] in tuple("ABCD")


def test_embeddings(place):
    train, export, of_encoder, folder, ask = commands("embeddings.md")
    run(train, train_step=2)
    run(export)
    run(ask)
    lines = (place / "vectors.jsonl").read_text().splitlines()
    assert len(json.loads(lines[0])["embedding"]) > 1
    page = (ROOT / "docs" / "embeddings.md").read_text()
    nearest = re.findall(r"```python\n(.*?)```", page, re.S)[0]
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(nearest, {})
    cosines = [
        float(line.split()[0]) for line in output.getvalue().splitlines()
    ]
    assert cosines == sorted(cosines, reverse=True)
    assert len(cosines) == len(TEXTS)
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
