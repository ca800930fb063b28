"""What a student learns from a teacher: against NumPy, for given outputs."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.losses import (
    distillation,
    embedding_objectives,
    label_objectives,
    token_states,
)
from albert_tf.tasks.squad import model as squad_model
from tests.albert_tf.model import passes
from tests.conftest import LOSS_RTOL

SIMILAR = {"similarity_loss": 1.0}
REAL = np.array([1, 1, 1, 0])  # The last example is padding.


def draw(*shape):
    """Numbers that bfloat16 holds exactly."""
    x = np.random.default_rng(len(shape)).normal(size=shape)
    return np.round(8 * x).astype("f4") / 8


def model_of(**outputs):
    def model(batch, training, dropout_seed):
        assert not any(name.startswith("teacher_") for name in batch)
        return {
            name: tf.cast(value, "bfloat16" if "logits" in name else "float32")
            for name, value in outputs.items()
        }

    return model


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def divergence(teacher, student, temperature=1.0):
    p, q = (softmax(x.astype("f8") / temperature) for x in (teacher, student))
    return temperature**2 * (p * np.log(p / q)).sum(-1)


@pytest.mark.parametrize("temperature", [1.0, 4.0])
def test_classes(temperature):
    """The divergence beside the labels' loss, in given shares."""
    student, teacher = draw(4, 3), draw(3, 4).T.copy()
    batch = {
        "label_ids": np.array([0, 2, 1, 0]),
        "teacher_logits": teacher,
        "is_real_example": REAL,
    }
    hard = label_objectives.CLASSIFICATION
    objective = distillation.soft_labels(hard, ["logits"], 0.3, temperature)
    assert objective.losses == {
        "classification_loss": 0.7,
        "teacher_loss": 0.3,
    }
    found = passes.compute(objective, model_of(logits=student), batch)
    expected = divergence(teacher, student, temperature)[:3].sum()
    np.testing.assert_allclose(
        found["teacher_loss"], [expected, 3], rtol=LOSS_RTOL
    )
    labels = {k: v for k, v in batch.items() if k != "teacher_logits"}
    alone = passes.compute(hard, model_of(logits=student), labels)
    for name, sums in alone.items():
        np.testing.assert_array_equal(found[name], sums)
    same = passes.compute(objective, model_of(logits=teacher), batch)
    assert same["teacher_loss"][0] == pytest.approx(0, abs=1e-6)


def test_tags():
    """The mean over the words of a text; other tokens do not count.

    The teacher's text has more padding.
    """
    student, teacher = draw(4, 5, 3), draw(7, 4, 3).swapaxes(0, 1).copy()
    labels = np.array([[0, 2, 0, 1, 0], [0, 3, 0, 0, 0], [0] * 5, [1] * 5])
    batch = {
        "label_ids": labels,
        "teacher_logits": teacher,
        "is_real_example": REAL,
    }
    objective = distillation.soft_labels(
        label_objectives.TOKENS, ["logits"], 0.5, 2.0
    )
    found = passes.compute(objective, model_of(logits=student), batch)
    by_token = divergence(teacher[:, :5], student, 2.0)
    expected = (by_token[0, 1] + by_token[0, 3]) / 2 + by_token[1, 1]
    np.testing.assert_allclose(
        found["teacher_loss"], [expected, 3], rtol=LOSS_RTOL
    )


@pytest.mark.parametrize("name", ["logits", "cls_logits"])
def test_numbers_and_answers_of_yes_or_no(name):
    """A squared error; the divergence of two classes, one of them at 0."""
    shape = (4, 1) if name == "logits" else (4,)
    student, teacher = draw(*shape), draw(*shape)[::-1].copy()
    objective = distillation.soft_labels(
        label_objectives.REGRESSION, [name], 1.0, 2.0
    )
    batch = {
        "label_ids": np.zeros(4, "f4"),
        f"teacher_{name}": teacher,
        "is_real_example": REAL,
    }
    model = model_of(**{"logits": draw(4, 1), name: student})
    found = passes.compute(objective, model, batch)
    expected = (student - teacher)[:3] ** 2
    if name == "cls_logits":
        two = [np.stack([np.zeros(4), x], -1) for x in (teacher, student)]
        expected = divergence(*two, 2.0)[:3]
    np.testing.assert_allclose(
        found["teacher_loss"], [expected.sum(), 3], rtol=LOSS_RTOL
    )


def test_spans():
    """Tokens that can be no answer count for neither; the mean of both ends."""
    names = "start_logits", "end_logits"
    student = {name: draw(4, 6) + n for n, name in enumerate(names)}
    teacher = {name: draw(6, 4).T.copy() - n for n, name in enumerate(names)}
    masked = np.arange(6) > 3
    batch = {
        "start_positions": np.array([1, 0, 2, 0]),
        "end_positions": np.array([1, 0, 3, 0]),
        "p_mask": np.repeat(masked[None], 4, 0).astype("i4"),
        "is_real_example": REAL,
        **{f"teacher_{name}": value for name, value in teacher.items()},
    }
    objective = distillation.soft_labels(squad_model.V1, names, 0.5, 1.0)
    found = passes.compute(objective, model_of(**student), batch)
    expected = sum(
        divergence(teacher[name][:, :4], student[name][:, :4])[:3].sum() / 2
        for name in names
    )
    np.testing.assert_allclose(
        found["teacher_loss"], [expected, 3], rtol=LOSS_RTOL
    )


def of_length_1(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def similarity(s, t, count):
    difference = (s @ s.T - t @ t.T)[:count, :count]
    return (difference**2).sum() / count


def order(s, t, count):
    """Of all pairs (i, j) with all (i + 1, k), of different texts each."""
    total = 0.0
    for i in range(count):
        n, found = (i + 1) % len(s), [0.0] * (i + 1 == count < len(s))
        for j, k in itertools.product(range(count), repeat=2):
            if n < count and j != i and k != n and {i, j} != {n, k}:
                pairs = (s[i] @ s[j], s[n] @ s[k])
                is_right = t[i] @ t[j] > t[n] @ t[k]
                more, less = pairs if is_right else pairs[::-1]
                found.append(max(0.0, less - more + 0.015))
        total += np.mean(found)
    return total


@pytest.mark.parametrize("count", [4, 5])
def test_vectors(count):
    """The prefixes, too, where pairs of texts are compared."""
    student = of_length_1(draw(5, 6)[:, :5])
    teacher = of_length_1(draw(5, 6)[::-1, 1:])
    weights = {"similarity_loss": 10.0, "order_loss": 2.0}
    alone = distillation.vectors(weights)
    assert alone.losses == {"vector_loss": 1.0, **weights}
    objective = distillation.vectors(weights, (2, 4))
    batch = {
        "teacher_embedding": teacher,
        "is_real_example": np.arange(5) < count,
    }
    found = passes.compute(objective, model_of(embedding=student), batch)
    s, t = student.astype("f8"), teacher.astype("f8")
    expected = {"vector_loss": (1 - (s * t).sum(-1))[:count].sum()}
    for name, function in (("similarity", similarity), ("order", order)):
        expected[f"{name}_loss"] = function(s, t, count)
        for size in 2, 4:
            prefix = of_length_1(s[:, :size])
            expected[f"{name}_loss_{size}"] = function(prefix, t, count)
    assert found.keys() == objective.losses.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], [value, count], rtol=LOSS_RTOL)
        whole = weights.get("_".join(name.split("_")[:2]), 3.0)
        assert objective.losses[name] == pytest.approx(whole / 3)


@pytest.mark.parametrize("sizes", [(), (2, 4)])
def test_margins(sizes):
    """Those of cosines over the temperature, the mean over the prefixes."""
    student, scores = of_length_1(draw(4, 3, 5)), draw(4, 2)
    batch = {
        "label_ids": np.zeros(4, "f4"),
        "teacher_scores": scores,
        "is_real_example": REAL,
    }
    objective = distillation.margins(
        embedding_objectives.COSINE, 0.3, 0.2, sizes
    )
    assert objective.losses == {"cosine_loss": 0.7, "teacher_loss": 0.3}
    found = passes.compute(objective, model_of(embedding=student), batch)
    expected = 0.0
    for size in (*sizes, 5):
        first, near, far = np.moveaxis(of_length_1(student[..., :size]), 1, 0)
        margin = ((first * near).sum(-1) - (first * far).sum(-1)) / 0.2
        error = margin - (scores[:, 0] - scores[:, 1])
        expected += (error**2)[:3].sum() / (1 + len(sizes))
    np.testing.assert_allclose(
        found["teacher_loss"], [expected, 3], rtol=LOSS_RTOL
    )


def test_a_teacher_is_asked_outside_of_training_and_learns_nothing(monkeypatch):
    """Its states of the batch, without what it said before."""
    asked, weight = [], tf.Variable([2.0, 3.0])

    class Model:
        def encode(self, batch, training, seed):
            asked.append((sorted(batch), training, seed))
            return {"sequence_output": weight * tf.ones([2, 3, 2])}

        def vectors(self, sequence_output, mask):
            return sequence_output[:, 0]

    def product(student, teacher, mask):
        both = (one.outputs["sequence_output"] for one in (student, teacher))
        return tf.reduce_sum(tf.multiply(*both), -1)[:, 0] * mask[:, 0]

    monkeypatch.setattr(token_states, "LOSSES", {"x_loss": product})
    objective = distillation.vectors(
        SIMILAR, state_weights={"x_loss": 0.5}, teacher_model=Model()
    )
    batch = passes.tensors(
        {
            "input_mask": np.array([[1, 1, 0], [0, 1, 1]]),
            "teacher_embedding": np.ones([2, 2], "f4"),
            "is_real_example": np.ones(2),
        }
    )
    with tf.GradientTape() as tape:
        sums = objective.weighted_sums(Model(), batch, [1, 2])
        loss = sums["x_loss"].numerator
    assert loss == 2**2 + 3**2
    assert sums["vector_loss"].numerator == 2 * (1 - 2 - 3)
    # As if the teacher's part was constant.
    np.testing.assert_array_equal(tape.gradient(loss, weight), [2, 3])
    names = ["input_mask", "is_real_example"]
    assert asked == [(names, True, [1, 2]), (names, False, None)]
    alone = distillation.vectors(SIMILAR)
    assert objective.losses == {**alone.losses, "x_loss": 0.5}
