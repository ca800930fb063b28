"""Models for MediaPipe's tasks, which take text on Android, iOS and the web.

`model.tflite` has one function with one output and, as a zip archive behind it,
the vocabulary and the labels. Its metadata name these files. Their format is
mediapipe/tasks/metadata/metadata_schema.fbs, whose fields are numbered here:
the writer of mediapipe 1.2.3 needs a module that the package lacks.
"""

import zipfile
from typing import Any

import flatbuffers
import numpy as np
import tensorflow as tf
from absl import logging
from tensorflow.lite.python import schema_py_generated as schema
from tensorflow.lite.tools import flatbuffer_utils

from albert_tf.common import errors
from albert_tf.serving.formats import id_model, lite_model
from albert_tf.serving.services import service
from albert_tf.text import huggingface_rules
from albert_tf.training import run_folder

_INPUTS = {
    "input_ids": "ids",
    "input_mask": "mask",
    "segment_ids": "segment_ids",
}
# Of the union ProcessUnitOptions.
_TOKENIZERS = {"vocab_file": 4, "spm_model_file": 5}
_LABELS, _AXIS_LABELS = "labels.txt", 2


def _functions(served: service.Service) -> id_model.Functions:
    """Return `tokens` with one output; longer sequences are cut.

    MediaPipe cuts nothing: a text that is too long would stop its graph.
    """
    answer = served.app_output
    if answer is None or served.texts != ("text",):
        raise errors.UserError(
            "`format=mediapipe` takes models that give a single text a label, "
            "several labels or a vector of float32. Use `format=litert`."
        )
    if given := served.text_options.get("prompts"):
        logging.warning(
            "MediaPipe puts no prompt before a text. The app has to write it "
            "there itself: %s.",
            given,
        )

    def tokens(*ids: tf.Tensor) -> service.Tensors:
        cut = (
            tf.concat([x[:, :-1][:, : served.max_seq_length - 1], x[:, -1:]], 1)
            for x in ids
        )
        return {answer: served.tokens(*cut)[answer]}

    return {"tokens": service.with_ids(tokens)}


def _convert(
    functions: id_model.Functions, exported: id_model.IdModel, path: str
) -> None:
    rules = exported.vocabulary.normalization
    if (
        not rules.do_lower_case
        or rules.keep_accents
        or "windows" in exported.service.text_options
    ):
        raise errors.UserError(
            "`format=mediapipe` takes models that lower-case texts, leave "
            "accents out and cut long texts: MediaPipe does so. Use "
            "`format=litert`."
        )
    lite_model.convert(functions, exported, path)
    kind = str(exported.vocabulary.kind)
    source = str(exported.vocabulary.path)
    labels = getattr(exported.service, "labels", ())
    packed = {
        run_folder.VOCABULARY_NAMES[kind]: huggingface_rules.content_of(source)
    }
    if labels:
        packed[_LABELS] = "\n".join(labels).encode()
    network = flatbuffer_utils.read_model(path)
    (graph,), (signature,) = network.subgraphs, network.signatureDefs
    names = {t.tensorIndex: t.name.decode() for t in signature.inputs}
    inputs = [_INPUTS[names[i]] for i in graph.inputs]
    metadata = _metadata(kind, inputs, str(exported.service.app_output), labels)
    buffer, entry = schema.BufferT(), schema.MetadataT()
    buffer.data = np.frombuffer(metadata, np.uint8)
    entry.name, entry.buffer = b"TFLITE_METADATA", len(network.buffers)
    network.buffers.append(buffer)
    network.metadata.append(entry)
    flatbuffer_utils.write_model(network, path)
    with zipfile.ZipFile(path, "a") as archive:
        for name, content in packed.items():
            archive.writestr(zipfile.ZipInfo(name), content)


def _metadata(
    kind: str, inputs: list[str], output: str, labels: tuple[str, ...]
) -> bytes:
    """Return a table ModelMetadata; inputs are in the order of the network."""
    vocabulary = {0: run_folder.VOCABULARY_NAMES[kind]}
    answer: dict[int, Any] = {0: output}
    if labels:
        answer[6] = [{0: _LABELS, 2: _AXIS_LABELS}]
    graph = {
        2: [{0: name} for name in inputs],
        3: [answer],
        5: [{0: _TOKENIZERS[kind], 1: {0: [vocabulary]}}],
    }
    builder = flatbuffers.Builder()
    builder.Finish(_pack(builder, {3: [graph]}), b"M001")
    return bytes(builder.Output())


def _pack(builder: flatbuffers.Builder, value: Any) -> int:
    """Return the offset of a text, a list, or a table by field numbers."""
    if isinstance(value, str):
        return builder.CreateString(value)
    if isinstance(value, list):
        offsets = [_pack(builder, each) for each in value]
        builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            builder.PrependUOffsetTRelative(offset)
        return builder.EndVector()
    packed = {
        i: each if isinstance(each, int) else _pack(builder, each)
        for i, each in value.items()
    }
    builder.StartObject(max(packed) + 1)
    for i, each in packed.items():
        if isinstance(value[i], int):
            builder.PrependUint8Slot(i, each, 0)
        else:
            builder.PrependUOffsetTRelativeSlot(i, each, 0)
    return builder.EndObject()


FORMAT = lite_model.FORMAT._replace(
    name="mediapipe", functions=_functions, convert=_convert
)
