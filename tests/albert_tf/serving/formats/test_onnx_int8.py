"""8-bit ONNX: what each number becomes. In whole: test_onnx_model.py."""

import numpy as np
import onnx

from albert_tf.model import int8_weights
from albert_tf.model.checkpoints import checkpoint_reader
from albert_tf.serving.formats import id_model, onnx_int8, onnx_model
from tests.albert_tf.serving.formats import id_services
from tests.conftest import LAYER_ATOL


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


def test_stored_numbers_are_those_of_an_int8_checkpoint(tiny_vocab, tmp_path):
    """Of a model that predicts words, whose table is stored once."""
    model = id_services.make_model("pretraining", tiny_vocab, "int8_weights")
    numbers = {}
    for variable in model.service.model.variables:
        name = checkpoint_reader.name_of(variable)
        if variable.shape.rank == 2:
            numbers[name], scale = int8_weights.quantize(name, variable.numpy())
            variable.assign(numbers[name] * scale)
    said = id_model.save(model, str(tmp_path / "model"), onnx_model.FORMAT)
    far = said["functions"]["tokens"]["largest_difference"].values()
    assert max(far) < LAYER_ATOL
    graph = onnx.load(tmp_path / "model" / "model.onnx").graph
    stored = weights_of(graph).values()
    assert not [v for v in stored if v.dtype == np.float32 and v.size > 1000]
    found = [v.tobytes() for v in stored if v.dtype == np.int8]
    # The matrix of a classifier is stored transposed.
    expected = [
        (v.T if name.endswith("output_weights") else v).tobytes()
        for name, v in numbers.items()
    ]
    assert sorted(found) == sorted(expected)


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
