"""Cleaning of text in TensorFlow, against that in Python."""

import pytest
import tensorflow as tf

from albert_tf.text import cleaning, text_ops
from tests.albert_tf.text import hard_texts


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("keep_accents", [True, False])
def test_normalize_equals_python(lower, keep_accents):
    texts = hard_texts.random_texts(2000)
    found = text_ops.normalize(tf.constant(texts), lower, keep_accents)
    expected = [
        cleaning.preprocess_text(t, lower=lower, keep_accents=keep_accents)
        for t in texts
    ]
    assert [text.decode() for text in found.numpy()] == expected


def test_strip_equals_python():
    texts = hard_texts.mixed(100)
    found, lost = text_ops.strip(tf.constant(texts))
    assert [t.decode() for t in found.numpy()] == [t.strip() for t in texts]
    for text, count in zip(texts, lost.numpy(), strict=True):
        assert text.encode()[count:].decode() == text.lstrip()
