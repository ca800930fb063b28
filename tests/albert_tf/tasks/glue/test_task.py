"""Records, scores, prediction files and ensembles of a GLUE task."""

import numpy as np
import pytest

from albert_tf.finetuning import packing
from albert_tf.model.network.encoder import AlbertModel
from tests.albert_tf.tasks.glue import small_tasks
from tests.conftest import refused, tiny_config


@pytest.mark.parametrize("folder", ["AX", "diagnostic"])
def test_diagnostic_set_is_found_in_either_folder(tmp_path, folder):
    data_dir = small_tasks.write(tmp_path, "", f"{folder}/diagnostic.tsv")
    expected = f"{data_dir}/{folder}/diagnostic.tsv"
    assert small_tasks.make("ax").sources(data_dir)["ax"] == expected
    assert small_tasks.make("mnli").sources(data_dir)["ax"] == expected


def test_features_fill_the_layout(tiny_tokenizer):
    task = small_tasks.make("rte", tiny_tokenizer)
    examples = [
        packing.TextExample("a", ("It rains.", "It is wet."), 1),
        packing.TextExample("b", ("It rains.",)),
    ]
    task.remarks = {}
    (batch,) = task.featurize(examples, "train")
    assert not task.remarks
    assert {name: value.shape[1:] for name, value in batch.items()} == {
        feature.name: feature.shape for feature in task.layout("train")
    }
    texts = [*map(tiny_tokenizer.encode, ("It rains.", "It is wet."))]
    packed = packing.pack([texts], tiny_tokenizer, 32)
    assert (batch["input_ids"][:1] == packed["input_ids"]).all()
    assert batch["label_ids"].tolist() == [1, 0]
    assert batch["is_real_example"].tolist() == [1, 1]
    assert batch["segment_ids"][1].sum() == 0
    # The first is one token too long for a shorter task.
    needed = int(batch["input_mask"][0].sum())
    for length, cut in ((needed, {}), (needed - 1, ["a"])):
        task = small_tasks.make("rte", tiny_tokenizer, length)
        task.remarks = {}
        list(task.featurize(examples, "train"))
        what = f"examples are longer than `max_seq_length={length}` and cut."
        assert task.remarks == ({what: cut} if cut else {})


def test_features_do_not_depend_on_the_batch(tiny_tokenizer):
    task = small_tasks.make("cola", tiny_tokenizer, 16)
    texts = ["It rains.", "We stay here.", "The sea is calm."] * 200
    examples = [
        packing.TextExample(str(i), (text,)) for i, text in enumerate(texts)
    ]
    batches = list(task.featurize(examples, "train"))
    assert len(batches) > 1
    ids = np.concatenate([batch["input_ids"] for batch in batches])
    (three,) = task.featurize(examples[:3], "train")
    np.testing.assert_array_equal(ids, np.tile(three["input_ids"], (200, 1)))


def test_numbers_are_labels_of_a_regression(tiny_tokenizer):
    task = small_tasks.make("sts-b", tiny_tokenizer, 16)
    examples = [
        packing.TextExample("a", ("A.", "B."), 2.4),
        packing.TextExample("b", ("A.", "")),
    ]
    (batch,) = task.featurize(examples, "train")
    assert batch["label_ids"].dtype == np.float32
    assert batch["label_ids"].tolist() == [pytest.approx(2.4), 0.0]
    (label,) = [f for f in task.layout("train") if f.name == "label_ids"]
    assert label.dtype == "float32"


@pytest.mark.parametrize(
    ("name", "labels", "start"), [("sts-b", (2.0, 5.0), 3.5), ("rte", (1,), 0)]
)
def test_a_new_head_starts_at_the_mean_of_numbers(name, labels, start):
    task = small_tasks.make(name)
    encoder = AlbertModel(tiny_config())
    model = task.make_model(encoder)
    model.add_exits([1], own_heads=True)
    examples = [packing.TextExample("a", ("A.", "B."), y) for y in labels]
    for learnt in ([], examples):
        task.start_head(model, learnt)
        expected = start if learnt else 0
        for depth in (None, 1):
            assert set(model.output_of(depth)[1].numpy()) == {expected}


def test_settings_say_labels_and_columns():
    assert small_tasks.make("rte").settings == {
        "task_name": "rte",
        "max_seq_length": 32,
        "labels": ["entailment", "not_entailment"],
        "columns": {
            **dict.fromkeys(("train", "dev"), [1, 2, 3, True]),
            "test": [1, 2, None, True],
        },
    }


def test_right_and_predicted_labels_are_counted():
    examples = [packing.TextExample("a", ("x",), n) for n in (0, 0, 1)]
    outputs = {"logits": np.eye(2)[[0, 1, 1]]}
    found = small_tasks.make("rte").confusion(outputs, examples)
    assert found.labels == ("entailment", "not_entailment")
    assert found.counts.tolist() == [[1, 1], [0, 1]]
    assert small_tasks.make("sts-b").confusion(outputs, examples) is None


def test_files_that_are_needed_have_paths(tmp_path):
    paths = small_tasks.make("MNLI").sources(str(tmp_path))
    assert [*paths] == ["train", "dev_matched", "test_matched"]
    with refused("`task_name=mnly` is not known"):
        small_tasks.make("mnly")


METRICS = {
    "cola": {"matthew_corr", "accuracy", "loss"},
    "mnli": {"accuracy", "loss"},
    "mrpc": {"accuracy", "f1", "loss"},
    "qqp": {"accuracy", "f1", "loss"},
    "sts-b": {"pearson", "spearmanr", "mse"},
}


@pytest.mark.parametrize("name", METRICS)
def test_perfect_outputs_have_the_best_scores(name):
    task = small_tasks.make(name)
    count = len(task.labels) or 3
    examples = [
        packing.TextExample("a", ("x",), label) for label in range(count)
    ]
    logits = 100 * np.eye(count)
    if task.is_regression:
        logits = np.arange(3.0)[:, None]
    scores = task.score({"logits": logits}, examples)
    assert scores.keys() == METRICS[name]
    for metric, value in scores.items():
        best = 0.0 if metric in ("loss", "mse") else 1.0
        assert value == pytest.approx(best, abs=1e-12)


TEST_ROWS = [
    packing.TextExample("41", ("It rains.", "It is wet.")),
    packing.TextExample("52", ("We stay.", "We go.")),
]


def test_prediction_files(tmp_path):
    logits = np.log(np.array([[3.0, 1.0], [1.0, 4.0]], np.float32))
    small_tasks.make("rte").write_predictions(
        {"logits": logits}, TEST_ROWS, "test", str(tmp_path)
    )
    rows = (tmp_path / "test_results.tsv").read_text().splitlines()
    odds = [[float(number) for number in row.split("\t")] for row in rows]
    np.testing.assert_allclose(odds, [[0.75, 0.25], [0.2, 0.8]], rtol=1e-6)
    expected = "index\tprediction\n41\tentailment\n52\tnot_entailment\n"
    assert (tmp_path / "submit_results.tsv").read_text() == expected
    assert (tmp_path / "RTE.tsv").read_text() == expected


def test_submission_of_sts_b_is_cut_off_and_the_raw_file_is_not(tmp_path):
    logits = np.array([[5.5], [-0.25]])
    small_tasks.make("sts-b").write_predictions(
        {"logits": logits}, TEST_ROWS, "test", str(tmp_path)
    )
    assert (tmp_path / "test_results.tsv").read_text() == "5.5\n-0.25\n"
    assert (tmp_path / "submit_results.tsv").read_text() == (
        "index\tprediction\n41\t5.5\n52\t-0.25\n"
    )
    assert (tmp_path / "STS-B.tsv").read_text() == (
        "index\tprediction\n41\t5.0\n52\t0.0\n"
    )


def test_every_test_set_of_mnli_has_its_file(tmp_path):
    task = small_tasks.make("mnli")
    for number, split in enumerate(task.test_splits):
        logits = np.roll(np.eye(3)[:2], number, 1)
        task.write_predictions(
            {"logits": logits}, TEST_ROWS, split, str(tmp_path)
        )
    names = ["MNLI-m", "MNLI-mm", "AX", "submit_results", "ax_results"]
    names += ["test_matched_results", "test_mismatched_results"]
    assert {path.stem for path in tmp_path.iterdir()} == set(names)
    assert (tmp_path / "AX.tsv").read_text() == (
        "index\tprediction\n41\tneutral\n52\tcontradiction\n"
    )
    first = (tmp_path / "MNLI-m.tsv").read_text()
    assert (tmp_path / "submit_results.tsv").read_text() == first


def test_ensemble_averages_probabilities_not_logits():
    task = small_tasks.make("rte")
    logits = [np.log([[0.9, 0.1]]), np.log([[0.4, 0.6]]), np.log([[0.4, 0.6]])]
    combined = task.combine([{"logits": one} for one in logits])
    (answer,) = task.answers(combined, TEST_ROWS[:1])
    assert answer == {
        "id": "41",
        "prediction": "entailment",
        "probabilities": {
            "entailment": pytest.approx(1.7 / 3),
            "not_entailment": pytest.approx(1.3 / 3),
        },
    }


def test_ensemble_averages_numbers():
    runs = [{"logits": np.array([[1.0], [2.0]])}, {"logits": np.zeros((2, 1))}]
    combined = small_tasks.make("sts-b").combine(runs)
    assert combined["logits"].tolist() == [[0.5], [1.0]]
