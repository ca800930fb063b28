"""Replaced-token detection: what the generator puts in, what is learned."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from albert_tf.model import model_options, modeling
from albert_tf.model.heads import pretraining, replaced_tokens
from tests.albert_tf.model import initial_weights
from tests.conftest import LOSS_RTOL

OBJECTIVE = replaced_tokens.make_objective()
MASK = 4


def make_model(config, sharing="embeddings", size=0.5, **more):
    keras.utils.set_random_seed(1)
    small = replaced_tokens.shrink(config, size)
    if sharing == "all":
        small = config
    return replaced_tokens.ReplacedTokenDetector(
        modeling.AlbertModel(config), small, sharing, **more
    )


@pytest.fixture(params=model_options.GENERATOR_SHARING)
def model(small_config, request):
    return make_model(small_config, request.param)


@pytest.fixture
def originals():
    return np.random.default_rng(2).integers(5, 400, [4, 12], np.int32)


@pytest.fixture
def batch(originals):
    """Masked text; the last row is padding, others have fewer predictions."""
    positions = np.array([[1, 5, 9], [2, 3, 0], [7, 0, 0], [1, 2, 3]], np.int32)
    weights = np.array([[1, 1, 1], [1, 1, 0], [1, 0, 0], [1, 1, 1]], np.float32)
    ids = originals.copy()
    for row, columns, real in zip(ids, positions, weights > 0, strict=True):
        row[columns[real]] = MASK
    mask = np.ones([4, 12], np.int32)
    mask[1, 10:] = 0
    return {
        "input_ids": ids,
        "input_mask": mask,
        "segment_ids": np.zeros([4, 12], np.int32),
        "masked_lm_positions": positions,
        "masked_lm_ids": np.where(
            weights > 0, np.take_along_axis(originals, positions, 1), 0
        ).astype(np.int32),
        "masked_lm_weights": weights,
        "next_sentence_labels": np.array([[0], [1], [1], [0]], np.int32),
        "is_real_example": np.array([1, 1, 1, 0], np.int32),
    }


def tensors(batch):
    return {name: tf.constant(value) for name, value in batch.items()}


def compute(model, batch, objective=OBJECTIVE):
    ratios = objective.ratios(model, tensors(batch))
    assert set(ratios) == set(objective.names)
    return {name: [float(x) for x in ratio] for name, ratio in ratios.items()}


def names(variables):
    return {variable.name.split(":")[0] for variable in variables}


@pytest.mark.parametrize(
    ("sharing", "own"),
    [
        ("none", {"generator/embeddings", "generator/encoder"}),
        ("embeddings", {"generator/encoder"}),
        ("all", set()),
    ],
)
def test_generator_has_only_the_weights_that_are_not_shared(
    small_config, sharing, own
):
    model = make_model(small_config, sharing)
    found = names(model.variables)
    assert len(found) == len(model.variables)
    scopes = {"/".join(n.split("/")[:2]) for n in found if "generator" in n}
    rest = {"generator/cls", "generator/pooler"} if own else set()
    assert scopes == own | rest
    assert ("cls/predictions/output_bias" in found) == (sharing == "all")
    assert names(model.encoder.variables) == names(
        modeling.AlbertModel(small_config).variables
    )


@pytest.mark.parametrize(
    ("size", "heads", "width", "inner"),
    [(1, 12, 768, 3072), (0.25, 3, 192, 768), (0.01, 1, 64, 256)],
)
def test_generator_is_a_share_of_the_encoder(size, heads, width, inner):
    config = modeling.AlbertConfig(
        vocab_size=400,
        hidden_size=768,
        num_attention_heads=12,
        intermediate_size=3072,
    )
    small = replaced_tokens.shrink(config, size)
    assert small == dataclasses.replace(
        config,
        num_attention_heads=heads,
        hidden_size=width,
        intermediate_size=inner,
    )


@pytest.mark.parametrize(
    ("size", "heads"), [(0.01, 2), (0.25, 4), (0.5, 6), (0.6, 8), (1, 12)]
)
def test_heads_that_look_left_and_right_stay_in_pairs(size, heads):
    config = modeling.AlbertConfig(
        **{"vocab_size": 400, "hidden_size": 96, "intermediate_size": 192},
        num_attention_heads=12,
        position_bias="alibi",
    )
    small = replaced_tokens.shrink(config, size)
    assert small.num_attention_heads == heads
    assert small.hidden_size == 8 * heads


def test_embeddings_of_different_widths_are_not_shared(small_config):
    config = dataclasses.replace(small_config, project_words_first=True)
    with pytest.raises(ValueError, match="different widths"):
        make_model(config)
    assert make_model(config, size=1).generator.encoder.embeddings


def test_different_architectures_cannot_share_all(small_config):
    small = replaced_tokens.shrink(small_config, 0.5)
    encoder = modeling.AlbertModel(small_config)
    with pytest.raises(ValueError, match="cannot share all"):
        replaced_tokens.ReplacedTokenDetector(encoder, small, "all")


def test_keras_makes_the_same_model_from_its_config(model):
    keras.utils.set_random_seed(1)
    again = type(model).from_config(model.get_config())
    assert names(again.variables) == names(model.variables)


def test_new_heads_start_from_a_truncated_normal(small_config):
    config = dataclasses.replace(small_config, initializer_range=0.05)
    model = make_model(config, "none", size=1)
    head = {
        v.name[:-2]: v
        for v in (*model.transform.variables, model.output_weights)
    }
    head["bias"] = model.output_bias
    initial_weights.assert_initial(head, 0.05)


# What is put into the text.


def test_pieces_are_put_at_the_real_positions_only(batch, originals):
    put = replaced_tokens._put(
        tf.constant(batch["input_ids"]),
        tf.constant(batch["masked_lm_positions"]),
        tf.constant(batch["masked_lm_weights"] > 0),
        tf.constant(batch["masked_lm_ids"]),
    )
    np.testing.assert_array_equal(put, originals)


def test_a_generator_that_is_always_right_replaces_nothing(batch, originals):
    right = 100.0 * np.eye(400, dtype=np.float32)[batch["masked_lm_ids"]]
    ids, replaced = replaced_tokens._replace(tensors(batch), tf.constant(right))
    np.testing.assert_array_equal(ids, originals)
    assert not np.any(replaced)


def test_wrong_pieces_count_as_replaced(batch, originals):
    wrong = np.zeros([4, 3, 400], np.float32)
    wrong[:, :, MASK] = 100
    ids, replaced = replaced_tokens._replace(tensors(batch), tf.constant(wrong))
    np.testing.assert_array_equal(ids, batch["input_ids"])
    np.testing.assert_array_equal(replaced, batch["input_ids"] == MASK)


def test_samples_have_the_generators_probabilities():
    probabilities = np.array([0.5, 0.0, 0.3, 0.2], np.float32)
    with np.errstate(divide="ignore"):
        logits = np.log(probabilities)
    count = 20_000
    numbers = (np.arange(count, dtype=np.float32) + 0.5) / count
    drawn = replaced_tokens._sample(
        tf.constant(np.tile(logits, [1, count, 1])), tf.constant(numbers[None])
    )
    shares = np.bincount(drawn[0], minlength=4) / count
    np.testing.assert_allclose(shares, probabilities, atol=1e-4)


def test_smallest_and_largest_numbers_draw_possible_pieces():
    logits = tf.constant([[[-1e9, 0.0, 0.0, -1e9]] * 2])
    numbers = tf.constant([[0.0, 1 - 2.0**-24]])
    np.testing.assert_array_equal(
        replaced_tokens._sample(logits, numbers), [[1, 2]]
    )


def test_numbers_are_spread_evenly_and_follow_seed_text_and_position():
    generator = np.random.default_rng(3)
    ids = tf.constant(generator.integers(0, 30_000, [500, 64], np.int32))
    positions = tf.constant(np.tile(np.arange(20, dtype=np.int32), [500, 1]))
    draw = replaced_tokens._uniform
    numbers = draw(tf.constant([7, 1]), ids, positions).numpy()
    assert numbers.min() >= 0 and numbers.max() < 1
    counts = np.histogram(numbers, 10, (0, 1))[0]
    # 1,000 are expected in each; 5 standard deviations are 150.
    assert abs(counts - 1000).max() < 150
    neighbours = np.corrcoef(numbers[:, 0], numbers[:, 1])[0, 1]
    assert abs(neighbours) < 5 / np.sqrt(500)
    for seed in ([7, 2], [8, 1]):
        others = draw(tf.constant(seed), ids, positions).numpy()
        assert abs(np.corrcoef(numbers.ravel(), others.ravel())[0, 1]) < 0.05
    # Of a part of the batch, and with one token changed.
    np.testing.assert_array_equal(
        draw(tf.constant([7, 1]), ids[3:5], positions[3:5]), numbers[3:5]
    )
    changed = ids.numpy()
    changed[:, 40] += 1
    others = draw(tf.constant([7, 1]), tf.constant(changed), positions).numpy()
    assert np.mean(others == numbers) < 0.01


# What is learned.


def test_losses_equal_plain_numpy(model, batch):
    found = compute(model, batch)
    given = tensors(batch)
    ids, replaced = replaced_tokens._replace(
        given, model.generator(given)["masked_lm_logits"]
    )
    logits = model({**given, "input_ids": ids})["replaced_token_logits"]
    logits, labels = np.asarray(logits, np.float64), np.asarray(replaced)
    real = batch["input_mask"] * batch["is_real_example"][:, None]
    signs = np.where(labels, -1, 1)
    for name, values in {
        "replaced_token_loss": np.log1p(np.exp(signs * logits)),
        "replaced_token_accuracy": (logits > 0) == labels,
        "replaced_token_share": labels,
    }.items():
        expected = (values * real).sum(), real.sum()
        np.testing.assert_allclose(found[name], expected, rtol=LOSS_RTOL)


def test_generator_learns_from_masked_words_as_without_detection(
    small_config, batch
):
    model = make_model(small_config, "none")
    alone = pretraining.make_objective("none")
    variables = model.generator.trainable_variables
    with tf.GradientTape() as tape:
        expected = alone.ratios(model.generator, tensors(batch))
        loss = expected["masked_lm_loss"].numerator
    gradients = tape.gradient(loss, variables)
    with tf.GradientTape(persistent=True) as tape:
        ratios = OBJECTIVE.ratios(model, tensors(batch))
        both = tf.add_n([ratio.numerator for ratio in ratios.values()])
        detection = ratios["replaced_token_loss"].numerator
    with_detection = tape.gradient(both, variables)
    for one, other in zip(gradients, with_detection, strict=True):
        if one is not None:
            np.testing.assert_allclose(
                tf.convert_to_tensor(other),
                tf.convert_to_tensor(one),
                rtol=1e-4,
                atol=1e-6,
            )
    assert set(tape.gradient(detection, variables)) == {None}


def test_generator_has_a_dropout_of_its_own(small_config, batch):
    config = dataclasses.replace(small_config, hidden_dropout_prob=0.3)
    model, seed = make_model(config, "all"), tf.constant([3, 4])
    own = tf.random.experimental.stateless_fold_in(seed, 2**29)

    def loss(objective, model, seed):
        found = objective.ratios(model, tensors(batch), seed)
        return float(found["masked_lm_loss"].numerator)

    alone = pretraining.make_objective("none")
    found = loss(OBJECTIVE, model, seed)
    assert found == pytest.approx(loss(alone, model.generator, own), rel=1e-5)
    assert found != pytest.approx(loss(alone, model.generator, seed), rel=1e-3)


def test_shared_embeddings_learn_from_both(small_config, batch):
    model = make_model(small_config)
    table = model.encoder.embeddings.word_embeddings
    assert model.generator.encoder.embeddings.word_embeddings is table
    with tf.GradientTape(persistent=True) as tape:
        ratios = OBJECTIVE.ratios(model, tensors(batch))
        losses = {n: ratios[n].numerator for n in OBJECTIVE.losses}
    for name in ("masked_lm_loss", "replaced_token_loss"):
        gradient = tf.convert_to_tensor(tape.gradient(losses[name], table))
        assert np.any(gradient), name


@pytest.mark.parametrize("sharing", ["none", "embeddings"])
def test_loss_of_the_sentence_is_the_encoders(small_config, batch, sharing):
    model = make_model(small_config, sharing)
    with tf.GradientTape() as tape:
        ratios = OBJECTIVE.ratios(model, tensors(batch))
        loss = ratios["sentence_order_loss"].numerator
    generators = model.generator.encoder.sublayers[0].query.kernel
    encoders = model.encoder.sublayers[0].query.kernel
    found = tape.gradient(loss, [generators, encoders])
    assert found[0] is None and np.any(found[1])


def test_without_a_sentence_objective_there_is_no_such_head(
    small_config, batch
):
    model = make_model(small_config, sentence_order=False)
    objective = replaced_tokens.make_objective("none")
    found = compute(model, batch, objective)
    assert not any("sentence" in name for name in found)
    assert not any("seq_relationship" in n for n in names(model.variables))


def test_padding_examples_do_not_count(model, batch):
    expected = compute(model, batch)
    batch["input_ids"][3] = 17
    assert compute(model, batch) == expected


def test_evaluation_does_not_depend_on_the_division_into_batches(model, batch):
    whole = compute(model, batch)
    parts = [
        compute(model, {n: v[rows] for n, v in batch.items()})
        for rows in (slice(0, 1), slice(1, 4))
    ]
    for name, ratio in whole.items():
        both = np.add(parts[0][name], parts[1][name])
        np.testing.assert_allclose(ratio, both, rtol=LOSS_RTOL)


def test_two_instances_in_a_row_attend_to_themselves(small_config, batch):
    """Nothing in the first changes what the encoder says of the second."""
    model = make_model(small_config, sentence_order=False)
    batch["instance_ids"] = np.repeat([[1, 2]], [6, 6], 1).repeat(4, 0)
    del batch["input_mask"]
    given = pretraining.with_attention_mask(tensors(batch))
    logits = model(given)["replaced_token_logits"]
    batch["input_ids"][:, :6] = 9
    changed = pretraining.with_attention_mask(tensors(batch))
    others = model(changed)["replaced_token_logits"]
    np.testing.assert_allclose(logits[:, 6:], others[:, 6:], atol=1e-5)
    assert np.abs(logits - others)[:, :6].max() > 1e-3
    objective = replaced_tokens.make_objective("none")
    weights = objective.sample_weights(tensors(batch))["replaced_token_loss"]
    assert np.sum(weights) == 36  # Three real rows of 12 tokens.
