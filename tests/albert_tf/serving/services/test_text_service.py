"""Classes and numbers of texts against the live model."""

import pytest
import tensorflow as tf

from tests.albert_tf.serving import saved_services

LONG = " ".join(saved_services.TEXTS * 4)
TEXTS = [*saved_services.TEXTS, LONG]
SECONDS = [*saved_services.SECONDS, " ".join(saved_services.TEXTS * 2)]


@pytest.mark.parametrize("name", ["of_pairs", "of_numbers"])
def test_answers_are_those_of_the_model(request, tokenizer, name):
    """Texts of all lengths; long ones are cut as in training."""
    saved = request.getfixturevalue(name)
    texts, second = {"text": tf.constant(TEXTS)}, None
    if name == "of_pairs":
        texts["text_pair"], second = tf.constant(SECONDS), SECONDS
    inputs = saved_services.pack(tokenizer, TEXTS, second)
    expected = saved.model(inputs)["logits"]
    chances = tf.nn.softmax(expected)
    by_ids = saved.signatures["tokens"](**inputs)
    assert set(by_ids) == {
        "sequence_output",
        "pooled_output",
        "logits",
        "probabilities",
    }
    saved_services.assert_close(by_ids["logits"], expected)
    saved_services.assert_close(by_ids["probabilities"], chances)
    outputs = saved.signatures["serving_default"](**texts)
    cut = saved_services.are_cut(tokenizer, TEXTS, second)
    assert outputs["truncated"].numpy().tolist() == cut
    if name == "of_numbers":
        assert set(outputs) == {"score", "truncated"}
        saved_services.assert_close(outputs["score"], expected[:, 0])
        return
    assert set(outputs) == {"label", "labels", "probabilities", "truncated"}
    saved_services.assert_close(outputs["probabilities"], chances)
    labels = [label.encode() for label in saved_services.LABELS]
    assert outputs["labels"].numpy().tolist() == [labels] * 4
    best = expected.numpy().argmax(-1)
    assert outputs["label"].numpy().tolist() == [labels[i] for i in best]


@pytest.mark.parametrize(
    ("name", "texts", "message"),
    [
        ("of_numbers", {"text": [["a"]]}, r"must be \[batch"),
        ("of_numbers", {"text": "a"}, r"must be \[batch"),
        ("pretrained", {"text": [["a", "b"]] * 2}, r"must be \[batch"),
        (
            "of_pairs",
            dict.fromkeys(("text", "text_pair"), [["a"]]),
            "be .batch",
        ),
        ("of_pairs", {"text": ["a"], "text_pair": ["a", "b"]}, "as many of"),
    ],
)
def test_texts_that_could_be_broadcast_are_refused(
    request, name, texts, message
):
    ask = request.getfixturevalue(name).signatures["serving_default"]
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        ask(**{key: tf.constant(value) for key, value in texts.items()})
