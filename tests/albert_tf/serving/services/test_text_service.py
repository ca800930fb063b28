"""Classes and numbers of texts against the live model."""

import pytest
import tensorflow as tf

from tests.albert_tf.serving import saved_services


def test_classifier_offers_these_signatures(of_pairs):
    assert set(of_pairs.signatures) == {"tokens", "serving_default"}


@pytest.mark.parametrize("count", [1, 3])
def test_classifier_tokens(of_pairs, tokenizer, count):
    inputs = saved_services.pack(
        tokenizer, saved_services.TEXTS[:count], saved_services.SECONDS[:count]
    )
    outputs = of_pairs.signatures["tokens"](**inputs)
    expected = of_pairs.model(inputs)["logits"]
    assert set(outputs) == {
        "sequence_output",
        "pooled_output",
        "logits",
        "probabilities",
    }
    saved_services.assert_close(outputs["logits"], expected)
    saved_services.assert_close(
        outputs["probabilities"], tf.nn.softmax(expected)
    )


@pytest.mark.parametrize("count", [1, 3])
def test_classify_pairs(of_pairs, tokenizer, count):
    outputs = of_pairs.signatures["serving_default"](
        text=tf.constant(saved_services.TEXTS[:count]),
        text_pair=tf.constant(saved_services.SECONDS[:count]),
    )
    inputs = saved_services.pack(
        tokenizer, saved_services.TEXTS[:count], saved_services.SECONDS[:count]
    )
    check_classes(outputs, of_pairs.model(inputs)["logits"])


@pytest.mark.parametrize("count", [1, 3])
def test_classify_singles(of_singles, tokenizer, count):
    outputs = of_singles.signatures["serving_default"](
        text=tf.constant(saved_services.TEXTS[:count])
    )
    inputs = saved_services.pack(tokenizer, saved_services.TEXTS[:count])
    check_classes(outputs, of_singles.model(inputs)["logits"])


def check_classes(outputs, logits):
    assert set(outputs) == {"label", "labels", "probabilities", "truncated"}
    assert outputs["labels"].shape == outputs["probabilities"].shape
    assert set(outputs["labels"].numpy().ravel()) == {
        label.encode() for label in saved_services.LABELS
    }
    saved_services.assert_close(outputs["probabilities"], tf.nn.softmax(logits))
    best = logits.numpy().argmax(-1)
    expected = [saved_services.LABELS[index].encode() for index in best]
    assert outputs["label"].numpy().tolist() == expected


def test_long_pairs_are_cut_as_in_training(of_pairs, tokenizer):
    first, second = (
        " ".join(saved_services.TEXTS * 4),
        " ".join(saved_services.TEXTS * 2),
    )
    outputs = of_pairs.signatures["serving_default"](
        text=tf.constant([first]), text_pair=tf.constant([second])
    )
    inputs = saved_services.pack(tokenizer, [first], [second])
    check_classes(outputs, of_pairs.model(inputs)["logits"])


@pytest.mark.parametrize("count", [1, 3])
def test_regression(of_numbers, tokenizer, count):
    outputs = of_numbers.signatures["serving_default"](
        text=tf.constant(saved_services.TEXTS[:count]),
        text_pair=tf.constant(saved_services.SECONDS[:count]),
    )
    inputs = saved_services.pack(
        tokenizer, saved_services.TEXTS[:count], saved_services.SECONDS[:count]
    )
    expected = of_numbers.model(inputs)["logits"]
    assert set(outputs) == {"score", "truncated"}
    saved_services.assert_close(outputs["score"], expected[:, 0])
    by_ids = of_numbers.signatures["tokens"](**inputs)
    saved_services.assert_close(by_ids["logits"], expected)
    saved_services.assert_close(by_ids["probabilities"], tf.ones([count, 1]))


@pytest.mark.parametrize("shape", [[1, 1], []])
def test_texts_that_could_be_broadcast_are_refused(of_singles, shape):
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"must be \[batch"
    ):
        of_singles.signatures["serving_default"](text=tf.fill(shape, "a"))


def test_pairs_must_be_as_many(of_pairs):
    with pytest.raises(tf.errors.InvalidArgumentError, match="as many of"):
        of_pairs.signatures["serving_default"](
            text=tf.constant(["a"]), text_pair=tf.constant(["a", "b"])
        )
