"""Losses of the states of tokens, against NumPy."""

import numpy as np
import pytest

from albert_tf.model.losses import distillation
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.tasks.embedding.model import AlbertEmbedder
from tests.albert_tf.model import passes
from tests.conftest import LOSS_RTOL, tiny_config

HEADS = 12  # The largest number up to 12 that divides both 24 and 48.


@pytest.fixture(scope="module")
def batch():
    real = np.array([1, 1, 0])  # The last example is padding.
    vectors = np.full([3, 48], 48**-0.5, "f4")
    arrays = {name: x.numpy() for name, x in passes.make_batch().items()}
    return arrays | {
        "is_real_example": real,
        "teacher_embedding": vectors,
    }


@pytest.fixture(scope="module", params=[1, 2])
def pair(request):
    """A student with a projection, and a teacher without one."""
    configs = (
        tiny_config(
            num_hidden_layers=request.param,
            hidden_size=24,
            num_attention_heads=2,
        ),
        tiny_config(num_hidden_layers=3, hidden_size=48, num_attention_heads=4),
    )
    student, teacher = map(AlbertModel, configs)
    models = AlbertEmbedder(student, "mean", 48), AlbertEmbedder(teacher)
    return [passes.fill(model) for model in models]


def encoded(model, batch):
    """What the first layer reads, and what each layer gives."""
    outputs = model.encode(batch, False, None)
    x = model.encoder.embedding_mapping(outputs["embedding_output"])
    states = x, *outputs["all_encoder_layers"]
    return [x.numpy().astype("f8") for x in states]


def computed(weights, student, teacher, batch):
    objective = distillation.vectors(
        {"similarity_loss": 1.0}, state_weights=weights, teacher_model=teacher
    )
    return passes.compute(objective, student, batch)


def token_mean(values, batch):
    """Over the tokens of each text; the sum over the real examples."""
    mask = batch["input_mask"]
    means = (values * mask).sum(-1) / mask.sum(-1)
    return means[:2].sum()


def test_hidden_states(pair, batch):
    student, teacher = pair
    x, y = (encoded(model, batch)[-1] for model in pair)
    weights = [w.numpy() for w in student.projection.weights]
    weights.sort(key=np.ndim)
    x = x @ weights[1] + weights[0]
    norms = np.linalg.norm(x, axis=-1) * np.linalg.norm(y, axis=-1)
    expected = token_mean(1 - (x * y).sum(-1) / norms, batch)
    found = computed({"hidden_loss": 2.0}, student, teacher, batch)
    np.testing.assert_allclose(
        found["hidden_loss"], [expected, 2], rtol=LOSS_RTOL
    )


def log_relations(model, batch, name):
    dense = getattr(model.encoder.transformer_layers[-1].attention, name)
    kernel, bias = sorted((w.numpy() for w in dense.weights), key=np.ndim)[::-1]
    x = encoded(model, batch)[-2] @ kernel + bias
    width = x.shape[-1] // HEADS
    rows = []
    for head in range(HEADS):
        one = x[..., head * width : (head + 1) * width]
        scores = one @ one.swapaxes(-1, -2) / np.sqrt(width)
        e = np.exp(scores) * batch["input_mask"][:, None]
        rows.append(e / e.sum(-1, keepdims=True))
    return np.stack(rows, 1)


def test_relations(pair, batch):
    student, teacher = pair
    divergences = []
    for name in ("query", "key", "value"):
        q, p = (log_relations(model, batch, name) for model in pair)
        ratio = np.log(np.where(p > 0, p, 1) / np.where(q > 0, q, 1))
        divergences.append((p * ratio).sum(-1).mean(1))
    expected = token_mean(np.mean(divergences, 0), batch)
    weights = {"relation_loss": 0.5}
    found = computed(weights, student, teacher, batch)
    np.testing.assert_allclose(
        found["relation_loss"], [expected, 2], rtol=LOSS_RTOL
    )
    objective = distillation.vectors(
        {"similarity_loss": 1.0}, state_weights=weights, teacher_model=teacher
    )
    assert objective.losses["relation_loss"] == 0.5
