"""Runs with tables: learnt, predicted, exported alike."""

import json
import types

import numpy as np
import pytest

from albert_tf import convert_checkpoint, run_classifier
from albert_tf.common import errors, scores
from albert_tf.finetuning import teacher
from albert_tf.tasks.table import data, labels
from albert_tf.text import tokenization
from tests import export_options, row_files
from tests.albert_tf.finetuning import small_runs
from tests.albert_tf.tasks.glue.small_tasks import Markers
from tests.conftest import changed

pytestmark = pytest.mark.slow

WORDS = {"rain": "It rains. ", "lamp": "The lamp. ", "we": "We, we. "}


def tagged(count):
    """Texts of some of three sentences; the tags say which, in any order."""
    random = np.random.default_rng(1)
    for number in range(count):
        names = [name for name in WORDS if random.random() < 0.4]
        text = "".join(WORDS[name] for name in names) or "A. "
        yield {"id": f"n{number}", "text": text, "tags": names}


def write(folder, rows, name="train"):
    return row_files.write(folder / f"{name}.jsonl", rows)


def settings(world, folder, rows, columns, **values):
    """Options of a run that learns what the texts say."""
    path = write(folder.parent, rows)
    made = run_classifier.ClassifierOptions(
        finetuning=small_runs.shared(world, folder, max_seq_length=24),
        train_file=path,
        test_file=path,
        table=data.TableOptions(id_column="id", **columns),
    )
    steps = {
        "train_step": 150,
        "learning_rate": 3e-3,
        "save_checkpoints_steps": 150,
        "iterations_per_loop": 150,
        "dev_share": 0.2,
    }
    return changed(made, **{**steps, **values})


def predictions(folder, texts, **model):
    """The answers of a run or an export."""
    out = folder / f"{next(iter(model))}.answers.jsonl"
    return export_options.ask(texts, out, overwrite=True, **model)


def both_answers(run, folder, texts):
    """Those of a run, and of its SavedModel."""
    served = folder / "served"
    train = run.parent / "train.jsonl"
    report = export_options.exported(served, run_dir=run, eval_file=train)
    assert report["scores"] == pytest.approx(
        report["scores_in_float32"], abs=1e-4
    )
    ours = predictions(folder, texts, run_dir=run)
    theirs = predictions(folder, texts, saved_model=served)
    assert [a["id"] for a in ours] == [a["id"] for a in theirs]
    return list(zip(ours, theirs, strict=True))


def hugging_face(run, folder):
    """The config and the weights of the head in a folder for transformers."""
    import safetensors.numpy

    to = folder / "hf"
    convert_checkpoint.run(
        convert_checkpoint.ConvertOptions(
            from_=str(run), to=str(to), format="huggingface"
        )
    )
    weights = safetensors.numpy.load_file(to / "model.safetensors")
    return types.SimpleNamespace(
        folder=to,
        config=json.loads((to / "config.json").read_text()),
        weight=weights["classifier.weight"],
        bias=weights["classifier.bias"],
    )


SEVERAL = {"text_columns": "text", "label_column": "tags", "multi_label": True}


@pytest.fixture(scope="module", params=["one", "each"])
def multi_label(request, world, tmp_path_factory):
    folder = tmp_path_factory.mktemp("several") / "run"
    columns = {**SEVERAL, "label_thresholds": request.param}
    rows = tagged(120)
    run_classifier.run(
        settings(world, folder, rows, columns, class_weights="balanced")
    )
    return folder


def test_several_labels_are_learnt(multi_label):
    found = scores.read(str(multi_label)).best.scores
    assert found["micro_f1"] > 0.8, found
    card = (multi_label / "run_card.md").read_text()
    assert "## Labels of held_out" in card
    assert "| label | examples | precision | recall | F1 |" in card
    assert not list(multi_label.glob("confusion_*.png"))
    first, *_ = row_files.read(multi_label / "test_predictions.jsonl")
    assert first["id"] == "n0"
    assert set(first["prediction"]) <= {*WORDS}
    assert list(first["probabilities"]) == sorted(WORDS)


def test_several_labels_are_exported(multi_label, tmp_path):
    texts = write(tmp_path, [*tagged(20), {"id": "x", "text": "A."}], "new")
    answers = both_answers(multi_label, tmp_path, texts)
    for ours, theirs in answers:
        assert ours["prediction"] == theirs["predicted"]
        odds = list(ours["probabilities"].values())
        np.testing.assert_allclose(theirs["probabilities"], odds, atol=1e-6)
    one_label = labels.LabelTask(
        Markers(), 16, data.TableOptions(text_columns="text", labels="a,b")
    )
    with pytest.raises(errors.UserError, match="several labels, the task one"):
        teacher.open_teacher(str(tmp_path / "served"), one_label)
    kept, *_ = row_files.read(multi_label / "test_predictions.jsonl")
    assert kept["prediction"] == answers[0][0]["prediction"]
    found = hugging_face(multi_label, tmp_path)
    assert found.config["problem_type"] == "multi_label_classification"
    assert found.config["id2label"] == dict(
        zip("012", sorted(WORDS), strict=True)
    )
    served = tmp_path / "of_folder"
    given = {"task": "classifier", "max_seq_length": 16}
    export_options.exported(served, init_checkpoint=found.folder, **given)
    of_folder = predictions(tmp_path, texts, saved_model=served)
    for (_, theirs), answer in zip(answers, of_folder, strict=True):
        odds = answer["probabilities"]
        np.testing.assert_allclose(odds, theirs["probabilities"], atol=1e-6)
        named = zip(answer["labels"], odds, strict=True)
        assert answer["predicted"] == [name for name, p in named if p > 0.5]


def test_later_evaluations_keep_the_thresholds(world, multi_label):
    """So the score of a test file is one of texts that decided nothing."""
    before = scores.read(str(multi_label)).best.scores
    columns = SEVERAL
    names = [name for name in before if "threshold" in name]
    kind = "each" if len(names) > 1 else "one"
    path = write(multi_label.parent, tagged(9), "other")
    again = settings(
        world,
        multi_label,
        tagged(120),
        {**columns, "label_thresholds": kind},
        do_train=False,
        do_predict=False,
        class_weights="balanced",
    )
    run_classifier.run(changed(again, train_file=None, dev_file=path))
    after = scores.read(str(multi_label)).best.scores
    assert {n: after[n] for n in names} == {n: before[n] for n in names}
    assert after["loss"] != before["loss"]


NUMBERS = {"text_columns": "text", "label_column": "year", "regression": True}


def dated(count):
    """The more often it rains, the later it is."""
    for number in range(count):
        text = "It rains. " * (number % 4) + f"The lamp {number}."
        yield {
            "id": f"n{number}",
            "text": text,
            "year": 1990 + 10.0 * (number % 4),
        }


@pytest.fixture(scope="module")
def numbers(world, tmp_path_factory):
    folder = tmp_path_factory.mktemp("numbers") / "run"
    run_classifier.run(settings(world, folder, dated(120), NUMBERS))
    return folder


def test_numbers_are_learnt(numbers):
    found = scores.read(str(numbers)).best.scores
    assert found["pearson"] > 0.8, found
    assert 0 < found["mae"] <= found["rmse"] < 10
    kept = json.loads((numbers / "run_options.json").read_text())["facts"]
    assert kept["label_mean"] == pytest.approx(2005, abs=2)
    assert kept["label_deviation"] == pytest.approx(11.2, abs=1)


def test_numbers_are_exported_in_their_units(numbers, tmp_path):
    texts = write(tmp_path, dated(12), "new")
    answers = both_answers(numbers, tmp_path, texts)
    ours = [a["prediction"] for a, _ in answers]
    theirs = [a["score"] for _, a in answers]
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    assert min(ours) > 1980
    assert max(ours) < 2030
    found = hugging_face(numbers, tmp_path)
    assert found.config["problem_type"] == "regression"
    assert found.bias[0] > 1900


def test_large_numbers_are_learnt_as_small_ones(world, tmp_path, caplog):
    """Of 1,700,000,000 float32 knows every 128th; the deviation is 11."""
    later = [{**row, "year": row["year"] + 1.7e9} for row in dated(120)]
    run = tmp_path / "run"
    run_classifier.run(settings(world, run, later, NUMBERS))
    found = scores.read(str(run)).best.scores
    assert found["pearson"] > 0.8, found
    assert 0 < found["mae"] <= found["rmse"] < 10
    texts = write(tmp_path, dated(12), "new")
    served = tmp_path / "served"
    export_options.exported(served, run_dir=run)
    assert any(
        "holds every 128th number" in message for message in caplog.messages
    )
    ours = [a["prediction"] for a in predictions(tmp_path, texts, run_dir=run)]
    theirs = [
        a["score"] for a in predictions(tmp_path, texts, saved_model=served)
    ]
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-3)
    assert 10 < np.ptp(ours) < 50


def test_numbers_of_a_run_go_on_in_its_units(world, numbers, tmp_path):
    """Another file has another mean; the head of the model has the run's."""
    known = json.loads((numbers / "run_options.json").read_text())["facts"]
    more = [{**row, "year": row["year"] - 500} for row in dated(40)]
    for place, init in (
        ("a", numbers),
        ("b", hugging_face(numbers, tmp_path).folder),
    ):
        (tmp_path / place).mkdir()
        made = settings(world, tmp_path / place / "run", more, NUMBERS)
        made = changed(made, init_checkpoint=str(init), train_step=1)
        run_classifier.run(changed(made, save_checkpoints_steps=1))
        path = tmp_path / place / "run/run_options.json"
        found = json.loads(path.read_text())["facts"]
        expected = known["label_mean"] if place == "a" else 0.0
        assert found["label_mean"] == expected
        assert scores.read(str(path.parent)).best.scores["mae"] > 400
    again = changed(made, train_file=None, do_train=False, do_predict=False)
    run_classifier.run(changed(again, dev_file=made.train_file))
    nothing = changed(
        again, dev_file=made.train_file, output_dir=str(tmp_path / "new")
    )
    with pytest.raises(errors.UserError, match="mean of the numbers is not"):
        run_classifier.run(changed(nothing, init_checkpoint=None))


RANKED = {
    "query_column": "query",
    "text_columns": "text",
    "label_column": "relevance",
}


def ranked(count):
    """What a text is about says how relevant it is."""
    for number in range(count):
        for times, text in enumerate(WORDS.values()):
            yield {
                "id": f"n{number}.{times}",
                "query": f"Rain {number}?",
                "text": text,
                "relevance": times,
            }


@pytest.fixture(scope="module", params=["pairwise", "pointwise"])
def ranks(request, world, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks") / "run"
    columns = {**RANKED, "ranking_loss": request.param, "ndcg_at": 2}
    made = settings(world, folder, ranked(60), columns)
    rate = 5e-3 if request.param == "pairwise" else 3e-3
    steps = dict.fromkeys(["train_step", "save_checkpoints_steps"], 600)
    run_classifier.run(changed(made, learning_rate=rate, **steps))
    return folder


def test_ranking_is_learnt(ranks):
    found = scores.read(str(ranks)).best.scores
    assert list(found) == ["ndcg", "mrr"]
    assert found["ndcg"] > 0.9, found
    first, *_ = row_files.read(ranks / "test_predictions.jsonl")
    assert set(first) == {"id", "prediction"}


def test_ranking_is_exported(ranks, tmp_path):
    rows = [
        {"id": row["id"], "text": row["query"], "text_pair": row["text"]}
        for row in ranked(6)
    ]
    answers = both_answers(ranks, tmp_path, write(tmp_path, rows, "new"))
    ours = [a["prediction"] for a, _ in answers]
    theirs = [a["score"] for _, a in answers]
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    own = write(tmp_path, ranked(6), "own")
    named = predictions(tmp_path, own, run_dir=ranks)
    assert [a["prediction"] for a in named] == pytest.approx(ours)
    assert hugging_face(ranks, tmp_path).config["problem_type"] == "regression"


FILLING = "We, we. " * 6


def long_texts(count):
    """Only the end of a long text tells; every fifth text is short."""
    for number in range(count):
        word = list(WORDS)[number % 2]
        text = f"{number}. {FILLING if number % 5 else ''}" + WORDS[word] * 8
        yield {
            "id": f"n{number}",
            "text": text,
            "tag": word,
            "tags": [word, *["we"] * bool(number % 5)],
            "year": 1990.0 + 10 * (number % 2),
        }


ONE = {"text_columns": "text", "label_column": "tag"}
LONG = {
    "label": (ONE, {"windows": "mean"}),
    "labels": (SEVERAL, {"windows": "max", "window_stride": 22}),
    "number": (NUMBERS, {"windows": "max"}),
}


@pytest.fixture(scope="module", params=LONG)
def of_windows(request, world, tmp_path_factory):
    folder = tmp_path_factory.mktemp("windows") / "run"
    columns, long = LONG[request.param]
    made = settings(world, folder, long_texts(40), columns)
    run_classifier.run(changed(made, **long))
    return folder


def test_all_of_a_long_text_is_read(world, of_windows, tmp_path):
    tokenizer = tokenization.Tokenizer(world.vocabulary)
    (pieces,) = tokenizer.encode_batch([FILLING])
    assert len(pieces) >= 22  # So the first window has nothing else.
    ends = ["rain", "lamp", "rain"]
    rows = [{"id": n, "text": FILLING + WORDS[n] * 8} for n in ends]
    rows += [{"id": "empty", "text": ""}, *long_texts(6)]
    answers = both_answers(of_windows, tmp_path, write(tmp_path, rows, "new"))
    found = []
    for ours, theirs in answers:
        assert not theirs["truncated"]
        if "score" in theirs:
            expected, actual = ours["prediction"], theirs["score"]
        else:
            expected = list(ours["probabilities"].values())
            actual = theirs["probabilities"]
            label = theirs["label" if "label" in theirs else "predicted"]
            assert ours["prediction"] == label
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
        found.append(expected)
    assert np.abs(np.subtract(found[0], found[1])).max() > 1e-3
    np.testing.assert_allclose(found[0], found[2], rtol=1e-5, atol=1e-6)
    rows = row_files.read(of_windows / "test_predictions.jsonl")
    assert len(rows) == 40
    kept = [row["prediction"] for row in rows[:6]]
    if isinstance(kept[0], float):
        kept = pytest.approx(kept, rel=1e-5)
    assert [ours["prediction"] for ours, _ in answers[4:]] == kept


def test_other_formats_with_windows(world, of_windows, tmp_path):
    with pytest.raises(errors.UserError, match="only the beginning of a long"):
        hugging_face(of_windows, tmp_path)
    kept = json.loads((of_windows / "run_options.json").read_text())["options"]
    if kept["windows"] == "max":
        return
    report = export_options.exported(
        tmp_path / "onnx",
        run_dir=of_windows,
        format="onnx",
        eval_file=of_windows.parent / "train.jsonl",
    )
    described = json.loads((tmp_path / "onnx/model.json").read_text())
    assert described["options"]["windows"] == "mean"
    assert described["options"]["window_stride"] == 11
    assert report["scores"] == pytest.approx(
        report["scores_in_float32"], abs=1e-4
    )
    single = labels.LabelTask(
        Markers(), 24, data.TableOptions(text_columns="text", labels="a,b")
    )
    with pytest.raises(errors.UserError, match="several outputs for a text"):
        teacher.open_teacher(str(of_windows), single)
    made = settings(world, tmp_path / "run", long_texts(9), ONE)
    with pytest.raises(errors.UserError, match="label of whole texts"):
        changed(made, windows="mean", teacher="runs/x")


def test_a_teacher_has_one_label(world, tmp_path):
    made = settings(world, tmp_path / "run", tagged(9), SEVERAL)
    with pytest.raises(errors.UserError, match="label of whole texts"):
        changed(made, teacher="runs/x")


def assert_transformers_alike(run, folder, texts):
    import transformers

    ours = predictions(folder, write(folder, texts, "new"), run_dir=run)
    model = transformers.pipeline(
        "text-classification",
        str(hugging_face(run, folder).folder),
        top_k=None,
    )
    for answer, theirs in zip(ours, model(texts), strict=True):
        number = {"LABEL_0": answer["prediction"]}
        expected = answer.get("probabilities") or number
        found = {one["label"]: one["score"] for one in theirs}
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-5)


@pytest.mark.torch
def test_transformers_give_several_labels(multi_label, tmp_path):
    texts = [{"text": row["text"]} for row in tagged(9)]
    assert_transformers_alike(multi_label, tmp_path, texts)


@pytest.mark.torch
def test_transformers_give_numbers(numbers, tmp_path):
    texts = [{"text": row["text"]} for row in dated(9)]
    assert_transformers_alike(numbers, tmp_path, texts)


@pytest.mark.torch
def test_transformers_give_the_scores_of_pairs(ranks, tmp_path):
    texts = [
        {"text": row["query"], "text_pair": row["text"]} for row in ranked(4)
    ]
    assert_transformers_alike(ranks, tmp_path, texts)
