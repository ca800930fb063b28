"""Schedule, AdamW and LAMB against their formulas."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from albert_tf.model import model_options
from albert_tf.model.heads import classification, pretraining
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.model.optimizers import muon, optimization
from tests.albert_tf.model import passes

# A float32 rate or update against float64.
RTOL = 1e-6


def make_schedule(steps=125_000, warmup=3125, **options):
    return optimization.WarmupPolynomialDecay(
        model_options.OptimizerOptions(**options), steps, warmup
    )


@pytest.mark.parametrize(
    ("step", "rate"),
    [
        (0, 0.0),
        (1, 5.632e-7),
        (3124, 1.75943680e-3),
        (3125, 1.716e-3),
        (62_500, 8.8e-4),
        (125_000, 0.0),
        (130_000, 0.0),
    ],
)
def test_default_schedule(step, rate):
    actual = make_schedule()(tf.constant(step, tf.int64))
    np.testing.assert_allclose(actual, rate, rtol=RTOL)


@pytest.mark.parametrize(
    ("options", "warmup", "rates"),
    [
        ({}, 0, [1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4]),
        ({"poly_power": 2.0}, 0, [1.0, 0.81, 0.64, 0.49, 0.36, 0.25, 0.16]),
        # Before the warm-up begins: that of the decay.
        ({"start_warmup_step": 3}, 2, [1.0, 0.9, 0.8, 0.0, 0.5, 0.5, 0.4]),
        # In the original it is negative.
        (
            {"start_warmup_step": 3, "original_start_warmup": True},
            2,
            [-1.5, -1.0, -0.5, 0.0, 0.5, 0.5, 0.4],
        ),
    ],
)
def test_rates_of_ten_steps(options, warmup, rates):
    schedule = make_schedule(10, warmup, learning_rate=1.0, **options)
    found = [float(schedule(tf.constant(step))) for step in range(7)]
    np.testing.assert_allclose(found, rates, rtol=RTOL)
    assert schedule(tf.constant(10)) == 0


# One variable of each kind, and gradients for four updates.

START = {
    "layer/kernel": [[0.5, -1.5], [2.0, 0.25]],
    "layer/bias": [0.3, -0.2],
    "zero/kernel": [0.0, 0.0],
    "layer_norm/gamma": [0.7, 1.2],
    # Trust ratios of about 30 and 0.001.
    "large/kernel": [80.0, -60.0],
    "small/kernel": [0.002, 0.003],
}
GRADIENTS = [
    {
        name: np.random.default_rng(step).normal(size=np.shape(value))
        for name, value in START.items()
    }
    for step in range(4)
]
RATES = [0.0, 0.01, 0.02, 0.015]


class TableSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """The rate of every update."""

    def __call__(self, step):
        return tf.gather(tf.constant(RATES, tf.float32), step)


def expected_weights(name, adapts, corrected, beta):
    """Updates in float64; original-release.md 3.3 and 3.4."""
    w = np.array(START[name])
    m = v = np.zeros_like(w)
    for t, rate in enumerate(RATES, start=1):
        gradients = GRADIENTS[t - 1]
        g = 0.5 * gradients[name].astype(np.float32).astype(np.float64)
        m = 0.9 * m + 0.1 * g
        v = beta * v + (1 - beta) * g**2
        m_scale, v_scale = 1.0, 1.0
        if corrected:
            m_scale, v_scale = 1 - 0.9**t, 1 - beta**t
        u = m / m_scale / (np.sqrt(v / v_scale) + 1e-6)
        ratio = 1.0
        if name not in ("layer/bias", "layer_norm/gamma"):
            u = u + 0.01 * w
            norms = np.linalg.norm(w), np.linalg.norm(u)
            if adapts and all(norms):
                ratio = norms[0] / norms[1]
        w = w - rate * ratio * u
    return w


def after_updates(optimizer, start, gradients, finite=True):
    """The variables after updates with the halves of gradients, by name."""
    variables = {
        name: tf.Variable(value, dtype=tf.float32, name=name)
        for name, value in start.items()
    }
    optimizer.build(list(variables.values()))
    for values in gradients:
        optimizer.update(
            [tf.constant(values[n], tf.float32) for n in variables],
            list(variables.values()),
            tf.constant(0.5),
            tf.constant(finite),
        )
    return {name: variable.numpy() for name, variable in variables.items()}


@pytest.mark.parametrize("corrected", [False, True])
@pytest.mark.parametrize(
    ("optimizer_class", "adapts"),
    [(optimization.AdamW, False), (optimization.Lamb, True)],
)
def test_updates_equal_the_formula(optimizer_class, adapts, corrected):
    more = {} if corrected else {"beta_2": 0.98}
    optimizer = optimizer_class(
        TableSchedule(), bias_correction=corrected, **more
    )
    found = after_updates(optimizer, START, GRADIENTS)
    for name, value in found.items():
        beta = more.get("beta_2", 0.999)
        expected = expected_weights(name, adapts, corrected, beta)
        np.testing.assert_allclose(value, expected, rtol=RTOL, atol=1e-9)
    assert int(optimizer.iterations) == 4


def test_norms_and_biases_are_excluded(small_config):
    """They are the vectors of these models."""
    model = pretraining.AlbertPretrainer(AlbertModel(small_config))
    for variable in model.trainable_variables:
        is_excluded = optimization.EXCLUDED.search(variable.name) is not None
        assert is_excluded == (variable.shape.rank == 1), variable.name


def test_make_optimizer_follows_the_option():
    for name, kind in (
        ("lamb", optimization.Lamb),
        ("adamw", optimization.AdamW),
        ("muon", optimization.Muon),
    ):
        options = model_options.OptimizerOptions(
            name, True, beta_2=0.98, learning_rate=1.0
        )
        optimizer = optimization.make_optimizer(
            options, 10, 2, encoder_factor=0.5, precision="bfloat16"
        )
        assert type(optimizer) is kind
        config = optimizer.get_config()
        for one in (optimizer, kind.from_config(config)):
            rates = [float(one.learning_rate_at(step)) for step in (1, 3)]
            np.testing.assert_allclose(rates, [0.5, 0.7], rtol=RTOL)
        del config["learning_rate"]
        assert config == {
            "bias_correction": True,
            "encoder_factor": 0.5,
            "beta_2": 0.98,
            "name": name,
            **({"precision": "bfloat16"} if name == "muon" else {}),
        }


def kernel_and_others():
    """Variables that Muon and AdamW update, by name, and gradients for them."""
    shapes = {
        "dense/kernel": (4, 6),
        "dense/bias": (6,),
        "embeddings/word_embeddings": (5, 4),
    }
    rng = np.random.default_rng(1)
    start = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    gradients = [
        {name: rng.normal(size=shape) for name, shape in shapes.items()}
        for _ in range(3)
    ]
    return start, gradients


def test_muon_updates_kernels_and_leaves_the_rest_to_adamw():
    start, gradients = kernel_and_others()
    optimizer = optimization.Muon(0.1, precision="bfloat16")
    found = after_updates(optimizer, start, gradients)
    others = after_updates(optimization.AdamW(0.1), start, gradients)
    name = "dense/kernel"
    momentum, w = tf.zeros([4, 6]), start[name]
    for values in gradients:
        gradient = tf.constant(0.5 * values[name], tf.float32)
        update, momentum = muon.direction(gradient, momentum, tf.bfloat16)
        w = w - 0.1 * (update + 0.01 * w)
    np.testing.assert_allclose(found.pop(name), w, atol=1e-5)
    others.pop(name)
    np.testing.assert_allclose(optimizer.adam_m[0], momentum, atol=1e-6)
    np.testing.assert_array_equal(optimizer.adam_v[0], 0)
    np.testing.assert_equal(found, others)


def test_muon_skips_updates_that_are_not_finite():
    start, gradients = kernel_and_others()
    gradients[0]["dense/kernel"][:] = np.nan
    optimizer = optimization.Muon(0.1)
    found = after_updates(optimizer, start, gradients[:1], finite=False)
    for name, value in found.items():
        np.testing.assert_allclose(value, start[name], rtol=1e-6)
    for moment in (*optimizer.adam_m, *optimizer.adam_v):
        np.testing.assert_array_equal(moment, 0)
    assert int(optimizer.iterations) == 1


def test_only_a_timed_schedule_has_a_variable_scale():
    options = model_options.OptimizerOptions(learning_rate=1.0)
    assert optimization.make_optimizer(options, 100, 0).step_scale is None
    timed = optimization.make_optimizer(options, 100, 0, by_the_clock=True)
    timed.step_scale.assign(3.0)
    np.testing.assert_allclose(
        timed.learning_rate_at(tf.constant(10)), 0.7, rtol=RTOL
    )


@pytest.mark.parametrize(
    "kind", [optimization.AdamW, optimization.Lamb, optimization.Muon]
)
@pytest.mark.parametrize("factor", [0.0, 0.25])
def test_the_encoder_may_have_another_rate(small_config, kind, factor):
    """The pooler, which has its scope, has that of the head."""

    model = classification.AlbertClassifier(AlbertModel(small_config), 2)
    start = passes.values(model)
    ones = {name: np.ones_like(value) for name, value in start.items()}
    plain = after_updates(kind(0.01), start, [ones])
    scaled = after_updates(kind(0.01, encoder_factor=factor), start, [ones])
    heads = {"output_weights", "output_bias"}
    heads |= {f"bert/pooler/dense/{part}" for part in ("kernel", "bias")}
    assert heads < plain.keys()
    for name, before in start.items():
        change = plain[name] - before
        assert change.any()
        wanted = change if name in heads else factor * change
        np.testing.assert_allclose(
            scaled[name] - before, wanted, rtol=1e-3, atol=1e-6, err_msg=name
        )


@pytest.mark.parametrize("kind", [optimization.Lamb, optimization.Muon])
def test_keras_makes_the_same_optimizer_and_update(kind):
    one = kind(0.1, bias_correction=True, encoder_factor=0.5, beta_2=0.9)
    other = kind.from_config(one.get_config())
    start = {"bert/x/kernel": [[0.5, -1.5]]}
    gradient = tf.constant([[0.3, 0.1]])
    (ours,) = after_updates(
        one, start, [{"bert/x/kernel": 2 * gradient}]
    ).values()
    theirs = tf.Variable(start["bert/x/kernel"], name="bert/x/kernel")
    other.apply_gradients([(gradient, theirs)])
    assert abs(float(ours[0, 0]) - 0.5) > 0.001
    np.testing.assert_allclose(theirs, ours, rtol=RTOL)
