"""Tables with numbers: rows, parts, units, scores."""

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats
from sklearn import metrics

from albert_tf.finetuning import base
from albert_tf.finetuning.packing import TextExample
from albert_tf.model.heads import classification
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.tasks.table import data, numbers
from tests import row_files
from tests.albert_tf.tasks.glue.small_tasks import Markers
from tests.conftest import LAYER_ATOL, refused, tiny_config


def options(**values):
    given = {
        "text_columns": "text",
        "label_column": "price",
        "regression": True,
        **values,
    }
    return data.TableOptions(**given)


def task_of(**values):
    return numbers.NumberTask(Markers(), 16, options(**values))


def write(folder, *prices):
    rows = [{"text": f"t{n}", "price": p} for n, p in enumerate(prices)]
    return row_files.write(folder / "t.jsonl", rows)


def test_numbers_of_any_size_are_read(tmp_path):
    path = write(tmp_path, 1, "-2.5e6", " 3 ", 1e9)
    found = [example.label for example in task_of().read(path, base.DEV)]
    assert found == [1, -2.5e6, 3, 1e9]


@pytest.mark.parametrize(
    "cell", ["", None, "3,5", "nan", "inf", 1e40, True, "1_0", [1], "many"]
)
def test_other_cells_are_named_with_their_line(tmp_path, cell):
    path = write(tmp_path, 1, cell)
    with refused("line 2: the column 'price' holds .*, which is no number"):
        task_of().read(path, base.TRAIN)


def test_a_constant_column_is_refused(tmp_path):
    path = write(tmp_path, 7, "7", 7.0)
    message = "all 3 examples to learn have the number 7 in the column 'price'"
    with refused(message):
        task_of().read(path, base.TRAIN)


def test_mean_and_deviation_are_those_of_what_is_learnt(tmp_path):
    path = write(tmp_path, *(n**2 for n in range(50)))
    task = task_of(dev_share=0.2)
    learnt = [e.label for e in task.read(path, base.TRAIN)]
    kept = [e.label for e in task.read(path, base.HELD_OUT)]
    assert [len(learnt), len(kept)] == [40, 10]
    assert sorted(learnt + kept) == [n**2 for n in range(50)]
    found = task.find_facts(task.options, base.FactSource(path))
    assert found.label_mean == pytest.approx(np.mean(learnt))
    assert found.label_deviation == pytest.approx(np.std(learnt))


def test_a_file_is_parsed_once(tmp_path, monkeypatch):
    path = write(tmp_path, 1, 2, 3, 4)
    task = task_of(dev_share=0.25)
    read, calls = data.rows.read_user_file, []

    def counted(*args, **kwargs):
        calls.append(args)
        return read(*args, **kwargs)

    monkeypatch.setattr(data.rows, "read_user_file", counted)
    facts = task.find_facts(task.options, base.FactSource(path))
    again = numbers.NumberTask(Markers(), 16, task.options, facts)
    again.read(path, base.TRAIN)
    again.read(path, base.HELD_OUT)
    assert len(calls) == 1
    assert not data.parse.cache_info().currsize  # It would stay in memory.
    write(tmp_path, 1, 2, 3, 5)
    assert again.read(path, base.DEV)[-1].label == 5


def test_scores_are_those_of_scikit_learn_and_scipy():
    random = np.random.default_rng(2)
    right = random.normal(2000, 30, 40).round(1)
    logits = (right + random.normal(0, 20, 40)).astype(np.float32)
    examples = [TextExample(n, ("",), x) for n, x in enumerate(right)]
    found = task_of().score({"logits": logits[:, None]}, examples)
    expected = {
        "pearson": stats.pearsonr(right, logits).statistic,
        "spearmanr": stats.spearmanr(right, logits).statistic,
        "mae": metrics.mean_absolute_error(right, logits),
        "rmse": metrics.root_mean_squared_error(right, logits),
    }
    assert found == pytest.approx(expected, rel=1e-5)
    answers = list(task_of().answers({"logits": logits[:, None]}, examples))
    assert answers[3]["prediction"] == float(logits[3])


def test_the_model_answers_in_the_column_s_units():
    """Errors that are learnt from are in units of the deviation."""
    task = task_of(label_mean=2000.0, label_deviation=30.0)
    encoder = AlbertModel(tiny_config())
    model = task.make_model(encoder)
    plain = classification.AlbertClassifier(encoder, 1)
    model.output_bias.assign([0.5])
    plain.output_weights.assign(30 * model.output_weights)
    plain.output_bias.assign(30 * model.output_bias + 2000)
    ids = {"input_ids": tf.constant([[2, 7, 3], [2, 9, 3]])}
    found = model(ids)["logits"]
    assert found.dtype == tf.float64
    np.testing.assert_allclose(found, plain(ids)["logits"], rtol=1e-6)
    assert abs(found[0, 0] - 2015) < 10
    examples = [TextExample(0, ("",), 2000.0), TextExample(1, ("",), 2030.0)]
    batch = {
        **ids,
        "label_ids": tf.constant(task.label_ids(examples)),
        "is_real_example": tf.constant([1, 1]),
    }
    objective = task.objective()
    loss = objective.values(model, batch, None)["regression_loss"]
    wanted = ((found[:, 0] - [2000.0, 2030.0]) / 30) ** 2
    np.testing.assert_allclose(loss, wanted, atol=LAYER_ATOL)
    config = model.get_config()
    assert (config["mean"], config["deviation"]) == (2000.0, 30.0)


@pytest.mark.parametrize(
    ("mean", "deviation"),
    [(1_700_000_050, 17.3), (-1e14, 12.0), (0.0, 1e-9), (4e5, 0.001)],
)
def test_numbers_far_from_zero_are_told_apart(mean, deviation):
    """Records, model, scores and answers: none rounds them to float32."""
    task = task_of(label_mean=float(mean), label_deviation=deviation)
    units = np.array([-1.5, -0.25, 0.0, 2.0])
    right = mean + deviation * units
    examples = [TextExample(n, ("",), x) for n, x in enumerate(right)]
    labels = task.label_ids(examples)
    assert labels.dtype == np.float32
    atol = np.spacing(abs(mean)) / deviation + 1e-6
    np.testing.assert_allclose(labels, units, atol=atol)

    model = task.make_model(AlbertModel(tiny_config()))
    model.output_weights.assign(0 * model.output_weights)
    model.output_bias.assign([0.75])
    ids = {"input_ids": tf.constant([[2, 7, 3]] * 4)}
    logits = model(ids)["logits"].numpy()
    atol = np.spacing(abs(mean)) + 1e-6 * deviation
    np.testing.assert_allclose(logits[0], [mean + 0.75 * deviation], atol=atol)
    answers = list(task.answers({"logits": logits}, examples))
    assert answers[0]["prediction"] == logits[0, 0]
    found = task.score({"logits": logits}, examples)
    expected = np.abs(units - 0.75).mean() * deviation
    assert found["mae"] == pytest.approx(expected, rel=0.01)


def test_what_float32_cannot_hold_is_said(caplog):
    for mean, deviation, is_said in (
        (1.7e9, 30.0, True),
        (-1.7e9, 30.0, True),
        (1.7e9, 1e6, False),
        (2005.0, 11.0, False),
        (0.0, 1.0, False),
    ):
        caplog.clear()
        classification.warn_of_rounding(mean, deviation)
        assert bool(caplog.messages) == is_said
