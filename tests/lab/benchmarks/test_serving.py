"""What the comparison of saved models asks them."""

import json

from lab.benchmarks import serving


def test_all_are_asked_the_same_sentences(tiny_vocab, tiny_tokenizer, tmp_path):
    path = tmp_path / "sentences.json"
    serving.write_sentences(tiny_vocab, str(path))
    content = json.loads(path.read_text())
    lengths = [len(ids) for ids in content["ids"]]
    assert len(lengths) == serving.SENTENCES
    assert serving.SHORTEST <= min(lengths) < 20
    assert 100 < max(lengths) <= serving.LONGEST
    texts = serving.make_mixed_request("albert_tf_bfloat16", str(path))["text"]
    ids = serving.make_mixed_request("onnx_float32", str(path))["input_ids"]
    for text, row, length in zip(texts, ids.tolist(), lengths, strict=True):
        assert tiny_tokenizer.encode(text) == row[1 : length - 1]
        assert not any(row[length:])


def test_ids_are_padded_to_the_longest_of_a_call():
    request = serving.pad([[2, 3], [2, 9, 3]])
    assert request["input_ids"].tolist() == [[2, 3, 0], [2, 9, 3]]
    assert request["input_mask"].tolist() == [[1, 1, 0], [1, 1, 1]]
    assert not request["segment_ids"].any()
