"""BERT-shaped checkpoints: Hugging Face folders and Google's TF1 files."""

import dataclasses
import json

import pytest
import safetensors.numpy

from albert_tf.model.checkpoints import (
    checkpoint_reader,
    huggingface,
    layouts,
    restoring,
)
from albert_tf.model.config import AlbertConfig
from albert_tf.model.heads import from_checkpoint
from tests import hugging_face_files, tf1_checkpoints
from tests.albert_tf.model import models, passes

CONFIG = AlbertConfig(
    vocab_size=11,
    embedding_size=6,
    hidden_size=6,
    num_hidden_layers=3,
    num_attention_heads=2,
    intermediate_size=10,
    hidden_act="gelu_erf",
    max_position_embeddings=8,
    share="none",
)
# The parts of a layer, Google's and ours.
SCOPES = {
    "attention/self/query": "attention_1/self/query",
    "attention/self/key": "attention_1/self/key",
    "attention/self/value": "attention_1/self/value",
    "attention/output/dense": "attention_1/output/dense",
    "attention/output/LayerNorm": "LayerNorm",
    "intermediate/dense": "ffn_1/intermediate/dense",
    "output/dense": "ffn_1/intermediate/output/dense",
    "output/LayerNorm": "LayerNorm_1",
}
HEADS = {
    "BertModel": "encoder",
    "BertForPreTraining": "pretraining",
    "BertForMaskedLM": "masked words",
    "BertForSequenceClassification": "classifier",
    "BertForQuestionAnswering": "squad_v1",
}


def google_values(weights):
    """The same weights under the names of Google's release."""
    renamed = {}
    for name, value in weights.items():
        for theirs, ours in SCOPES.items():
            for layer in range(CONFIG.num_hidden_layers):
                scope = (
                    layouts.OUR_LAYER.format(group=layer, inner=0) + ours + "/"
                )
                if name.startswith(scope):
                    name = name.replace(
                        scope, f"bert/encoder/layer_{layer}/{theirs}/"
                    )
        renamed[name] = value
    return renamed


@pytest.mark.parametrize(("architecture", "kind"), HEADS.items())
def test_a_bert_is_written_as_one_and_read_again(tmp_path, architecture, kind):
    weights = models.random_weights(kind, CONFIG)
    hugging_face_files.write(tmp_path, CONFIG, weights)
    values = json.loads((tmp_path / "config.json").read_text())
    assert values["architectures"] == [architecture]
    assert values["model_type"] == "bert"
    assert (values["hidden_act"], values["classifier_dropout"]) == ("gelu", 0.1)
    assert "embedding_size" not in values
    names = safetensors.numpy.load_file(tmp_path / "model.safetensors").keys()
    layer = "encoder.layer.2.attention.self.query.weight"
    assert (layer if kind == "encoder" else f"bert.{layer}") in names
    checkpoint = checkpoint_reader.read(str(tmp_path))
    assert checkpoint.config == CONFIG
    passes.assert_same(checkpoint.load(checkpoint.shapes), weights)


def test_google_s_checkpoints_are_read(tmp_path):
    weights = models.random_weights("pretraining", CONFIG)
    values = google_values(weights)
    assert "bert/encoder/layer_2/output/LayerNorm/gamma" in values
    tf1_checkpoints.write(tmp_path / "bert_model.ckpt", values)
    theirs = {
        key: value
        for key, value in dataclasses.asdict(CONFIG).items()
        if key in ("vocab_size", "hidden_size", "num_hidden_layers")
        or key in ("num_attention_heads", "intermediate_size")
        or key == "max_position_embeddings"
    }
    theirs |= {"hidden_act": "gelu", "pooler_type": "first_token_transform"}
    theirs |= {"directionality": "bidi"}
    theirs |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    for path in (tmp_path, tmp_path / "bert_model.ckpt"):
        (tmp_path / "bert_config.json").write_text(json.dumps(theirs))
        theirs.pop("hidden_act", None)  # The default.
        checkpoint = checkpoint_reader.read(str(path))
        assert checkpoint.config == CONFIG
        model = from_checkpoint.make_model(checkpoint.config, checkpoint)
        assert not restoring.restore(model, checkpoint).new
        passes.assert_same(passes.values(model), weights)


def test_old_configs_without_a_model_type_are_berts_by_their_class(tmp_path):
    weights = models.random_weights("encoder", CONFIG)
    hugging_face_files.write(tmp_path, CONFIG, weights)
    file = tmp_path / "config.json"
    values = json.loads(file.read_text())
    del values["model_type"], values["hidden_act"]
    file.write_text(json.dumps(values))
    assert checkpoint_reader.read(str(tmp_path)).config == CONFIG
    passes.assert_same(huggingface.read_weights(str(tmp_path)), weights)
