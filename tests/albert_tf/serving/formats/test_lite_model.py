"""LiteRT: what stands in the file. Answers: see test_id_model.py."""

import collections

import numpy as np
import tensorflow as tf
from tensorflow.lite.python import schema_py_generated as schema

from albert_tf.serving.formats import id_model, lite_model
from tests.albert_tf.serving.formats import id_services


def test_8_bits_make_a_quarter_of_it(tiny_vocab, tmp_path):
    """Every kernel has them, and the answers are those of the same weights."""
    shape = id_services.WIDE | {"num_hidden_layers": 3}
    model = id_services.make_model("encoder", tiny_vocab, "int8", **shape)
    content = id_services.save(model, lite_model.FORMAT, tmp_path)
    assert len(content) < 1.3 * id_services.count_parameters(model)
    network = schema.ModelT.InitFromObj(schema.Model.GetRootAs(content, 0))
    kinds = collections.defaultdict(set)
    for graph in network.subgraphs:
        for tensor in graph.tensors:
            if network.buffers[tensor.buffer].data is not None:
                kinds[tuple(sorted(tensor.shape))].add(tensor.type)
    for kernel in ((256, 256), (256, 1024), (128, 256)):
        assert kinds[kernel] == {schema.TensorType.INT8}
    path = str(tmp_path / "model" / lite_model.FORMAT.file_name)
    function = lite_model.FORMAT.functions(model.service)["tokens"]
    inputs = id_model.sample(function, model.service.encoder.config)
    answers = lite_model.FORMAT.open(path)("tokens", inputs)
    expected = function(*map(tf.constant, inputs.values()))
    for name, value in expected.items():
        likeness = np.corrcoef(np.ravel(value), np.ravel(answers[name]))[0, 1]
        assert 0.99 < likeness < 0.999999, name


def test_signatures_share_weights_and_need_nothing_else(tiny_vocab, tmp_path):
    model = id_services.make_model("pretraining", tiny_vocab, embedding_size=64)
    content = id_services.save(model, lite_model.FORMAT, tmp_path)
    network = schema.ModelT.InitFromObj(schema.Model.GetRootAs(content, 0))
    names = {each.signatureKey.decode() for each in network.signatureDefs}
    assert names == {"tokens", "mlm", "sentence_order"}
    data = [buffer.data for buffer in network.buffers]
    sizes = collections.Counter(len(d) for d in data if d is not None)
    # The table of words, by rows for texts and by columns for masks.
    assert sizes[model.service.encoder.config.vocab_size * 64 * 4] == 1
    assert not any(code.customCode for code in network.operatorCodes)
