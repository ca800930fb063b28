"""The code and commands of docs/own_task.md."""

import json
import re
import sys

import pytest
import tensorflow as tf

from albert_tf.common import scores
from albert_tf.finetuning import registry
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.tasks.glue import specs
from tests import row_files
from tests.end_to_end.pages import call, commands, read

pytestmark = pytest.mark.slow

TASK, _ = re.findall(r"```python\n(.*?)```", read("own_task.md"), re.S)
ALL = commands("own_task.md")
COMMANDS = [command for command in ALL if "task_module" in command]
OF_TABLES = [command for command in ALL if "runs/mood" in command]
COMMON = re.search(r"--do_train.*", OF_TABLES[0])[0]
OTHERS = [command.replace("...", COMMON) for command in ALL if "..." in command]
HEADERS = ["title", "review", "mood"], ["id", "title", "review"]
MOODS = ("angry", "content", "neither")


@pytest.fixture
def place(tmp_path, small_config, tiny_vocab):
    """The head of the page is that of "own head" of tasks/contract.py."""
    (tmp_path / "my_task.py").write_text(TASK)
    (tmp_path / "albert_config.json").write_text(small_config.to_json())
    (tmp_path / "30k-clean.model").symlink_to(tiny_vocab)
    encoder = AlbertModel(small_config)
    (tmp_path / "pretrained").mkdir()
    tf.train.Checkpoint(model=encoder).write(
        str(tmp_path / "pretrained/model.ckpt-best")
    )
    reviews = tmp_path / "data/reviews"
    reviews.mkdir(parents=True)
    for split, count, header in (
        ("train", 24, HEADERS[0]),
        ("dev", 6, HEADERS[0]),
        ("test", 5, HEADERS[1]),
    ):
        rows = [
            {
                "id": str(100 + n),
                "title": f"The sea {n}",
                "review": "It rains. " * (n % 3),
                "mood": MOODS[n % 3],
            }
            for n in range(count)
        ]
        rows = [{name: row[name] for name in header} for row in rows]
        lines = ["\t".join(header), *("\t".join(r.values()) for r in rows)]
        (reviews / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    texts = [{"text": "It rains.", "text_pair": "We stay."}] * 2
    (tmp_path / "new_texts.jsonl").write_text("\n".join(map(json.dumps, texts)))
    return tmp_path


def test_a_task_is_short():
    assert len(TASK.splitlines()) < 40
    assert [len(COMMANDS), len(OF_TABLES), len(OTHERS)] == [4, 3, 4]
    assert all("--task_module=my_task" in command for command in COMMANDS)


def forget_module():
    """Remove what the user's module added, as in a new process."""
    sys.modules.pop("my_task", None)
    specs.TASKS.pop("reviews", None)
    registry.TASKS.pop("reviews", None)


def test_page(place, monkeypatch):
    monkeypatch.chdir(place)
    monkeypatch.syspath_prepend(place)
    for command in COMMANDS:
        try:
            call(command)
        finally:
            forget_module()
    table = (place / "runs/reviews/scores.md").read_text()
    assert table.startswith("| reviews | accuracy | loss |")
    labels = (place / "runs/reviews/submit_results.tsv").read_text()
    header, *predicted = [line.split("\t") for line in labels.splitlines()]
    assert header == ["index", "prediction"]
    assert len(predicted) == 5
    assert {mood for _, mood in predicted} <= set(MOODS)
    answers = row_files.read(place / "predictions.jsonl")
    assert [a["line"] for a in answers] == [1, 2]
    assert list(answers[0]["probabilities"]) == list(MOODS)
    assert answers[0]["probabilities"] == answers[1]["probabilities"]
    both = (place / "runs/reviews/both/eval_results.txt").read_text()
    assert both.startswith("accuracy = ")


def test_commands_of_tables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f'"Day {n}","It rains; {n}.",{MOODS[n % 2]}' for n in range(40)]
    lines = "\n".join(["title,review,mood", *rows]) + "\n"
    (tmp_path / "reviews.csv").write_text(lines)
    (tmp_path / "new.csv").write_text(lines)
    train, *others = OF_TABLES
    call(f"{train} --train_step=2")
    for command in others:
        call(command)
    card = (tmp_path / "runs/mood/run_card.md").read_text()
    assert "## Labels of held_out" in card
    answers = (tmp_path / "moods.jsonl").read_text().splitlines()
    assert len(answers) == 40
    assert (tmp_path / "served/mood/1/saved_model.pb").is_file()


def test_commands_of_other_tables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    topics = "rain", "", "rain,sea"
    (tmp_path / "posts.csv").write_text(
        "text,topics\n"
        + "".join(f'Day {n}: it rains,"{topics[n % 3]}"\n' for n in range(40))
    )
    (tmp_path / "houses.csv").write_text(
        "description,price\n"
        + "".join(f"House {n},{n % 7 * 50_000}\n" for n in range(40))
    )
    (tmp_path / "searches.csv").write_text(
        "query,text,relevance\n"
        + "".join(f"Day {n // 4}?,Day {n}.,{n % 3}\n" for n in range(40))
    )
    (tmp_path / "letters.csv").write_text(
        "text,sender\n"
        + "".join(
            f'"Day {n}: {"it rains; " * 40}",{MOODS[n % 2]}\n'
            for n in range(40)
        )
    )
    for command in OTHERS:
        call(f"{command} --train_step=2")
    card = (tmp_path / "runs/topics/run_card.md").read_text()
    assert "| rain |" in card
    (summary,) = scores.read(str(tmp_path / "runs/price")).runs
    assert summary.scores["mae"] > 1000
    options = (tmp_path / "runs/sender/run_options.json").read_text()
    assert json.loads(options)["options"]["windows"] == "mean"
    (summary,) = scores.read(str(tmp_path / "runs/search")).runs
    assert 0 < summary.scores["ndcg"] <= 1
