"""Services for phones: LiteRT, with its built-in operations alone.

The file has the signatures of the SavedModel that take ids, under their names.
Batch and length may vary. docs/serving.md shows how it is asked.
"""

import pathlib
import re
import tempfile

import tensorflow as tf
from tensorflow.lite.python import convert_phase

from albert_tf.common import errors, imports
from albert_tf.serving.formats import id_model
from albert_tf.serving.services import service

interpreter = imports.later("ai_edge_litert.interpreter")

# Where the converter lists operations that LiteRT lacks, in a page of text.
_MISSING = re.compile(r"^(?:TF Select|Custom) ops: (.+)$", re.MULTILINE)


def convert(
    functions: id_model.Functions, exported: id_model.IdModel, path: str
) -> None:
    """Write the network.

    What layers and signatures share stands in the file once. One exception: in
    int8, models that predict masked words have their table of words twice, in
    other scales for its rows than for its columns.
    """
    root = tf.Module()
    concrete = [f.get_concrete_function() for f in functions.values()]
    root.weights = [v for function in concrete for v in function.variables]
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(root, folder, signatures=functions)
        converter = tf.lite.TFLiteConverter.from_saved_model(
            folder, signature_keys=list(functions)
        )
        if exported.precision == "int8":
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        try:
            content = converter.convert()
        except convert_phase.ConverterError as error:
            missing = _MISSING.findall(str(error))
            if not missing:
                raise
            raise errors.UserError(
                f"`format=litert` has no operation for {', '.join(missing)}, "
                "which are a part of this model. Use `format=onnx`, or the "
                "SavedModel."
            ) from error
    pathlib.Path(path).write_bytes(content)


def _open(path: str) -> id_model.Ask:
    model = interpreter.Interpreter(path)
    return lambda name, inputs: model.get_signature_runner(name)(**inputs)


FORMAT = id_model.Format(
    name="litert",
    file_name="model.tflite",
    modules=("ai_edge_litert",),
    install="ai-edge-litert",
    functions=service.id_functions,
    convert=convert,
    open=_open,
)
