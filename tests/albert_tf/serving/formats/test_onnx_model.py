"""ONNX: what stands in the file. Answers: see test_id_model.py."""

import collections

import numpy as np
import onnx
import onnxruntime
import pytest
import tensorflow as tf

from albert_tf.serving.formats import id_model, onnx_model
from tests.albert_tf.model import passes
from tests.albert_tf.serving.formats import id_services
from tests.conftest import PARITY_ATOL


def uses_of_kernels(graph):
    """How many products each stored matrix is a part of, by its name."""
    stored = {each.name for each in graph.initializer if len(each.dims) == 2}
    products = ("MatMul", "Gemm", "MatMulInteger")
    nodes = [node for node in graph.node if node.op_type in products]
    return collections.Counter(
        (node.op_type, name)
        for node in nodes
        for name in node.input
        if name in stored
    )


def test_8_bits_reach_every_use_of_a_kernel(tiny_vocab, tmp_path):
    shape = id_services.WIDE | {"num_hidden_layers": 3}
    model = id_services.make_model("encoder", tiny_vocab, "int8", **shape)
    content = id_services.save(model, onnx_model.FORMAT, tmp_path)
    assert len(content) < 1.3 * id_services.count_parameters(model)
    graph = onnx.load_from_string(content).graph
    uses = uses_of_kernels(graph)
    assert {kind for kind, _ in uses} == {"MatMulInteger"}
    assert sorted(uses.values()) == [1] * 2 + [3] * 6
    # One scale for each column of a kernel.
    scales = collections.Counter(
        each.dims[0]
        for each in graph.initializer
        if each.name.endswith("_scale") and each.dims
    )
    assert scales == {256: 7, 1024: 1}
    # 7 bits, or x86 processors without VNNI overflow 16 bits in the products.
    kernels = {name for _, name in uses}
    for each in graph.initializer:
        if each.name in kernels:
            assert 60 < abs(onnx.numpy_helper.to_array(each)).max() <= 64


def test_masked_words_use_the_stored_table(tiny_vocab, tmp_path):
    model = id_services.make_model("pretraining", tiny_vocab)
    content = id_services.save(model, onnx_model.FORMAT, tmp_path)
    graph = onnx.load_from_string(content).graph
    config = model.service.encoder.config
    table = sorted([config.vocab_size, config.embedding_size])
    stored = [each for each in graph.initializer if sorted(each.dims) == table]
    assert len(stored) == 1


def test_exact_gelu_is_written_with_erf(tiny_vocab, tmp_path):
    exact, other = (
        id_services.make_model(
            "encoder", tiny_vocab, hidden_act=act, intermediate_size=512
        )
        for act in ("gelu_erf", "gelu")
    )
    content = id_services.save(exact, onnx_model.FORMAT, tmp_path)
    nodes = onnx.load_from_string(content).graph.node
    assert "Erf" in {node.op_type for node in nodes}
    path = str(tmp_path / "model" / onnx_model.FORMAT.file_name)
    ((name, function),) = onnx_model.FORMAT.functions(exact.service).items()
    inputs = id_model.sample(function, exact.service.encoder.config)
    answers = onnx_model.FORMAT.open(path)(name, inputs)
    (of_other,) = onnx_model.FORMAT.functions(other.service).values()
    near = id_model.differences(function, inputs, answers)
    far = id_model.differences(of_other, inputs, answers)
    assert max(near.values()) < 1e-5
    assert far["sequence_output"] > 1e-4  # Ten times as much as allowed.


@pytest.mark.parametrize("kind", ["encoder", "pretraining"])
def test_files_for_transformers_answer_as_the_model(tiny_vocab, tmp_path, kind):
    model = id_services.make_model(kind, tiny_vocab).service.model
    batch = passes.make_batch()
    inputs = {
        theirs: batch[ours].numpy().astype(np.int64)
        for theirs, ours in {
            "input_ids": "input_ids",
            "attention_mask": "input_mask",
            "token_type_ids": "segment_ids",
        }.items()
    }
    if kind == "encoder":
        name, expected = "last_hidden_state", model(batch)["sequence_output"]
    else:
        places = tf.zeros_like(batch["input_ids"]) + tf.range(10)
        outputs = model({**batch, "masked_lm_positions": places})
        name, expected = "logits", outputs["masked_lm_logits"]
    is_token = inputs["attention_mask"] > 0
    contents = onnx_model.files_of(model)
    for path, atol in (("model", PARITY_ATOL), ("model_quantized", 0.2)):
        content = contents[f"onnx/{path}.onnx"]
        session = onnxruntime.InferenceSession(content)
        (actual,) = session.run([name], inputs)
        np.testing.assert_allclose(
            actual[is_token], expected.numpy()[is_token], atol=atol, rtol=0
        )
