"""Adaptive models in ONNX: loops that read their weights from outside."""

import numpy as np
import onnx
import pytest

from albert_tf.model import int8_weights
from albert_tf.model.checkpoints import checkpoint_reader
from albert_tf.model.execution import adaptive
from albert_tf.serving.formats import onnx_loops, onnx_model
from tests.albert_tf.model import passes
from tests.albert_tf.serving import saved_services
from tests.albert_tf.serving.formats import id_services
from tests.conftest import PARITY_ATOL

LAYERS = 4
RULE = adaptive.Rule(patience=1, entropy=0.6)
_KERNELS = 4  # Of one layer: its three of attention stand side by side.


def make_model(vocabulary, precision="float32"):
    """A classifier with an exit after every layer, whose answers differ."""
    model = id_services.make_model(
        "classifier",
        vocabulary,
        precision,
        **{**id_services.WIDE, "num_hidden_layers": LAYERS},
    )
    saved_services.spread(model.service.model, 0.4)
    model.service.adapt(range(1, LAYERS + 1), RULE)
    return model


def batches():
    """Batches of several sizes and lengths, with padding, and an empty one."""
    generator = np.random.default_rng(4)
    for count, length in ((1, 6), (9, 13), (0, 4), (20, 5)):
        lengths = generator.integers(1, length + 1, count)
        mask = (np.arange(length) < lengths[:, None]).astype(np.int32)
        ids = generator.integers(5, 400, [count, length]).astype(np.int32)
        yield {
            "input_ids": ids * mask,
            "input_mask": mask,
            "segment_ids": mask * (np.arange(length, dtype=np.int32) > 2),
        }


@pytest.mark.parametrize("precision", ["float32", "int8_weights"])
def test_answers_and_layers_are_those_of_the_service(
    tiny_vocab, tmp_path, precision
):
    model = make_model(tiny_vocab, precision)
    if precision == "int8_weights":
        for variable in model.service.model.variables:
            name = checkpoint_reader.name_of(variable)
            if variable.shape.rank == 2:
                parts = int8_weights.quantize(name, variable.numpy())
                variable.assign(np.multiply(*parts))
    id_services.save(model, onnx_model.FORMAT, tmp_path)
    path = str(tmp_path / "model/model.onnx")
    used = set()
    for batch in batches():
        found = onnx_model.FORMAT.open(path)("tokens", batch)
        wanted = model.service.functions["tokens"](*batch.values())
        np.testing.assert_array_equal(found["layers"], wanted["layers"])
        passes.assert_close(
            found["probabilities"], wanted["probabilities"], PARITY_ATOL
        )
        used |= set(found["layers"].tolist())
    assert len(used) > 1


def test_8_bits_reach_the_kernels_in_a_loop(tiny_vocab, tmp_path):
    model = make_model(tiny_vocab, "int8")
    content = id_services.save(model, onnx_model.FORMAT, tmp_path)
    assert len(content) < 1.5 * id_services.count_parameters(model)
    graph = onnx.load_from_string(content).graph
    kernels = [
        node.input[1]
        for node in onnx_loops.all_nodes(graph)
        if node.op_type == "MatMulInteger"
    ]
    # Arranged beforehand are only those of the body itself.
    inner = {
        weight.name
        for node in onnx_loops.all_nodes(graph)
        for body in onnx_loops.bodies(node)
        for weight in body.initializer
    }
    assert len(inner & set(kernels)) >= _KERNELS
    # And the mapping of the embeddings, the pooler, the classifier.
    assert len(set(kernels)) == len(kernels) >= _KERNELS + 2
