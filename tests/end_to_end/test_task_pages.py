"""The commands of the pages about tasks, on tiny models."""

import json
import re
import shutil

import pytest

from tests import row_files
from tests.end_to_end.pages import (
    OWN_TEXT,
    TEXTS,
    call,
    commands,
    place,
    read,
    run,
)

pytestmark = pytest.mark.slow
place = pytest.fixture(place)


def spans(place, command, name):
    run(command, output_file=name)
    return [
        [(s["start"], s["end"], s["label"]) for s in row["spans"]]
        for row in row_files.read(place / name)
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
    call(back)
    assert (place / "served/names/2/saved_model.pb").is_file()


def answers(place, command):
    run(command, output_file="answers.jsonl", overwrite="true")
    return row_files.read(place / "answers.jsonl")


def test_glue(place):
    train, ask = commands("finetuning.md")
    shutil.copytree(OWN_TEXT / "glue", place / "glue_data")
    pair = re.search(r"`(\{.*?\})`", read("finetuning.md"), re.S)[1]
    pair = pair.replace("\n", " ")
    (place / "pairs.jsonl").write_text(f"{pair}\n")
    run(train, train_step=2)
    (answer,) = answers(place, ask)
    assert answer["prediction"] in ("entailment", "not_entailment")


def test_squad(place):
    train, ask, export, ask_saved = commands("squad.md")
    for split in ("train", "dev"):
        path = OWN_TEXT / "squad" / f"{split}-v2.0.json"
        shutil.copy(path, place)
    question = re.search(r"`(\{.*?\})`", read("squad.md"))[1]
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
    line = re.search(r"```\n(\{.*?\})\n```", read("race.md"))[1]
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
