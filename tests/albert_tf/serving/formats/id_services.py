"""Small services of every kind, for the tests of exports that take ids."""

import numpy as np

from albert_tf.serving.formats import id_model
from albert_tf.text import tokenization
from tests.albert_tf.serving import saved_services
from tests.conftest import tiny_config

LENGTH = 64
# A shape whose weights weigh more than the graph of its layers.
WIDE = {
    "embedding_size": 128,
    "hidden_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 1024,
}


def make_model(kind, vocabulary, precision="float32", **shape):
    """A model of one layer, or another shape, with weights all its own."""
    options = tokenization.VocabularyOptions(spm_model_file=vocabulary)
    service = saved_services.make_service(
        kind, tiny_config(**shape), tokenization.load(options), LENGTH
    )
    return id_model.IdModel(service, options, precision, {"learned": "yes"})


def save(model, form, folder):
    """Save a model; returns the bytes of the network."""
    id_model.save(model, str(folder / "model"), form)
    return (folder / "model" / form.file_name).read_bytes()


def count_parameters(model):
    """The numbers that a model has learned."""
    return sum(int(np.prod(v.shape)) for v in model.service.model.variables)
