"""The classifier: parity with the recorded original, and its dropout."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model import modeling
from albert_tf.model.checkpoints import checkpoint_reader, restoring
from albert_tf.model.heads import classification
from tests.albert_tf.model import initial_weights
from tests.conftest import FIXTURES, PARITY_ATOL

RECORDING = FIXTURES / "original_head_classifier"


@pytest.fixture(scope="module")
def recorded():
    return dict(np.load(RECORDING / "fixture.npz"))


@pytest.fixture(scope="module")
def restored():
    """The recorded classifier; its head is found by name."""
    config = modeling.AlbertConfig.from_json_file(
        str(RECORDING / "albert_config.json")
    )
    model = classification.AlbertClassifier(modeling.AlbertModel(config), 3)
    restoring.restore(model, str(RECORDING / "model.ckpt-0"))
    return model


@pytest.fixture(scope="module")
def batch(recorded):
    names = ("input_ids", "input_mask", "segment_ids", "label_ids")
    values = {name: tf.constant(recorded[name]) for name in names}
    return {**values, "is_real_example": tf.ones([3], tf.int32)}


def test_logits_equal_the_original(restored, batch, recorded):
    logits = restored(batch)["logits"]
    np.testing.assert_allclose(
        logits, recorded["logits"], atol=PARITY_ATOL, rtol=0
    )
    np.testing.assert_allclose(
        tf.nn.softmax(logits),
        recorded["probabilities"],
        atol=PARITY_ATOL,
        rtol=0,
    )
    assert logits.numpy().argmax(-1).tolist() == [2, 2, 2]


def test_loss_equals_the_original(restored, batch, recorded):
    ratios = classification.OBJECTIVE.ratios(restored, batch)
    loss = ratios["classification_loss"]
    np.testing.assert_allclose(
        loss.numerator / loss.denominator,
        recorded["loss"],
        atol=PARITY_ATOL,
        rtol=0,
    )
    # The labels are 2, 1, 1, and 2 is predicted each time.
    assert tuple(map(float, ratios["accuracy"])) == (1, 3)


def test_padding_examples_do_not_count(restored, batch, recorded):
    first = {**batch, "is_real_example": tf.constant([1, 0, 0])}
    ratios = classification.OBJECTIVE.ratios(restored, first)
    loss = ratios["classification_loss"]
    np.testing.assert_allclose(
        loss.numerator,
        recorded["per_example_loss"][0],
        atol=PARITY_ATOL,
        rtol=0,
    )
    assert float(loss.denominator) == 1
    assert tuple(map(float, ratios["accuracy"])) == (1, 1)


def test_head_carries_the_names_of_the_original(restored):
    names = {checkpoint_reader.name_of(v): v.shape for v in restored.variables}
    assert names["output_weights"] == [3, 48]
    assert names["output_bias"] == [3]


def test_new_head_starts_from_its_own_range(small_config):
    config = dataclasses.replace(small_config, initializer_range=0.05)
    model = classification.AlbertClassifier(modeling.AlbertModel(config), 9)
    head = {"weights": model.output_weights, "bias": model.output_bias}
    initial_weights.assert_initial(head, 0.02)


def logits(model, batch, seed=None):
    seed = None if seed is None else tf.constant([12345, seed])
    return model(batch, training=seed is not None, dropout_seed=seed)[
        "logits"
    ].numpy()


def test_dropout_acts_in_training_only(restored, batch):
    # The recorded config has no dropout of its own: this is the head's.
    still = logits(restored, batch)
    np.testing.assert_array_equal(still, logits(restored, batch))
    assert np.abs(still - logits(restored, batch, seed=1)).max() > 1e-3


def test_dropout_follows_its_seed(restored, batch):
    first = logits(restored, batch, seed=1)
    np.testing.assert_array_equal(first, logits(restored, batch, seed=1))
    assert (first != logits(restored, batch, seed=2)).any()


def test_dropout_drops_a_tenth_of_the_pooled_output(small_config):
    # With the identity as its weights, the head shows what it was given.
    size = small_config.hidden_size
    encoder = modeling.AlbertModel(small_config)
    model = classification.AlbertClassifier(encoder, size)
    # Drawn by a seed: next to 0, a quotient shows rounding.
    generator = np.random.default_rng(1)
    for variable in encoder.variables:
        variable.assign(generator.normal(0, 0.3, variable.shape))
    model.output_weights.assign(tf.eye(size))
    batch = {"input_ids": tf.ones([64, 4], tf.int32)}
    still = logits(model, batch)
    quotients = np.concatenate(
        [logits(model, batch, seed=s) / still for s in range(8)]
    )
    kept = quotients > 0.5
    np.testing.assert_allclose(quotients[kept], 1 / 0.9, rtol=1e-4)
    np.testing.assert_array_equal(quotients[~kept], 0)
    # 8,192 draws: the standard error of the share is 0.0033.
    assert kept.mean() == pytest.approx(0.9, abs=0.015)


# Multiple choice.


def choices_of(small_config, at_once, dropout=0.0):
    encoder = modeling.AlbertModel(small_config)
    model = classification.AlbertMultipleChoice(
        encoder, dropout, choices_at_once=at_once
    )
    generator = np.random.default_rng(1)
    for variable in model.variables:
        variable.assign(generator.normal(0, 0.3, variable.shape))
    return model


@pytest.fixture(scope="module")
def questions(small_config):
    generator = np.random.default_rng(2)
    shape = [3, 4, 10]
    return {
        "input_ids": tf.constant(
            generator.integers(5, small_config.vocab_size, shape), tf.int32
        ),
        "input_mask": tf.ones(shape, tf.int32),
        "segment_ids": tf.constant([[[0] * 5 + [1] * 5] * 4] * 3, tf.int32),
        "label_ids": tf.constant([0, 3, 2]),
        "is_real_example": tf.ones([3], tf.int32),
    }


def gradients(model, batch):
    """Loss, gradients, and the squares of the rows of looked-up tables."""

    @tf.function
    def compute():
        objective = classification.OBJECTIVE
        with tf.GradientTape() as tape:
            ratios = objective.ratios(model, batch, tf.constant([1, 2]))
            loss = objective.total(ratios, objective.denominators(batch))
        found = tape.gradient(loss, model.trainable_variables)
        rows = [
            tf.reduce_sum(tf.square(g.values))
            for g in found
            if isinstance(g, tf.IndexedSlices)
        ]
        return loss, [tf.convert_to_tensor(g) for g in found], rows

    return compute()


@pytest.mark.parametrize("at_once", [1, 2, 4])
def test_fewer_choices_at_once_give_the_same(small_config, questions, at_once):
    whole = choices_of(small_config, None)
    parts = choices_of(small_config, at_once)
    np.testing.assert_allclose(
        parts(questions)["logits"],
        whole(questions)["logits"],
        atol=PARITY_ATOL,
        rtol=0,
    )
    # The recorded norm counts every look-up by itself, so these must stay.
    for ours, theirs in zip(
        tf.nest.flatten(gradients(parts, questions)),
        tf.nest.flatten(gradients(whole, questions)),
        strict=True,
    ):
        np.testing.assert_allclose(ours, theirs, atol=PARITY_ATOL, rtol=1e-4)


def test_each_part_of_a_question_has_its_own_dropout(small_config, questions):
    """Equal choices differ by dropout only, in whichever part they are."""
    model = choices_of(small_config, 1, dropout=0.5)
    same = {
        k: tf.repeat(v[:, :1], 4, 1)
        for k, v in questions.items()
        if k in ("input_ids", "input_mask", "segment_ids")
    }
    seed = tf.constant([1, 2])
    scores = model(same, training=True, dropout_seed=seed)["logits"].numpy()
    assert len(np.unique(scores[0])) == 4
    again = model(same, training=True, dropout_seed=seed)["logits"]
    np.testing.assert_array_equal(scores, again)


def test_gradient_repeats_the_dropout_of_the_loss(small_config, questions):
    """Taking the choices one by one computes each of them a second time."""
    model = choices_of(small_config, 1, dropout=0.5)
    loss, found, _ = gradients(model, questions)
    weight = model.scorer.output_weights
    index = [v is weight for v in model.trainable_variables].index(True)
    step = 1e-3 * found[index] / tf.norm(found[index])
    weight.assign_add(step)
    higher = gradients(model, questions)[0]
    assert float(higher - loss) == pytest.approx(
        1e-3 * float(tf.norm(found[index])), rel=0.05
    )


def test_number_of_parts_must_divide_the_choices(small_config, questions):
    with pytest.raises(ValueError, match="3 does not divide 4 choices"):
        choices_of(small_config, 3)(questions)


def test_padding_choices_are_never_chosen(small_config, questions):
    model = choices_of(small_config, None)
    empty = tf.constant([[[1], [1], [0], [0]]] * 3)
    batch = {**questions, "input_mask": questions["input_mask"] * empty}
    odds = tf.nn.softmax(model(batch)["logits"]).numpy()
    assert (odds[:, 2:] == 0).all()
    np.testing.assert_allclose(odds.sum(1), 1, rtol=1e-6)
    two = {k: v[:, :2] for k, v in questions.items() if v.shape.rank == 3}
    np.testing.assert_allclose(
        odds[:, :2],
        tf.nn.softmax(model(two)["logits"]),
        atol=PARITY_ATOL,
        rtol=0,
    )
