"""Plans: what is refused, and which commands cells share."""

import importlib
import pathlib
import re

import pytest

from albert_tf.common import options
from lab.tables import plan
from tests.conftest import ROOT, refused

PLANS = sorted((ROOT / "lab/tables/plans").glob("[!s]*.toml"))  # No steps.toml.
PLACES = {"output_dir": "/out dir", "corpus_dir": "/c", "data_dir": "/d"}
PLAN = """
title = "A table"
seeds = [1, 2]
base = { color = "red" }
[values]
rate = 3
[budget]
train = 10
[steps]
records = "writer --input_file={corpus_dir}/train.txt --output_dir={records}"
train = "trainer --input_dir={records} --seed={seed} --rate={rate}"
[axes.color.red]
[axes.color.blue]
train = "--color={color}"
budget = { train = 2.5 }
[columns.score]
step = "train"
key = "score"
paper = { blue = 1.5 }
"""


def read(tmp_path, text, size="default"):
    path = tmp_path / "plan.toml"
    path.write_text(text)
    return plan.read(str(path), size)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[values]", "share = 1\n[values]", "share: Extra inputs .*axes"),
        ('key = "score"', 'kye = "score"', "columns.score.key: Field requ"),
        (
            'key = "score"',
            'key = "score"\nscael = 2',
            "score.scael: .* keys of a column are step, key, scale, paper",
        ),
        ("seeds = [1, 2]", 'seeds = "1"', "seeds: Input should be a valid"),
        ("seeds = [1, 2]", "seeds = []", "The plan has no cells"),
        (
            "seeds = [1, 2]",
            "seeds = [1, 1]",
            "seeds = .1, 1. are not different",
        ),
        ("seeds = [1, 2]", "seeds = [-1]", "seeds = .-1. are not different"),
        (
            "{ train = 2.5 }",
            "{ trian = 2 }",
            "'trian' is no key of axes.color.b",
        ),
        ("train = 10", "trian = 10", "'trian' is no key of budget"),
        ("[axes.color.red]\n", "[axes.size]\n[axes.color.red]\n", "no cells"),
        ('color = "red"', 'colour = "red"', "'colour' is no axis.*color"),
        ('color = "red"', 'color = "green"', "'green' is no value of axes"),
        ('train = "--c', 'trian = "--c', "'trian' is no key of axes.color.b"),
        ("{rate}", "{rtae}", "In step train: 'rtae' is no name"),
        ('{records}"', '{train}"', "In step records: 'train' is no name"),
        ("{rate}", "{rate", "In step train: expected '}'"),
        ("{rate}", "'{rate}", "In step train: No closing quotation"),
        ('step = "train"', 'step = "test"', "'test' is no step for 'score'"),
        ("paper = { blue", "paper = { green", "'green' is no row for"),
        ("[values]", "[sizes]\nquick = 1\n[values]", "quick: Input should be"),
        ('"--color={color}"', "3", "blue.train: Input should be a valid st"),
        ("{ train = 2.5 }", '{ train = "2" }', "budget.train: Input should"),
        ('records = "w', 'config = "w', "'config' cannot be the name of a s"),
        (
            "[axes.color.red]\n",
            "[axes.train.red]\n",
            "'train' cannot be the na",
        ),
        ("[values]", "[values]\nseed = 7", "'seed' cannot be the name of a s"),
        ("{rate}", "{}", "In step train: '' is no name here"),
        ("{rate}", "{rate:{x}}", "In step train: 'x'"),
        ("{seed}", "3", "'red' has the same commands with each seed"),
        ("[budget]", "[budget", "is not TOML: .*line 7"),
        ('title = "A', 'extends = "./plan.toml"\ntitle = "A', "extends itself"),
        ('title = "A', 'extends = "no.toml"\ntitle = "A', "no.toml"),
        ("[values]", '[config]\nfile = "no.json"\n[values]', "no.json"),
        (
            "[values]",
            '[config]\nfile = "configs/models/albert_hour.json"\nlayers = 2\n'
            "[values]",
            "Unknown key 'layers'",
        ),
    ],
)
def test_a_wrong_plan_is_refused(tmp_path, old, new, message):
    assert old in PLAN
    with refused(message) as raised:
        read(tmp_path, PLAN.replace(old, new, 1)).cells(PLACES)
    assert "\n" not in str(raised.value)


def test_an_unknown_size_is_refused(tmp_path):
    with refused("'night' is no size.*default"):
        read(tmp_path, PLAN, "night")


def test_cells_share_what_their_commands_have_in_common(tmp_path):
    cells = read(tmp_path, PLAN).cells(PLACES)
    assert [(cell.row, cell.seed) for cell in cells] == [
        ("red", 1),
        ("red", 2),
        ("blue", 1),
        ("blue", 2),
    ]
    assert len({cell.tasks["records"] for cell in cells}) == 1
    assert len({cell.tasks["train"].name for cell in cells}) == 4
    records, train = cells[2].tasks.values()
    assert train.needs == (records.name,)
    assert train.words == (
        "trainer",
        f"--input_dir=/out dir/{records.name}",
        "--seed=1",
        "--rate=3",
        "--color=blue",
    )
    assert [cell.tasks["train"].minutes for cell in cells[1:3]] == [10, 25]


def test_a_changed_command_or_file_begins_all_behind_it_anew(tmp_path):
    def names(text=PLAN, size="default", **places):
        (cell, *_) = read(tmp_path, text, size).cells({**PLACES, **places})
        return [task.name for task in cell.tasks.values()]

    records, train = names()
    assert names(output_dir="/other", corpus_dir="/moved") == [records, train]
    other = names(PLAN.replace("writer", "writer --cased"))
    assert records != other[0] and train != other[1]
    assert names(PLAN.replace("rate = 3", "rate = 4"))[0] == records
    sizes = "[sizes.quick.values]\nrate = 4\n"
    assert names(PLAN + sizes, "quick") == names(
        PLAN.replace("rate = 3", "rate = 4")
    )
    (tmp_path / "train.txt").write_text("one")
    one = names(corpus_dir=str(tmp_path))
    plan._content.cache_clear()
    (tmp_path / "train.txt").write_text("two")
    two = names(corpus_dir=str(tmp_path))
    assert not {*one} & {*two} and not {*one} & {records, train}


def test_a_folder_that_a_command_names_must_be_given(tmp_path):
    chosen = read(tmp_path, PLAN)
    with refused("records: `corpus_dir` is need"):
        chosen.cells({**PLACES, "corpus_dir": ""})


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
@pytest.mark.parametrize("size", ["default", "quick"])
def test_our_plans_fit_into_a_night_and_quick_into_minutes(path, size):
    cells = plan.read(str(path), size).cells(PLACES)
    tasks = {task.name: task for cell in cells for task in cell.tasks.values()}
    minutes = sum(task.minutes for task in tasks.values())
    assert 0 < minutes <= (600 if size == "default" else 20)
    assert len({cell.tasks["vocabulary"] for cell in cells}) == 1


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
@pytest.mark.parametrize("size", ["default", "quick"])
def test_commands_of_our_plans_know_their_options(path, size, monkeypatch):
    monkeypatch.chdir(ROOT)
    for cell in plan.read(str(path), size).cells(PLACES):
        for task in cell.tasks.values():
            module = importlib.import_module(task.words[0])
            text = pathlib.Path(module.__file__).read_text()
            (name,) = re.findall(r"run_script\(\s*run, (\w+)", text)
            options.parse(getattr(module, name), task.words[1:])
