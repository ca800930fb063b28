"""8-bit numbers in ONNX: stored only, or what is computed with.

Then they are quantized at run time by the range of each product.
Static ranges, of calibration texts, were tried: slower, and with three times
the error (lab/notes). Texts serve to find the products to leave in float.
"""

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from albert_tf.common import imports
from albert_tf.model import int8_weights
from albert_tf.serving.formats import answer, onnx_loops

onnx = imports.later("onnx")
quantization = imports.later("onnxruntime.quantization")

Arrays = Mapping[str, np.ndarray]

# Of the squared error of the outputs: a kernel stays in float32 if that takes
# away more.
_SHARE = 0.5
# Large, and of them the other outputs are made.
_NOT_COMPARED = ("sequence_output", "pooled_output")
# Masked logits are about -1e30.
_LARGEST = 1e6


def quantize(model: Any, path: str, texts: Sequence[Arrays]) -> None:
    """Write a model with 8-bit kernels and tables.

    Args:
        model: In float32. Its tables are changed.
        texts: Inputs by which products may stay in float32; without, none.
    """
    # Layers share kernels directly. If an Identity stood between a kernel and
    # its uses, only the first of them would be quantized.
    quantization.quant_utils.add_pre_process_metadata(model)
    _write_rows(model.graph)
    _quantize(model, path, _sensitive(model, texts) if texts else [])


def _quantize(model: Any, path: str, left_out: Sequence[str]) -> None:
    """Write a model with 8-bit kernels, but for those of some nodes."""
    quantization.quantize_dynamic(
        model,
        path,
        op_types_to_quantize=["MatMul"],
        per_channel=True,
        weight_type=quantization.QuantType.QInt8,
        # Kernels of 7 bits. x86 processors without VNNI add two products in 16
        # bits, and the sum of two products of 8 bits does not fit.
        reduce_range=True,
        nodes_to_exclude=list(left_out),
        extra_options={"EnableSubgraph": True},
    )


def store(graph: Any) -> None:
    """Store matrices in 8 bits, and compute with them in float32.

    They are those of an int8 checkpoint, if the model is one: see
    `int8_weights`. ONNX Runtime makes kernels of float32 of them when it loads
    the file; of a table it converts the rows that it looks up.
    """
    matrices = [each.name for each in graph.initializer if _is_matrix(each)]
    _write_rows(graph)
    kernels = {
        name
        for node in onnx_loops.all_nodes(graph)
        if node.op_type == "MatMul"
        for name in node.input
    }
    nodes = []
    for matrix in list(graph.initializer):
        if matrix.name in matrices:
            names = _write_numbers(graph, matrix, matrix.name in kernels)
            nodes += _product(*names, matrix.name)
            graph.initializer.remove(matrix)
    nodes += graph.node
    del graph.node[:]
    graph.node.extend(nodes)


def _is_matrix(value: Any) -> bool:
    return len(value.dims) == 2 and value.data_type == onnx.TensorProto.FLOAT


def _write_numbers(
    graph: Any, matrix: Any, is_kernel: bool = False
) -> tuple[str, str]:
    """Store int8 numbers and scales of a matrix; return their names."""
    names = f"{matrix.name}_rows", f"{matrix.name}_row_scales"
    if names[0] not in {each.name for each in graph.initializer}:
        arrays = int8_weights.quantize(
            "/kernel" if is_kernel else "", onnx.numpy_helper.to_array(matrix)
        )
        graph.initializer.extend(
            map(onnx.numpy_helper.from_array, arrays, names)
        )
    return names


def _product(numbers: str, scales: str, output: str) -> list[Any]:
    """Return the nodes that multiply int8 numbers by scales."""
    cast = f"{output}_float"
    return [
        onnx.helper.make_node(
            "Cast", [numbers], [cast], to=onnx.TensorProto.FLOAT
        ),
        onnx.helper.make_node("Mul", [cast, scales], [output]),
    ]


def _write_rows(graph: Any) -> None:
    """Give every row of a table a scale of its own; `quantization` has one."""
    stored = {each.name: each for each in graph.initializer}
    nodes, written = [], set()
    for node in graph.node:
        table = stored.get(node.input[0]) if node.op_type == "Gather" else None
        if table is None or not _is_matrix(table):
            nodes.append(node)
            continue
        rows, scales = _write_numbers(graph, table)
        written.add(table.name)
        ids, (output,) = node.input[1], node.output
        taken, factor = f"{output}_rows", f"{output}_by"
        nodes += [
            onnx.helper.make_node("Gather", [rows, ids], [taken]),
            onnx.helper.make_node("Gather", [scales, ids], [factor]),
            *_product(taken, factor, output),
        ]
    del graph.node[:]
    graph.node.extend(nodes)
    used = {name for node in nodes for name in node.input}
    for name in written - used:
        graph.initializer.remove(stored[name])


def _sensitive(model: Any, texts: Sequence[Arrays]) -> list[str]:
    """Return the nodes of the kernels that 8 bits harm most.

    All kernels are quantized, but for one at a time.
    """
    stored = {each.name for each in model.graph.initializer}
    kernels: dict[str, list[str]] = {}
    for node in onnx_loops.all_nodes(model.graph):
        if node.op_type == "MatMul" and node.input[1] in stored:
            kernels.setdefault(node.input[1], []).append(node.name)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        onnx.save(model, path)
        expected = list(_outputs(path, texts))

        def error(left_out: Sequence[str]) -> float:
            _quantize(model, path, left_out)
            return _error(list(_outputs(path, texts)), expected)

        whole = error([])
        errors = {name: error(nodes) for name, nodes in kernels.items()}
    most = (1 - _SHARE) * whole
    chosen = [n for n in kernels if errors[n] < most]
    logging.info(
        "8 bits: squared error of the outputs %.2g; %d of %d kernels stay in "
        "float32%s",
        whole,
        len(chosen),
        len(kernels),
        "".join(f"; without {kernels[n][0]} {errors[n]:.2g}" for n in chosen),
    )
    return [node for name in chosen for node in kernels[name]]


def _outputs(path: str, texts: Sequence[Arrays]) -> Iterator[list[np.ndarray]]:
    session = answer.open_session(path)
    names = [
        output.name
        for output in session.get_outputs()
        if output.name not in _NOT_COMPARED and "float" in output.type
    ]
    for text in texts:
        yield session.run(names, dict(text))


def _error(
    quantized: Sequence[Sequence[np.ndarray]],
    expected: Sequence[Sequence[np.ndarray]],
) -> float:
    """Return the mean square of differences, in variances of each output."""
    total = 0.0
    for ours, theirs in zip(
        zip(*quantized, strict=True), zip(*expected, strict=True), strict=True
    ):
        one, other = (
            np.concatenate([x.ravel() for x in outputs]).astype(np.float64)
            for outputs in (ours, theirs)
        )
        is_real = (np.abs(one) < _LARGEST) & (np.abs(other) < _LARGEST)
        squares = (one - other)[is_real] ** 2
        total += float(squares.mean() / max(other[is_real].var(), 1e-30))
    return total
