"""Services for ONNX Runtime.

The file has one function, `tokens`; batch and length may vary. Of a pretrained
model it has the inputs and outputs of the signatures `tokens`, `mlm` and
`sentence_order` of the SavedModel together. Without masked words, give one
position, 0, for each sequence. docs/serving.md shows how it is asked.
"""

import copy
import os
import pathlib
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras

from albert_tf.common import errors, imports
from albert_tf.serving.formats import answer, id_model, onnx_int8, onnx_loops
from albert_tf.serving.services import encoder_service, service

onnx = imports.later("onnx")
tf2onnx = imports.later("tf2onnx")

# The version of ONNX's operations.
_OPSET = 17
# What transformers calls outputs; and the files, with their precision.
_OF_TRANSFORMERS = {
    "sequence_output": "last_hidden_state",
    "masked_lm_logits": "logits",
    **{name: name for name in ("logits", "start_logits", "end_logits")},
}
NAMES_OF_TRANSFORMERS = {
    "onnx/model.onnx": "float32",
    "onnx/model_quantized.onnx": "int8",
}


def _functions(served: service.Service) -> id_model.Functions:
    """Return one function, as a file has one, and weights are stored once."""
    if not isinstance(served, encoder_service.PretrainedService):
        return {"tokens": service.id_functions(served)["tokens"]}

    def together(*ids: tf.Tensor) -> service.Tensors:
        outputs = served.mlm(*ids)
        if served.model.sentence_order:
            pooled = outputs["pooled_output"]
            outputs["sop_logits"] = served.model.sentence_order_logits(pooled)
        return outputs

    return {"tokens": service.with_ids(together, encoder_service.MLM_IDS)}


def _convert(
    functions: id_model.Functions, exported: id_model.IdModel, path: str
) -> None:
    """Write the network.

    What layers share stands in the file once. One exception: in int8, models
    that predict masked words have their table of words twice, in other scales
    for its rows than for its columns.
    """
    (function,) = functions.values()
    _save(_to_onnx(function), path, exported.precision, exported.texts)


def _to_onnx(function: Any) -> Any:
    # Else it copies the graph before each of its passes.
    os.environ.setdefault("TF2ONNX_CATCH_ERRORS", "false")
    model, _ = tf2onnx.convert.from_function(
        function,
        function.input_signature,
        opset=_OPSET,
        custom_op_handlers={"Erfc": (_write_erfc, [])},
    )
    onnx_loops.hoist(model.graph)
    try:
        onnx.checker.check_model(model)
    except onnx.checker.ValidationError as error:
        raise errors.UserError(
            "`format=onnx` has no operation for a part of this model. Use the "
            f"SavedModel. What the checker says: {error}"
        ) from error
    return model


def _save(
    model: Any, path: str, precision: str, texts: Sequence[id_model.Arrays] = ()
) -> None:
    """Write a model, which is changed, with all that is done to weights."""
    if precision == "int8":
        onnx_int8.quantize(model, path, texts)
        model = onnx.load(path)
    else:
        _share_transposed(model)
    if precision == "int8_weights":
        onnx_int8.store(model.graph)
    onnx_loops.sink(model.graph)
    onnx.save(model, path)


def files_of(model: keras.Model) -> dict[str, bytes]:
    """Return a model as transformers.js finds it in a folder, by file name.

    Inputs and outputs have the names of transformers; ids are int64 [batch,
    seq]. Of masked words there are logits at all positions.
    """

    def call(*ids: tf.Tensor) -> service.Tensors:
        ids = tuple(tf.cast(each, tf.int32) for each in ids)
        inputs = dict(zip(service.IDS, ids, strict=True))
        places = tf.zeros_like(ids[0]) + tf.range(tf.shape(ids[0])[1])
        outputs = model({**inputs, "masked_lm_positions": places})
        ours = _OF_TRANSFORMERS.keys() & outputs
        return {_OF_TRANSFORMERS[name]: outputs[name] for name in ours}

    function = tf.function(
        call,
        input_signature=[
            tf.TensorSpec([None, None], tf.int64, name)
            for name in ("input_ids", "attention_mask", "token_type_ids")
        ],
        autograph=False,
    )
    network, contents = _to_onnx(function), {}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "model.onnx")
        for name, precision in NAMES_OF_TRANSFORMERS.items():
            _save(copy.deepcopy(network), str(path), precision)
            contents[name] = path.read_bytes()
    return contents


def _write_erfc(graph: Any, node: Any, name: str, _: list[Any]) -> None:
    """Write 1 - erf for an operation that ONNX does not have.

    TensorFlow's exact GELU has it; tf2onnx 1.17 leaves it as it is
    (github.com/onnx/tensorflow-onnx/issues/2347).
    """
    one = graph.make_const(f"{name}_one", np.float32(1))
    erf = graph.make_node("Erf", list(node.input))
    node.type = "Sub"
    graph.replace_inputs(node, [one.output[0], erf.output[0]])


def _share_transposed(model: Any) -> None:
    """Store a matrix once that is also there transposed.

    That is the table of words, where masked words are predicted. ONNX Runtime
    transposes it when it loads the file.
    """
    graph = model.graph
    both = [i for i in graph.initializer if len(i.dims) == 2]
    tall = [i for i in both if i.dims[0] > i.dims[1]]
    for wide in both:
        same = [i for i in tall if list(i.dims) == list(wide.dims)[::-1]]
        for matrix in same:
            one, two = map(onnx.numpy_helper.to_array, (matrix, wide))
            if np.array_equal(one, two.T):
                node = onnx.helper.make_node(
                    "Transpose", [matrix.name], [wide.name], perm=[1, 0]
                )
                graph.node.insert(0, node)
                graph.initializer.remove(wide)
                break


def _open(path: str) -> id_model.Ask:
    # An output keeps the memory of its session: one session for all requests.
    session = answer.open_session(path)
    names = [output.name for output in session.get_outputs()]

    def ask(name: str, inputs: id_model.Arrays) -> id_model.Arrays:
        del name  # There is one only.
        return dict(zip(names, session.run(names, dict(inputs)), strict=True))

    return ask


FORMAT = id_model.Format(
    name="onnx",
    file_name="model.onnx",
    modules=("tf2onnx", "onnxruntime"),
    install="onnx onnxruntime tf2onnx",
    functions=_functions,
    convert=_convert,
    open=_open,
)
