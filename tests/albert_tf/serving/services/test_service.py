"""Every signature against the live model; wrong shapes are refused."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.serving.services import service
from tests.albert_tf.serving import saved_services
from tests.conftest import refused


def test_tokens(pretrained, tokenizer):
    inputs = saved_services.pack(
        tokenizer, saved_services.TEXTS, saved_services.SECONDS
    )
    outputs = pretrained.signatures["tokens"](**inputs)
    expected = pretrained.model.encoder(inputs)
    assert set(outputs) == {"sequence_output", "pooled_output"}
    for name in outputs:
        saved_services.assert_close(outputs[name], expected[name])


def test_answers_do_not_depend_on_the_rest_of_the_batch(pretrained):
    embed = pretrained.signatures["serving_default"]
    together = embed(text=tf.constant(saved_services.TEXTS))
    for row, text in enumerate(saved_services.TEXTS):
        alone = embed(text=tf.constant([text]))
        for name in alone:
            saved_services.assert_close(alone[name][0], together[name][row])


def test_pieces_that_do_not_fit_are_told(of_pairs):
    """16 tokens; two are markers, three where there is a second text."""
    sizes = [(14, 0), (15, 0), (7, 6), (7, 7), (12, 1), (13, 1)]
    segments = [
        tf.RaggedTensor.from_row_lengths(tf.range(sum(row)), row)
        for row in zip(*sizes, strict=True)
    ]
    _, cut = of_pairs.service.pack(*segments)
    assert cut.numpy().tolist() == [False, True] * 3
    _, cut = of_pairs.service.pack(segments[0])
    assert cut.numpy().tolist() == [False, True] + [False] * 4


def test_samples_and_signatures_of_ids(pretrained, tokenizer):
    samples = pretrained.service.samples()
    assert samples["fill_mask"]["text"].numpy().tolist() == [b"A [MASK] text."]
    rows = {name: v.numpy().tolist() for name, v in samples["tokens"].items()}
    assert rows == {
        "input_ids": [[tokenizer.cls_id, tokenizer.sep_id]],
        "input_mask": [[1, 1]],
        "segment_ids": [[0, 0]],
    }
    found = service.id_functions(pretrained.service)
    assert set(found) == {"tokens", "mlm", "sentence_order"}
    with refused("`adaptive` is for models that"):
        pretrained.service.adapt([1], None)


@pytest.mark.slow
@pytest.mark.parametrize("name", saved_services.SAVED)
def test_an_empty_batch_gives_empty_outputs(request, name):
    saved = request.getfixturevalue(name)
    samples = saved.service.samples()
    assert samples.keys() == saved.signatures.keys()
    for signature, arguments in samples.items():
        none = {k: v[:0] for k, v in arguments.items()}
        for value in saved.signatures[signature](**none).values():
            assert value.shape[0] == 0


@pytest.mark.parametrize("name", saved_services.SAVED)
def test_what_is_not_utf8_gives_the_answer_for_its_replacement(request, name):
    saved = request.getfixturevalue(name)
    ask = saved.signatures["serving_default"]
    texts = saved.service.samples()["serving_default"]
    for bad, mended in ((b"a \xff b", "a \ufffd b"), (b"\xc3", "\ufffd")):
        one, other = (
            ask(**{name: tf.fill(v.shape, text) for name, v in texts.items()})
            for text in (bad, mended)
        )
        for key, value in one.items():
            np.testing.assert_array_equal(value, other[key])


@pytest.mark.parametrize("name", ["pretrained", "of_choices"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        # TensorFlow itself would spread one row over all of them.
        (
            lambda ids: {"input_mask": ids["input_mask"][:1]},
            "input_mask must have the shape of input_ids",
        ),
        (
            lambda ids: {"segment_ids": ids["segment_ids"][:1]},
            "segment_ids must have the shape of input_ids",
        ),
        (
            lambda ids: {k: v[..., :0] for k, v in ids.items()},
            "input_ids have no position",
        ),
        (
            lambda ids: {k: tf.repeat(v, 11, -1) for k, v in ids.items()},
            "longer than the 20 positions",
        ),
        (lambda ids: {"input_ids": ids["input_ids"][0, 0]}, "shape|rank|dim"),
        # One row for a square of ids.
        (lambda ids: {"input_mask": ids["input_mask"][0]}, "shape|rank"),
        (
            lambda ids: {"input_ids": tf.cast(ids["input_ids"], tf.int64)},
            "expected to be a int32 .* is a int64",
        ),
    ],
)
def test_ids_that_do_not_fit_are_refused(request, name, change, message):
    saved = request.getfixturevalue(name)
    sample = saved.service.samples()["tokens"]
    ids = {key: tf.repeat(value, 2, 0) for key, value in sample.items()}
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        saved.signatures["tokens"](**{**ids, **change(ids)})


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
