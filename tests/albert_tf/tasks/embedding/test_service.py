"""Vectors of a saved service against the live model."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.common.packed_vectors import WHOLE, VectorOptions
from albert_tf.common.prompts import PromptOptions
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.tasks.embedding import model as embedding
from albert_tf.tasks.embedding import service as embedding_service
from tests.albert_tf.serving import saved_services
from tests.conftest import LAYER_ATOL

TEXTS = [*saved_services.TEXTS, " ".join(saved_services.TEXTS * 5)]


@pytest.mark.parametrize(("pooling", "width"), [("mean", 0), ("max", 6)])
def test_vectors_of_texts_and_of_their_ids(
    config, tokenizer, tmp_path, pooling, width
):
    model = embedding.AlbertEmbedder(AlbertModel(config), pooling, width)
    service = embedding_service.EmbeddingService(
        saved_services.spread(model), tokenizer, saved_services.MAX_SEQ_LENGTH
    )
    saved = saved_services.save(service, tmp_path / "model")
    outputs = saved.signatures["serving_default"](text=tf.constant(TEXTS))
    assert set(outputs) == {"embedding", "truncated"}
    cut = saved_services.are_cut(tokenizer, TEXTS)
    assert outputs["truncated"].numpy().tolist() == cut

    inputs = saved_services.pack(tokenizer, TEXTS)
    expected = model(inputs)["embedding"]
    assert expected.shape == [4, width or config.hidden_size]
    saved_services.assert_close(outputs["embedding"], expected)
    lengths = np.linalg.norm(outputs["embedding"], axis=1)
    np.testing.assert_allclose(lengths, 1, rtol=1e-6)
    compared = saved.signatures["compare"](
        text=tf.constant(TEXTS), text_pair=tf.constant(TEXTS[::-1])
    )
    products = (expected.numpy() * expected.numpy()[::-1]).sum(-1)
    saved_services.assert_close(compared["cosine"], products)
    assert compared["truncated"].numpy().tolist() == [
        a or b for a, b in zip(cut, cut[::-1], strict=True)
    ]
    by_ids = saved.signatures["tokens"](**inputs)
    assert set(by_ids) == {"embedding", "sequence_output"}
    saved_services.assert_close(by_ids["embedding"], expected)


def test_no_texts_have_no_vectors(config, tokenizer):
    service = saved_services.make_service("embedding", config, tokenizer)
    ask = service.functions["serving_default"]
    vectors = ask(tf.constant([], tf.string))["embedding"]
    assert vectors.shape == [0, config.hidden_size]


@pytest.fixture(scope="module")
def spread_model(config):
    model = embedding.AlbertEmbedder(AlbertModel(config), "mean", 16)
    return saved_services.spread(model)


def test_a_prompt_is_put_before_a_text(spread_model, tokenizer):
    """That of its name; by default the one that the model names."""
    length = saved_services.MAX_SEQ_LENGTH
    given = PromptOptions('{"query": "Why ", "passage": "We "}', "passage")
    service, plain = (
        embedding_service.EmbeddingService(
            spread_model, tokenizer, length, WHOLE, *more
        )
        for more in ([given], [])
    )
    ask, prompted = (
        service.functions[name] for name in ("serving_default", "prompted")
    )
    names, before = ["query", "", "passage", "query"], ["Why ", "", "We "]
    whole = [p + t for p, t in zip([*before, "Why "], TEXTS, strict=True)]
    expected = plain.answer(tf.constant([*whole, "We " + TEXTS[0]]))
    found = prompted(tf.constant(TEXTS), tf.constant(names))
    saved_services.assert_close(found["embedding"], expected["embedding"][:-1])
    cut = expected["truncated"][:-1]
    np.testing.assert_array_equal(found["truncated"], cut)
    found = ask(tf.constant(TEXTS[:1]))["embedding"]
    saved_services.assert_close(found, expected["embedding"][-1:])
    compared = service.compare(tf.constant(TEXTS[:1]), tf.constant(TEXTS[:1]))
    saved_services.assert_close(compared["cosine"], [1.0])
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="prompt must be query, passage, o"
    ):
        prompted(tf.constant(TEXTS), tf.constant([*names[1:], "doc"]))
    assert service.samples()["prompted"]["prompt"] == [b""]
    assert service.text_options.items() >= given.to_dict().items()
    assert "prompted" not in plain.functions
    assert plain.text_options.keys() == {"dimensions", "vector_precision"}


@pytest.mark.parametrize(
    ("dimensions", "precision", "more"),
    [
        (8, None, {}),
        (None, "int8", {"vector_scale": 127 / 2}),
        (8, "binary", {}),
    ],
)
def test_vectors_that_cost_less(
    spread_model, tokenizer, dimensions, precision, more
):
    """All signatures give what is defined in NumPy, and compare by it."""
    given_out = VectorOptions(dimensions, precision)
    service = embedding_service.EmbeddingService(
        spread_model, tokenizer, saved_services.MAX_SEQ_LENGTH, given_out
    )
    inputs = saved_services.pack(tokenizer, TEXTS)
    vectors = spread_model(inputs)["embedding"].numpy()
    expected = given_out.pack(vectors)
    texts = tf.constant(TEXTS)
    for found in (service.answer(texts), service.tokens(*inputs.values())):
        assert found["embedding"].dtype == expected.dtype
        difference = found["embedding"].numpy().astype(float) - expected
        # The other way of computing may round to the next byte.
        most = 1 if precision == "int8" else LAYER_ATOL
        assert abs(difference).max() <= most
    rounded = given_out.rounded(vectors)
    cosines = (rounded * rounded[::-1]).sum(-1)
    compared = service.compare(texts, texts[::-1])
    np.testing.assert_allclose(compared["cosine"], cosines, atol=0.01)
    assert service.text_options == {
        "dimensions": dimensions or 16,
        "vector_precision": precision or "float32",
        **more,
    }
    is_for_apps = service.app_output == "embedding"
    assert is_for_apps == (precision is None)
