"""Small services of every kind, for the tests of exports that take ids."""

import numpy as np
import tensorflow as tf

from albert_tf.finetuning import race
from albert_tf.finetuning.squad import squad, squad_features
from albert_tf.model import modeling
from albert_tf.serving import make
from albert_tf.serving.formats import id_model
from albert_tf.text import tokenization

KINDS = [
    "encoder",
    "pretraining",
    "classifier",
    "regression",
    "squad 1.1",
    "squad 2.0",
    "race",
]
LENGTH = 64
LABELS = ("yes", "no", "maybe")
# A shape whose weights weigh more than the graph of its layers.
WIDE = {
    "embedding_size": 128,
    "hidden_size": 256,
    "num_hidden_layers": 12,
    "num_attention_heads": 4,
    "intermediate_size": 1024,
}


def make_model(kind, vocabulary, precision="float32", **shape):
    """A model of one layer, or another shape, with weights all its own."""
    options = tokenization.VocabularyOptions(spm_model_file=vocabulary)
    service = _make_service(kind, tokenization.load(options), **shape)
    return id_model.IdModel(service, options, precision, {"learned": "yes"})


def save(model, form, folder):
    """Save a model; returns the bytes of the network."""
    id_model.save(model, str(folder / "model"), form)
    return (folder / "model" / form.file_name).read_bytes()


def count_parameters(model):
    """The numbers that a model has learned."""
    return sum(int(np.prod(v.shape)) for v in model.service.model.variables)


def _make_service(kind, tokenizer, **shape):
    config = modeling.AlbertConfig(
        **{
            "vocab_size": tokenizer.vocab_size,
            "embedding_size": 8,
            "hidden_size": 16,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "intermediate_size": 24,
            "max_position_embeddings": LENGTH,
            **shape,
        }
    )
    service = _make(kind, modeling.AlbertModel(config), tokenizer)
    for index, variable in enumerate(service.model.variables):
        noise = tf.random.stateless_normal(variable.shape, [7, index])
        variable.assign_add(0.1 * noise)
    return service


def _make(kind, encoder, tokenizer):
    given = encoder, tokenizer, LENGTH
    if kind == "encoder":
        return make.of_encoder(*given)
    if kind == "pretraining":
        return make.of_pretraining(*given, sentence_order=True)
    if kind == "classifier":
        return make.of_labels(*given, labels=LABELS, pairs=True)
    if kind == "regression":
        return make.of_labels(*given, labels=(), pairs=True)
    if kind == "race":
        task = race.RaceTask(
            tokenizer, LENGTH, race.RaceOptions(max_qa_length=16)
        )
        return make.of_task(task, encoder)
    windows = squad_features.WindowOptions(doc_stride=16, max_query_length=16)
    options = squad.SquadOptions(
        squad_version=kind.split()[1],
        null_score_diff_threshold=0.0,
        windows=windows,
    )
    return make.of_task(squad.SquadTask(tokenizer, LENGTH, options), encoder)
