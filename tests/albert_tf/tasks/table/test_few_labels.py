"""Heads that are computed from few examples, or from descriptions."""

import json

import numpy as np
import pytest

from albert_tf import convert_checkpoint, run_classifier
from albert_tf.common import options as options_of
from albert_tf.common import scores
from albert_tf.finetuning import base
from albert_tf.model.checkpoints import checkpoint_reader
from albert_tf.tasks.table import data, kind, labels
from tests import export_options, row_files
from tests.albert_tf.tasks import contract, contract_suite
from tests.albert_tf.tasks.glue.small_tasks import Markers
from tests.conftest import refused

WORDS = {"rain": "It rains. ", "lamp": "The lamp. ", "we": "We, we. "}
ROWS = [
    {"text": text * n + "A.", "label": label}
    for label, text in WORDS.items()
    for n in range(1, 5)
]
DESCRIPTIONS = [
    {"label": "b", "text": "It rains"},
    {"label": "a", "text": "A lamp"},
    {"label": "b", "text": "Water"},
]
TEXTS = {"text_columns": "said", "label_column": "mood"}


@pytest.fixture(scope="module")
def learn(world, tmp_path_factory):
    """A run of the rows, in a folder of its own."""
    here = tmp_path_factory.mktemp("few")
    path = row_files.write(here / "rows.csv", ROWS)

    def run(name, **values):
        given = {
            "albert_config_file": world.config,
            "spm_model_file": world.vocabulary,
            "max_seq_length": 32,
            "do_train": True,
            "do_eval": True,
            "dev_file": path,
            "text_columns": "text",
            "label_column": "label",
            "output_dir": str(here / name),
            **values,
        }
        if "labels_file" not in given:
            few = {"few_shot": True, "examples_per_label": 3}
            given |= {"train_file": path, **few}
        run_classifier.run(
            options_of.from_dict(run_classifier.ClassifierOptions, given)
        )
        return here / name

    return run


@pytest.fixture(scope="module")
def runs(learn):
    """Two runs of the same examples."""
    return learn("one"), learn("two", do_eval=False)


@pytest.fixture(scope="module")
def described(learn, tmp_path_factory):
    texts = [{"label": n, "text": text * 2} for n, text in WORDS.items()]
    path = tmp_path_factory.mktemp("described") / "labels.csv"
    none = {"none_label": "none", "none_threshold": 0.3}
    return learn("described", labels_file=row_files.write(path, texts), **none)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "form"),
    [
        ("few", "saved_model"),
        ("described", "onnx"),
    ],
)
def test_a_head_is_computed_and_exported(request, tmp_path, kind, form):
    described = kind == "described"
    run = request.getfixturevalue("described" if described else "runs")
    run = run if described else run[0]
    assert scores.best_scores(str(run))["accuracy"] > 0.8
    path = row_files.write(tmp_path / "t.jsonl", ROWS[::5])
    ours = export_options.ask(path, tmp_path / "a.jsonl", run_dir=run)
    served = tmp_path / "served"
    export_options.exported(served, run_dir=run, format=form)
    if form == "saved_model":
        theirs = export_options.ask(
            path, tmp_path / "b.jsonl", saved_model=served
        )
        assert theirs[0]["labels"] == [*ours[0]["probabilities"]]
    else:
        theirs = contract_suite.answers_beside(served, path)
    contract.assert_alike(theirs, ours)


@pytest.mark.slow
def test_the_same_examples_give_the_same_head(runs):
    one, two = (checkpoint_reader.read(f"{run}/model.ckpt-1") for run in runs)
    assert "projection/kernel" in one.shapes
    assert [*one.state] == ["global_step"]  # Nothing is trained.
    lines = (runs[0] / "metrics.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["parameters"] > 0
    names = sorted(one.shapes)
    for name, value in one.load(names).items():
        np.testing.assert_array_equal(value, two.load([name])[name])


@pytest.mark.slow
def test_a_run_is_converted(runs, tmp_path):
    given = {"from": str(runs[0]), "to": str(tmp_path / "tf1")}
    convert(**given, format="tf1")
    again = checkpoint_reader.read(str(tmp_path / "tf1"))
    one = checkpoint_reader.read(f"{runs[0]}/model.ckpt-1")
    assert again.shapes == one.shapes
    with refused("head on vectors"):
        convert(**given | {"to": str(tmp_path / "hub")}, format="huggingface")


def convert(**values):
    convert_checkpoint.run(
        options_of.from_dict(convert_checkpoint.ConvertOptions, values)
    )


def task_of(known="a,b", **values):
    given = {"labels": known, **TEXTS, **values}
    return labels.LabelTask(Markers(), 16, data.TableOptions(**given))


def test_as_many_examples_of_each_label_are_drawn(tmp_path):
    rows = [{"said": f"t{n}", "mood": "aab"[n % 3]} for n in range(30)]
    path = row_files.write(tmp_path / "t.csv", rows)
    drawn = [
        task_of(examples_per_label=4, split_seed=seed).read(path, base.TRAIN)
        for seed in (1, 1, 2)
    ]
    assert [example.label for example in drawn[0]].count(0) == 4
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(drawn[0]) == 8
    with refused("has 10 of the label 'b'"):
        task_of(examples_per_label=11).read(path, base.TRAIN)


def test_a_description_is_one_text():
    with refused("a description is one text"):
        data.TableOptions(text_columns="a,b", label_column="c", labels_file="d")


def test_descriptions_have_columns_of_their_own(tmp_path):
    path = row_files.write(tmp_path / "d.csv", DESCRIPTIONS)
    texts = [{"said": "Wet", "mood": "none"}]
    dev = row_files.write(tmp_path / "t.csv", texts)
    given = {"labels_file": path, "none_label": "none", "none_threshold": 0.5}
    settings = data.TableOptions(**TEXTS, **given)
    assert data.find_labels(path, settings) == ("a", "b")
    task = task_of("a,b,none", **given)
    learnt = task.read(path, base.TRAIN)
    assert [(*e.texts, e.label) for e in learnt] == [
        ("It rains", 1), ("A lamp", 0), ("Water", 1)
    ]  # fmt: skip
    assert [e.label for e in task.read(dev, base.DEV)] == [2]


@pytest.mark.parametrize(
    ("given", "threshold"), [(0.25, 0.25), (None, (0.1 + 0.6) / 2)]
)
def test_none_is_as_close_as_the_threshold(given, threshold):
    records = {
        base.TRAIN: {"vector": np.eye(2), "label_ids": np.array([0, 1])},
        base.DEV: {
            "vector": np.array([[0.1, 0.0], [0.6, 0.0], [0.0, 0.7]]),
            "label_ids": np.array([2, 0, 1]),
        },
    }
    task = task_of(
        "a,b,none", labels_file="d", none_label="none", none_threshold=given
    )
    weights, bias = task.compute_head(records.get)
    np.testing.assert_allclose(weights[2], 0)
    np.testing.assert_allclose(bias, [0, 0, 20 * threshold])
    if given is None:
        records[base.DEV]["label_ids"] = np.array([1, 0, 1])
        with refused("`none_label=none`: `dev_file` has no"):
            task.compute_head(records.get)


@pytest.mark.parametrize(
    ("rows", "known", "message"),
    [
        (DESCRIPTIONS, "a,b,c", "has no row to learn of the label 'c'"),
        (DESCRIPTIONS, "a,none", "line 2: the label 'b' is not one of 'a'"),
        (
            [*DESCRIPTIONS, {"label": "none", "text": "x"}],
            "a,b,none",
            "describes `none_label=none`",
        ),
        (
            [*DESCRIPTIONS, {"label": "a", "text": "Water "}],
            "a,b",
            "the description 'Water' of 'a' is there twice",
        ),
        (
            [*DESCRIPTIONS, {"label": "a", "text": " "}],
            "a,b",
            "the description '' of 'a' is empty",
        ),
    ],
)
def test_descriptions_that_do_not_fit_are_refused(
    tmp_path, rows, known, message
):
    path = row_files.write(tmp_path / "d.csv", rows)
    none = {"none_label": "none", "none_threshold": 0.5}
    with refused(message):
        task_of(known, labels_file=path, **none).read(path, base.TRAIN)


def test_texts_are_read_without_the_prompts_of_the_model(monkeypatch, caplog):
    source, facts = base.FactSource(None), {"prompts": '{"query": "query: "}'}
    monkeypatch.setattr(source, "model_facts", lambda: facts)
    for few_shot in (False, True):
        assert not caplog.text
        given = data.TableOptions(**TEXTS, labels="a,b", few_shot=few_shot)
        kind.Kind.find_facts(given, source)
    assert (
        'without a prompt. The model has {"query": "query: "}.' in caplog.text
    )
