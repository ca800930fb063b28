"""The table of lab/trials/real_tasks.py: data, baselines, resumption."""

import dataclasses
import json

import pytest

from albert_tf.common import errors, options
from lab.trials import real_tasks


def make_options(**values):
    values = {"data_dir": "d", "output_dir": "o", **values}
    return options.from_dict(real_tasks.ToolOptions, values)


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
    assert real_tasks.draw_rows(text, 99, header=False) == text


def test_drawn_paragraphs_come_from_all_articles():
    data = [
        {
            "title": f"article {a}",
            "paragraphs": [
                {
                    "context": f"{a} {p}",
                    "qas": [{"id": f"{a}{p}{q}"} for q in "xy"],
                }
                for p in range(20)
            ],
        }
        for a in range(4)
    ]
    drawn = real_tasks.draw_squad({"version": "v2.0", "data": data}, 80)
    assert drawn["version"] == "v2.0"
    assert [a["title"] for a in drawn["data"]] == [a["title"] for a in data]
    assert sum(len(a["paragraphs"]) for a in drawn["data"]) == 40
    whole = real_tasks.draw_squad({"version": "v2.0", "data": data}, 0)
    assert whole["data"] == data


@pytest.mark.parametrize(
    "values, message",
    [
        ({"tasks": "cola,rtf"}, "`tasks=cola,rtf` has 'rtf'"),
        ({"seeds": 0}, "seeds=0"),
        ({"budget": "race"}, "--budget=race: 'race' is not"),
        ({"budget": "race=1,x=2"}, "'x=2' is not a known task"),
        ({"epochs": "rte=0"}, "--epochs=rte=0: 'rte=0' is not"),
    ],
)
def test_options_that_do_not_fit_are_refused(values, message):
    with pytest.raises(errors.UserError, match=message):
        make_options(**values)


def test_vocabulary_and_rates_of_the_runs(tmp_path):
    given = {"init_checkpoint": "p", "learning_rate": 1e-4}
    more = {"spm_model_file": "8k.model", "random_learning_rate": 3e-4}
    settings = make_options(**given)
    chosen = make_options(**given, **more)
    found = [
        real_tasks._values(given, "rte", tmp_path, (start, 1))
        for given in (settings, chosen)
        for start in ("random", "pretrained")
    ]
    rates = [values["learning_rate"] for values in found]
    assert rates == [1e-4, 1e-4, 3e-4, 1e-4]
    vocabularies = [values["spm_model_file"] for values in found]
    assert vocabularies == ["d/vocab/30k-clean.model"] * 2 + ["8k.model"] * 2


def test_what_is_chosen_reaches_the_runs_that_can_use_it(tmp_path):
    settings = make_options()
    chosen = make_options(
        optimizer="lamb",
        bias_correction=False,
        pooling="pair",
        epochs="cola=7",
    )
    plain, other, squad = (
        real_tasks._values(given, name, tmp_path, ("random", 1))
        for given, name in (
            (settings, "cola"),
            (chosen, "cola"),
            (chosen, "squad"),
        )
    )
    assert (plain["optimizer"], plain["bias_correction"]) == ("adamw", True)
    changes = {"optimizer": "lamb", "bias_correction": False}
    changes_of_cola = {"pooling": "pair", "num_train_epochs": 7.0}
    assert other == {**plain, **changes, **changes_of_cola}
    assert squad.items() >= changes.items()
    assert "pooling" not in squad


def test_rates_are_those_of_the_task_unless_they_are_given(
    tmp_path, monkeypatch
):
    recipe = dataclasses.replace(
        real_tasks.RECIPES["rte"],
        random=real_tasks.Rates(2e-3),
        pretrained=real_tasks.Rates(3e-3, 1e-4),
    )
    monkeypatch.setitem(real_tasks.RECIPES, "rte", recipe)

    def rates(**given):
        settings = make_options(init_checkpoint="p", **given)
        found = []
        for start in ("random", "pretrained"):
            values = real_tasks._values(settings, "rte", tmp_path, (start, 1))
            found += values["learning_rate"], values["encoder_learning_rate"]
        return found

    assert rates() == [2e-3, None, 3e-3, 1e-4]
    assert rates(learning_rate=1e-2) == [1e-2, None, 1e-2, None]
    assert rates(random_learning_rate=1e-2) == [1e-2, None, 3e-3, 1e-4]
    assert rates(encoder_learning_rate=0) == [2e-3, None, 3e-3, 0]


def test_data_are_prepared_before_any_run(tmp_path, shared_dir):
    settings = make_options(
        data_dir=str(shared_dir / "data"),
        output_dir=str(tmp_path),
        tasks="cola,rte",
        budget="cola=20",
    )
    real_tasks.prepare(settings)
    rows = (tmp_path / "data/cola_20/CoLA/train.tsv").read_text().splitlines()
    assert len(rows) == 20
    values = real_tasks._values(
        settings, "cola", tmp_path / "data/cola_20", ("random", 1)
    )
    assert len(real_tasks._examples(values, "train")) == 20
    missing = dataclasses.replace(settings, data_dir="none", budget="cola=30")
    with pytest.raises(errors.UserError, match="--data_dir has no train.tsv"):
        real_tasks.prepare(missing)


def test_table_by_hand():
    def result(task, start, value, seconds):
        return {
            "task": task,
            "start": start,
            "value": value,
            "metric": "f1" if task == "squad" else "accuracy",
            "baseline": 50.0 if task == "squad" else 0.5,
            "train_examples": 1200,
            "steps": 75,
            "seconds": seconds,
        }

    table = real_tasks.to_markdown(
        [
            result("rte", "random", 0.5, 10.0),
            result("rte", "random", 0.6, 20.0),
            result("rte", "pretrained", 0.7, 90.0),
            result("squad", "random", 51.0, 40.0),
        ]
    )
    assert table.splitlines()[2:] == [
        "| RTE | accuracy | 50.0 | 55.0 ± 7.1 | 70.0 ± 0.0 | 1,200 | 75 | 20 |",
        "| SQuAD 2.0 | f1 | 50.0 | 51.0 ± 0.0 |  | 1,200 | 75 | 40 |",
    ]


@pytest.fixture
def pretrained(tmp_path):
    """A folder with what is hashed of a pretrained model."""
    folder = tmp_path / "pretrained"
    folder.mkdir()
    (folder / "albert_config.json").write_text("{}")
    (folder / "model.ckpt-best.index").write_text("weights")
    return folder


def test_finished_runs_are_not_done_again(
    tmp_path, monkeypatch, shared_dir, pretrained
):
    done = []

    def finetune(name, values, folder):
        done.append((name, values["seed"], "init_checkpoint" in values))
        if len(done) == 4:
            raise KeyboardInterrupt
        return {
            "metric": "accuracy",
            "value": 0.5,
            "train_examples": 20,
            "steps": 1,
            "seconds": 1.0,
        }

    monkeypatch.setattr(real_tasks, "_finetune", finetune)
    settings = make_options(
        data_dir=str(shared_dir / "data"),
        output_dir=str(tmp_path),
        init_checkpoint=str(pretrained),
        tasks="cola,race",
        seeds=1,
        budget="cola=20,race=20",
    )
    with pytest.raises(KeyboardInterrupt):
        real_tasks.run(settings)
    with (tmp_path / "results.jsonl").open("a") as stream:
        stream.write('{"cut off')
    real_tasks.run(settings)
    assert done == [
        ("cola", 1, False),
        ("cola", 1, True),
        ("race", 1, False),
        ("race", 1, True),
        ("race", 1, True),
    ]
    lines = (tmp_path / "results.jsonl").read_text().splitlines()
    baselines = {r["task"]: r["baseline"] for r in map(json.loads, lines[:3])}
    assert baselines["cola"] == 0
    assert 0.2 < baselines["race"] < 0.35
    assert len((tmp_path / "table.md").read_text().splitlines()) == 4
    # Other weights in the same place.
    (pretrained / "model.ckpt-best.index").write_text("others")
    real_tasks.run(settings)
    assert done[5:] == [("cola", 1, True), ("race", 1, True)]
    # The same weights in another place.
    moved = tmp_path / "moved"
    pretrained.rename(moved)
    real_tasks.run(dataclasses.replace(settings, init_checkpoint=str(moved)))
    assert len(done) == 7


def test_runs_with_another_budget_are_others(tmp_path, monkeypatch, shared_dir):
    done = []

    def finetune(name, values, folder):
        done.append(folder.name)
        rest = {"train_examples": 1, "steps": 1, "seconds": 1.0}
        return {"metric": "x", "value": 0.5, **rest}

    monkeypatch.setattr(real_tasks, "_finetune", finetune)
    for budget in ("cola=20", "cola=30", "cola=20"):
        real_tasks.run(
            make_options(
                data_dir=str(shared_dir / "data"),
                output_dir=str(tmp_path),
                tasks="cola",
                seeds=1,
                budget=budget,
            )
        )
    assert len(set(done)) == len(done) == 2


def test_subsets_of_other_data_are_refused(tmp_path):
    def write(folder, label):
        folder = tmp_path / folder / "glue/CoLA"
        folder.mkdir(parents=True)
        for split in ("train", "dev"):
            rows = f"a\t{label}\t\tMara sleeps.\n" * 3
            (folder / f"{split}.tsv").write_text(rows)

    write("one", 0)
    write("other", 1)
    given = {"output_dir": str(tmp_path / "out"), "tasks": "cola"}
    one, other, none = (
        make_options(data_dir=str(tmp_path / name), **given)
        for name in ("one", "other", "none")
    )
    real_tasks.prepare(one)
    real_tasks.prepare(one)
    with pytest.raises(
        errors.UserError, match="was not drawn from the CoLA files"
    ):
        real_tasks.prepare(other)
    with pytest.raises(errors.UserError, match="--data_dir has no train.tsv"):
        real_tasks.prepare(none)


def test_a_folder_without_weights_is_refused_before_any_run(
    tmp_path, shared_dir, pretrained
):
    (pretrained / "model.ckpt-best.index").unlink()
    settings = make_options(
        data_dir=str(shared_dir / "data"),
        output_dir=str(tmp_path / "out"),
        init_checkpoint=str(pretrained),
        tasks="cola",
    )
    with pytest.raises(errors.UserError, match="which checkpoint is meant"):
        real_tasks.run(settings)
    assert not (tmp_path / "out").exists()
