"""Quantization-aware training: gradients, evaluations, what is converted."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import convert_checkpoint
from albert_tf.model import int8_weights
from albert_tf.model.checkpoints import checkpoint_reader, restoring
from albert_tf.training import rounding
from tests.albert_tf.model import passes
from tests.albert_tf.training import tiny_training

NAMES = ["bert/pooler/dense/kernel", "bert/embeddings/word_embeddings"]


def random_matrix():
    """Rows of very different size, and one of zeros."""
    random = np.random.default_rng(0)
    sizes = 10.0 ** random.uniform(-32, 30, [50, 1])
    sizes[7] = 0
    return (random.standard_normal([50, 300]) * sizes).astype(np.float32)


def rounded(weights):
    return {
        name: np.multiply(*int8_weights.quantize(name, value))
        if value.ndim == 2
        else value
        for name, value in weights.items()
    }


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("compiled", [False, True])
def test_graphs_round_as_defined(name, compiled):
    matrix = random_matrix()
    round_ = tf.function(
        lambda x: rounding.rounded(name, x), jit_compile=compiled
    )
    expected = rounded({name: matrix})[name]
    np.testing.assert_array_equal(round_(matrix), expected)


def test_a_number_that_is_not_finite_stays_so():
    """Training skips the update then."""
    for bad in (np.nan, np.inf, -np.inf):
        matrix = random_matrix()
        matrix[3, 4] = bad
        assert not np.isfinite(rounding.rounded(NAMES[1], matrix)[3, 4])


def make_update(trainer, start):
    """A function that makes an update and returns its numbers."""
    step = dataclasses.replace(trainer._update, round_from=start)
    batch = next(iter(tiny_training.batches()))
    strategy = trainer.model.distribute_strategy
    return tf.function(lambda: strategy.run(step, [batch]), autograph=False)


@pytest.mark.parametrize(
    "changes",
    [
        {"precision": "bfloat16", "gradient_accumulation_steps": 2},
        pytest.param(
            {"objective": "rtd", "recompute": True, "optimizer": "muon"},
            marks=pytest.mark.slow,
        ),
    ],
)
def test_gradients_are_those_of_rounded_weights(make_trainer, changes):
    """From the start on, and added to weights in float32."""
    aware, off = (
        make_trainer(name, dropout=0.1, **changes) for name in ("aware", "off")
    )
    updates = make_update(aware, 0.5), make_update(off, None)
    for trainer in (aware, off):
        trainer.optimizer.iterations.assign(2)  # Of 6.
    np.testing.assert_array_equal(*(update() for update in updates))
    before = passes.values(aware.model)
    passes.assert_same(passes.values(off.model), before)
    start = rounded(before)
    for variable in off.model.variables:
        variable.assign(start[checkpoint_reader.name_of(variable)])
    np.testing.assert_array_equal(*(update() for update in updates))
    for name in ("adam_m", "adam_v"):
        moments = (getattr(t.optimizer, name) for t in (aware, off))
        for one, other in zip(*moments, strict=True):
            np.testing.assert_array_equal(one, other)
    after = passes.values(aware.model)
    for name, value in passes.values(off.model).items():
        moved = value - start[name], after[name] - before[name]
        np.testing.assert_allclose(*moved, atol=1e-4)
        if value.ndim == 2:
            assert (rounded(after)[name] != after[name]).any()


def test_what_is_evaluated_is_what_is_converted(make_trainer, tmp_path):
    """From the best checkpoint, and from the last, which has all bits."""
    trainer = make_trainer(
        weight_precision="int8", quantize_from=0.5, precision="bfloat16"
    )
    examples = tiny_training.padded(4, 4)
    evaluations = []

    def evaluate():
        evaluations.append(trainer.evaluate(examples))
        return evaluations[-1]

    tiny_training.train(trainer, tiny_training.STEPS, evaluate)
    weights = passes.values(trainer.model)
    outputs = trainer.predict(examples)
    passes.assert_same(passes.values(trainer.model), weights)
    folder = tmp_path / "run"
    (folder / "albert_config.json").write_text(
        trainer.model.encoder.config.to_json()
    )
    assert min(evaluations, key=lambda e: e["loss"]) == evaluations[-1]
    plain = make_trainer("plain", precision="bfloat16")
    for name, exact in (("ckpt-6", weights), ("ckpt-best", rounded(weights))):
        prefix, target = str(folder / f"model.{name}"), tmp_path / name
        stored = checkpoint_reader.read(prefix)
        passes.assert_same(stored.load(exact), exact)
        convert_checkpoint.run(
            convert_checkpoint.ConvertOptions(
                from_=prefix, to=str(target), format="int8"
            )
        )
        restoring.restore(plain.model, str(target))
        passes.assert_same(plain.predict(examples), outputs)
        assert plain.evaluate(examples) == evaluations[-1]
