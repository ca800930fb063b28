"""What the comparison of saved models asks them."""

import argparse
import json

import pytest

from lab.benchmarks import serving


@pytest.fixture
def sentences(tiny_vocab, tmp_path):
    path = tmp_path / "sentences.json"
    settings = argparse.Namespace(spm_model_file=tiny_vocab)
    serving.write_sentences(settings, str(path))
    return path


def test_sentences_have_the_lengths_that_are_drawn(sentences, tiny_tokenizer):
    content = json.loads(sentences.read_text())
    lengths = [len(ids) for ids in content["ids"]]
    assert len(lengths) == serving.SENTENCES
    assert serving.SHORTEST <= min(lengths) < 20
    assert 100 < max(lengths) <= serving.LONGEST
    for text, ids in zip(content["texts"], content["ids"], strict=True):
        assert tiny_tokenizer.encode(text) == ids[1:-1]


@pytest.mark.parametrize(("mixed", "calls"), [("together", 1), ("apart", 64)])
def test_all_are_asked_the_same_sentences(sentences, mixed, calls):
    settings = argparse.Namespace(sentences=str(sentences), mixed=mixed)
    settings.name = "albert_tf_bfloat16"
    texts = serving.make_mixed_requests(settings)
    settings.name = "onnx_float32"
    ids = serving.make_mixed_requests(settings)
    assert len(texts) == len(ids) == calls
    assert sum(len(request["text"]) for request in texts) == 64
    assert sum(len(request["input_ids"]) for request in ids) == 64


def test_ids_are_padded_to_the_longest_of_a_call():
    request = serving.pad([[2, 3], [2, 9, 3]])
    assert request["input_ids"].tolist() == [[2, 3, 0], [2, 9, 3]]
    assert request["input_mask"].tolist() == [[1, 1, 0], [1, 1, 1]]
    assert not request["segment_ids"].any()


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("albert_tf_bfloat16", "albert_tf_bfloat16"),
        ("openvino_bfloat16", "onnx_float32"),
        ("hugging_face_bfloat16_compiled", None),
    ],
)
def test_openvino_loads_the_file_of_onnx(name, written):
    assert serving.written_name(name) == written
