"""Finetuning on real tasks: data, options, baselines, resumption."""

import json

import pytest

from albert_tf.text import tokenization
from lab.measure import real_tasks
from tests.conftest import refused


def make_plan(**values):
    given = {
        "data_dir": "d",
        "output_dir": "o",
        "init_checkpoint": "p",
        "config_file": "c.json",
        "vocabulary": tokenization.VocabularyOptions("8k.model"),
        **values,
    }
    return real_tasks.Plan(**given)


def test_drawn_rows_keep_header_and_order():
    rows = [f"row {n}" for n in range(50)]
    text = "\n".join(["head", *rows]) + "\n"
    drawn = real_tasks.draw_rows(text, 10, header=True).splitlines()
    assert drawn[0] == "head"
    assert len(drawn) == 11
    assert drawn[1:] == [row for row in rows if row in drawn]
    assert drawn[1:] != rows[:10]
    assert real_tasks.draw_rows(text, 10, header=True).splitlines() == drawn
    assert real_tasks.draw_rows(text, 0, header=True) == text
    assert len(real_tasks.draw_rows(text, 7, header=False).splitlines()) == 7


def test_drawn_paragraphs_come_from_all_articles():
    paragraphs = [{"context": str(n), "qas": ["x", "y"]} for n in range(20)]
    data = [{"title": t, "paragraphs": paragraphs} for t in "abcd"]
    content = {"version": "v2.0", "data": data}
    drawn = real_tasks.draw_squad(content, 80)
    assert drawn["version"] == "v2.0"
    assert [a["title"] for a in drawn["data"]] == list("abcd")
    assert sum(len(a["paragraphs"]) for a in drawn["data"]) == 40
    assert real_tasks.draw_squad(content, 0) == content


def test_options_are_those_of_the_task_unless_they_are_given(tmp_path):
    def values(start, **changes):
        plan = make_plan(changes=changes)
        return real_tasks._values(plan, "mrpc", tmp_path, (start, 1))

    random, pretrained = map(values, ("random", "pretrained"))
    assert random["learning_rate"] == 3e-4
    assert random["num_train_epochs"] == 4.0
    assert random["spm_model_file"] == "8k.model"
    assert not random.keys() & {"encoder_learning_rate", "init_checkpoint"}
    assert pretrained["learning_rate"] == 1e-3
    assert pretrained["encoder_learning_rate"] == 1e-4
    assert pretrained["init_checkpoint"] == "p"
    words = tokenization.VocabularyOptions(vocab_file="vocab.txt")
    found = real_tasks._values(
        make_plan(vocabulary=words), "rte", tmp_path, ("random", 1)
    )
    assert found["vocab_file"] == "vocab.txt"
    assert "spm_model_file" not in found
    changes = {"learning_rate": 1e-2, "pooling": "cls"}
    assert values("random", **changes) == {**random, **changes}
    other = {"rte": {"seed": 1}, "mrpc": {"pooling": "mean"}}
    mean = {**random, **changes, "pooling": "mean"}
    assert values("random", **changes, **other) == mean


@pytest.fixture
def start(tmp_path, shared_dir, monkeypatch):
    """Starts runs that only write down what they are."""
    folder = tmp_path / "pretrained"
    folder.mkdir()
    (folder / "albert_config.json").write_text("{}")
    (folder / "model.ckpt-best.index").write_text("weights")
    done = []

    def finetune(name, values, folder):
        done.append((name, values["seed"], "init_checkpoint" in values))
        if len(done) == 4 and name == "race":
            raise KeyboardInterrupt
        rest = {"steps": 1}
        return {"metric": "accuracy", "value": len(done) / 10, **rest}

    monkeypatch.setattr(real_tasks, "_finetune", finetune)

    def run(**changes):
        given = {
            "data_dir": str(shared_dir / "data"),
            "output_dir": str(tmp_path),
            "init_checkpoint": str(folder),
            "config_file": str(folder / "albert_config.json"),
            "vocabulary": tokenization.VocabularyOptions(
                str(shared_dir / "data/vocab/30k-clean.model")
            ),
            "tasks": ["cola", "race"],
            "seeds": 1,
            "examples": 20,
            **changes,
        }
        count = len(done)
        plan = make_plan(**given)
        results = real_tasks.finish(plan, real_tasks.prepare(plan))
        return results, done[count:]

    return run


def test_finished_runs_are_not_done_again(start, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        start()
    results, again = start()
    assert again == [("race", 1, True)]
    assert [r["value"] for r in results] == [0.1, 0.2, 0.3, 0.5]
    assert [r["start"] for r in results] == ["random", "pretrained"] * 2
    assert results[0]["baseline"] == 0
    assert 0.2 < results[2]["baseline"] < 0.35
    lines = (tmp_path / "results.jsonl").read_text().splitlines()
    assert list(map(json.loads, lines)) == results
    # Other weights in the same place; the same ones in another place.
    folder = tmp_path / "pretrained"
    (folder / "model.ckpt-best.index").write_text("others")
    assert start()[1] == [("cola", 1, True), ("race", 1, True)]
    moved = folder.rename(tmp_path / "moved")
    config = str(moved / "albert_config.json")
    assert not start(init_checkpoint=str(moved), config_file=config)[1]


def test_runs_with_other_examples_or_data_are_others(start, tmp_path):
    def write(name, label):
        folder = tmp_path / name / "glue/CoLA"
        folder.mkdir(parents=True)
        for split in ("train", "dev"):
            rows = f"a\t{label}\t\tMara sleeps.\n" * 3
            (folder / f"{split}.tsv").write_text(rows)
        return {"tasks": ["cola"], "data_dir": str(tmp_path / name)}

    one, other = write("one", 0), write("other", 1)
    assert start(**one)[1]
    assert start(**one, examples=2)[1][0] == ("cola", 1, False)
    assert not start(**one)[1]
    assert start(**other)[1]


def test_a_missing_file_shows_before_any_run(start, tmp_path):
    with refused("train.tsv.xz` is not a file"):
        start(data_dir="none")
    (tmp_path / "pretrained/model.ckpt-best.index").unlink()
    with refused("which checkpoint is meant"):
        start()
