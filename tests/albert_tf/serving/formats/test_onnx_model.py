"""ONNX: what stands in the file. Answers: see test_id_model.py."""

import collections

import numpy as np
import onnx

from albert_tf.serving.formats import id_model, onnx_int8, onnx_model
from tests.albert_tf.serving.formats import id_services


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


def test_shared_layers_are_stored_once(tiny_vocab, tmp_path):
    model = id_services.make_model("encoder", tiny_vocab, **id_services.WIDE)
    content = id_services.save(model, onnx_model.FORMAT, tmp_path)
    assert len(content) < 1.1 * 4 * id_services.count_parameters(model)
    uses = uses_of_kernels(onnx.load_from_string(content).graph)
    # Six of all layers; the mapping of embeddings and the pooler.
    assert sorted(uses.values()) == [1] * 2 + [4] * 6


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
    answers = onnx_model.FORMAT.ask(path, name, inputs)
    (of_other,) = onnx_model.FORMAT.functions(other.service).values()
    near = id_model.differences(function, inputs, answers)
    far = id_model.differences(of_other, inputs, answers)
    assert max(near.values()) < 1e-5
    assert far["sequence_output"] > 1e-4  # Ten times as much as allowed.


def weights_of(graph):
    return {i.name: onnx.numpy_helper.to_array(i) for i in graph.initializer}


def test_every_row_of_a_table_has_a_scale(tiny_vocab, tmp_path):
    model = id_services.make_model("encoder", tiny_vocab, "int8")
    table = model.service.encoder.embeddings.word_embeddings
    rows = table.numpy()
    rows[5] *= 1e-3  # With one scale for all it would become zeros.
    rows[6] = 0
    table.assign(rows)
    content = id_services.save(model, onnx_model.FORMAT, tmp_path)
    stored = weights_of(onnx.load_from_string(content).graph)
    (name,) = (k for k, v in stored.items() if v.shape == rows.shape)
    scales = stored[f"{name.removesuffix('_rows')}_row_scales"]
    assert stored[name].dtype == np.int8
    close = np.abs(rows).max(1, keepdims=True) / 127 * 0.51
    assert (np.abs(stored[name] * scales - rows) <= close).all()


def two_kernels():
    """x A + x B, where 8 bits of A see its first row alone; 64 inputs.

    The first number of every x is 0.
    """
    generator = np.random.default_rng(1)
    kernels = generator.normal(size=(2, 8, 4)).astype(np.float32)
    kernels[0, 0] = 1000
    texts = generator.normal(size=(64, 1, 8)).astype(np.float32)
    texts[:, :, 0] = 0
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    nodes = [
        helper.make_node("MatMul", ["x", "A"], ["xA"], "by_A"),
        helper.make_node("MatMul", ["x", "B"], ["xB"], "by_B"),
        helper.make_node("Add", ["xA", "xB"], ["logits"]),
    ]
    graph = helper.make_graph(
        nodes,
        "two",
        [helper.make_tensor_value_info("x", kind, [1, 8])],
        [helper.make_tensor_value_info("logits", kind, [1, 4])],
        [
            onnx.numpy_helper.from_array(kernel, name)
            for name, kernel in zip("AB", kernels, strict=True)
        ],
    )
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=8)
    return model, [{"x": text} for text in texts]


def test_kernel_that_8_bits_harm_stays_in_float(tmp_path):
    model, texts = two_kernels()
    path = str(tmp_path / "model.onnx")
    errors = []
    for given, stays in (([], set()), (texts, {"A"})):
        onnx_int8.quantize(model, path, given)
        graph = onnx.load(path).graph
        kernels = {
            name
            for node in graph.node
            for name in node.input
            if node.op_type == "MatMul"
        }
        assert kernels & {"A", "B"} == stays
        outputs = onnx_int8._outputs(path, texts)
        found = np.array([each[0][0] for each in outputs])
        x = np.array([text["x"][0] for text in texts])
        a, b = map(onnx.numpy_helper.to_array, model.graph.initializer)
        errors.append(np.abs(found - x @ a - x @ b).mean())
    assert errors[1] < 0.1 * errors[0]
