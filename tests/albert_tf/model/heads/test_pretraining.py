"""The pretraining heads: which positions and which examples count."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data import layouts
from albert_tf.model import modeling, objectives
from albert_tf.model.heads import pretraining
from tests.albert_tf.model import initial_weights
from tests.conftest import LOSS_RTOL


@pytest.fixture
def model(small_config):
    tf.random.set_seed(1)
    return pretraining.AlbertPretrainer(modeling.AlbertModel(small_config))


@pytest.fixture
def batch():
    generator = np.random.default_rng(2)
    return {
        "input_ids": generator.integers(5, 400, [4, 12], np.int32),
        "input_mask": np.ones([4, 12], np.int32),
        "segment_ids": np.zeros([4, 12], np.int32),
        "masked_lm_positions": np.array(
            [[1, 5, 9], [2, 3, 0], [7, 0, 0], [1, 2, 3]], np.int32
        ),
        "masked_lm_ids": generator.integers(5, 400, [4, 3], np.int32),
        "masked_lm_weights": np.array(
            [[1, 1, 1], [1, 1, 0], [1, 0, 0], [1, 1, 1]], np.float32
        ),
        "next_sentence_labels": np.array([[0], [1], [1], [0]], np.int32),
        "is_real_example": np.array([1, 1, 1, 0], np.int32),
    }


def compute(model, batch):
    batch = {name: tf.constant(value) for name, value in batch.items()}
    ratios = pretraining.OBJECTIVE.ratios(model, batch)
    assert set(ratios) == set(pretraining.OBJECTIVE.names)
    return {name: [float(x) for x in ratio] for name, ratio in ratios.items()}


def log_softmax(logits):
    logits = np.asarray(logits, np.float64)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def test_heads_have_the_names_of_the_original(model):
    names = {v.name.split(":")[0] for v in model.variables}
    encoder = {v.name.split(":")[0] for v in model.encoder.variables}
    assert names - encoder == {
        "cls/predictions/transform/dense/kernel",
        "cls/predictions/transform/dense/bias",
        "cls/predictions/transform/LayerNorm/beta",
        "cls/predictions/transform/LayerNorm/gamma",
        "cls/predictions/output_bias",
        "cls/seq_relationship/output_weights",
        "cls/seq_relationship/output_bias",
    }


def test_logits_are_those_of_the_masked_positions(model):
    generator = np.random.default_rng(3)
    sequence = generator.normal(size=[2, 6, 16]).astype(np.float32)
    positions = tf.constant([[4, 1], [0, 5]])
    logits = model.masked_lm_logits(tf.constant(sequence), positions)
    for row, column, position in ((0, 0, 4), (0, 1, 1), (1, 0, 0), (1, 1, 5)):
        alone = model.masked_lm_logits(
            tf.constant(sequence[row : row + 1, position : position + 1]),
            tf.constant([[0]]),
        )
        np.testing.assert_allclose(
            logits[row, column], alone[0, 0], rtol=1e-5, atol=1e-6
        )


def test_output_table_is_the_word_table(model):
    sequence = tf.random.stateless_normal([1, 1, 16], [1, 2])
    before = model.masked_lm_logits(sequence, tf.constant([[0]]))
    table = model.encoder.embeddings.word_embeddings
    table.assign(2 * table)
    after = model.masked_lm_logits(sequence, tf.constant([[0]]))
    np.testing.assert_allclose(after, 2 * before, rtol=1e-5)


def test_losses_equal_plain_numpy(model, batch):
    ratios = compute(model, batch)
    outputs = model({k: tf.constant(v) for k, v in batch.items()})
    words = log_softmax(outputs["masked_lm_logits"])
    order = log_softmax(outputs["sentence_order_logits"])
    counted = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (2, 0)]
    loss = -sum(words[r, p, batch["masked_lm_ids"][r, p]] for r, p in counted)
    correct = sum(
        words[r, p].argmax() == batch["masked_lm_ids"][r, p] for r, p in counted
    )
    labels = batch["next_sentence_labels"][:, 0]
    order_loss = -sum(order[row, labels[row]] for row in range(3))
    order_correct = sum(order[row].argmax() == labels[row] for row in range(3))
    for name, expected in {
        "masked_lm_loss": (loss, 6),
        "masked_lm_accuracy": (correct, 6),
        "sentence_order_loss": (order_loss, 3),
        "sentence_order_accuracy": (order_correct, 3),
    }.items():
        np.testing.assert_allclose(ratios[name], expected, rtol=LOSS_RTOL)


def test_predictions_of_weight_zero_do_not_count(model, batch):
    expected = compute(model, batch)
    batch["masked_lm_ids"][2, 1:] = 399
    batch["masked_lm_positions"][2, 1:] = 11
    assert compute(model, batch) == expected


def test_padding_examples_do_not_count(model, batch):
    expected = compute(model, batch)
    batch["input_ids"][3] = 7
    batch["masked_lm_ids"][3] = 7
    batch["next_sentence_labels"][3] = 1
    assert compute(model, batch) == expected


def test_examples_without_a_label_count_for_masked_words_only(model, batch):
    expected = compute(model, batch)
    batch["is_real_example"][1] = 0
    others = compute(model, batch)
    batch["is_real_example"][1] = 1
    batch["next_sentence_labels"][1] = layouts.NO_LABEL
    actual = compute(model, batch)
    for name, ratio in actual.items():
        same = expected if name.startswith("masked_lm") else others
        assert ratio == same[name]


def test_batch_without_labels_has_a_finite_loss_and_gradient(model, batch):
    batch["next_sentence_labels"][:] = layouts.NO_LABEL
    batch = {name: tf.constant(value) for name, value in batch.items()}
    objective = pretraining.OBJECTIVE
    with tf.GradientTape() as tape:
        ratios = objective.ratios(model, batch)
        loss = objective.total(ratios, objective.denominators(batch))
    assert [float(x) for x in ratios["sentence_order_loss"]] == [0, 0]
    words = ratios["masked_lm_loss"]
    expected = float(words.numerator) / (float(words.denominator) + 1e-5)
    np.testing.assert_allclose(loss, expected, rtol=1e-6)
    gradient = tape.gradient(loss, model.order_weights)
    assert not np.any(gradient)


def test_batch_without_predictions_has_a_finite_loss(model, batch):
    batch["masked_lm_weights"][:] = 0
    assert compute(model, batch)["masked_lm_loss"] == [0, 0]
    objective = pretraining.OBJECTIVE
    loss = objective.total(
        objective.ratios(model, batch), objective.denominators(batch)
    )
    assert 0 < float(loss) < 10  # Sentence order alone.


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [("sop", "sentence_order"), ("nsp", "next_sentence"), ("none", None)],
)
def test_total_is_the_weighted_sum_of_its_losses(model, batch, kind, sentence):
    objective = pretraining.make_objective(kind, 3.0, 0.5)
    names = ["masked_lm_loss", "masked_lm_accuracy"]
    if sentence:
        names = [names[0], f"{sentence}_loss", names[1], f"{sentence}_accuracy"]
    assert list(objective.names) == names
    batch = {name: tf.constant(value) for name, value in batch.items()}
    sums = objective.denominators(batch)
    ratios = objective.ratios(model, batch)
    loss = {name: float(ratios[name].numerator) for name in objective.losses}
    # Six words, and 1e-5 of the original; three pairs of segments.
    expected = 3.0 * loss["masked_lm_loss"] / (6 + 1e-5)
    if sentence:
        expected += 0.5 * loss[f"{sentence}_loss"] / 3
    np.testing.assert_allclose(
        objective.total(ratios, sums), expected, rtol=1e-6
    )


def test_loss_without_predictions_has_an_epsilon():
    objective = pretraining.make_objective("none")
    ratios = {"masked_lm_loss": objectives.Ratio(2.0, 0.0)}
    total = objective.total(ratios, {"masked_lm_loss": 0.0})
    np.testing.assert_allclose(total, 2e5, rtol=1e-6)


def test_new_heads_start_from_a_truncated_normal(small_config):
    config = dataclasses.replace(small_config, initializer_range=0.05)
    model = pretraining.AlbertPretrainer(modeling.AlbertModel(config))
    encoder = {v.ref() for v in model.encoder.variables}
    head = {v.name[:-2]: v for v in model.variables if v.ref() not in encoder}
    assert len(head) == 7
    initial_weights.assert_initial(head, 0.05)


def test_instances_of_one_row_have_the_losses_of_their_own_rows(model, batch):
    """Of 12, 6, 9 and 4 tokens, in rows of 18 and 13 tokens."""
    lengths = np.array([12, 6, 9, 4])
    batch["input_mask"] = (np.arange(12) < lengths[:, None]).astype(np.int32)
    batch["masked_lm_positions"] %= lengths[:, None]
    batch["next_sentence_labels"][1] = layouts.NO_LABEL
    batch["is_real_example"][:] = 1

    def joined(name, *pairs, width, offset=0):
        rows = [
            np.concatenate([batch[name][a][:n] + m * offset for a, n, m in row])
            for row in pairs
        ]
        return np.stack([np.pad(r, (0, width - len(r))) for r in rows])

    tokens = [[(0, 12, 0), (1, 6, 1)], [(2, 9, 0), (3, 4, 1)]]
    pieces = {
        name: joined(name, *tokens, width=18)
        for name in ("input_ids", "segment_ids")
    }
    words = [[(0, 3, 0), (1, 2, 12)], [(2, 1, 0), (3, 3, 9)]]
    hidden = {
        name: joined(name, *words, width=5, offset=name.endswith("positions"))
        for name in ("masked_lm_positions", "masked_lm_ids")
    }
    hidden["masked_lm_weights"] = np.array(
        [[1, 1, 1, 1, 1], [1, 1, 1, 1, 0]], np.float32
    )
    packed = {
        **pieces,
        **hidden,
        "position_ids": np.array(
            [[*range(12), *range(6)], [*range(9), *range(9)]], np.int32
        ),
        "instance_ids": np.repeat(
            [[1, 2, 0], [1, 2, 0]], [12, 6, 0], axis=1
        ).astype(np.int32),
        "cls_positions": np.array([[0, 12, 0], [0, 9, 0]], np.int32),
        "next_sentence_labels": np.array([[0, -1, -1], [1, 0, -1]], np.int32),
        "is_real_example": np.ones(2, np.int32),
    }
    packed["instance_ids"][1] = np.repeat([1, 2, 0], [9, 4, 5])
    for name, ratio in compute(model, batch).items():
        assert compute(model, packed)[name] == pytest.approx(
            ratio, rel=LOSS_RTOL
        ), name


@pytest.mark.parametrize("sentence_order", [False, True])
@pytest.mark.parametrize("unknown", ["masked_lm_positions", "cls_positions"])
def test_widths_may_be_unknown_when_the_graph_is_built(
    small_config, batch, sentence_order, unknown
):
    model = pretraining.AlbertPretrainer(
        modeling.AlbertModel(small_config), sentence_order
    )
    inputs = {
        name: tf.constant(batch[name])
        for name in ("input_ids", "masked_lm_positions")
    }
    inputs["cls_positions"] = tf.constant([[0, 6], [0, 5], [0, 9], [0, 3]])
    specs = {
        name: tf.TensorSpec(t.shape, t.dtype) for name, t in inputs.items()
    }
    specs[unknown] = tf.TensorSpec([None, None], tf.int32)
    call = tf.function(model, input_signature=[specs])
    expected = model(inputs)
    found = call(inputs)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name].shape == value.shape
        np.testing.assert_allclose(found[name], value, atol=1e-5)
