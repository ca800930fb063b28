"""Every kind of model around an encoder, for tests."""

import tf_keras as keras

from albert_tf.model.heads import classification, pretraining
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.tasks.embedding import model as embedding
from albert_tf.tasks.race import model as multiple_choice
from albert_tf.tasks.squad import model as squad_model
from albert_tf.tasks.tagging import model as token_classification
from tests.albert_tf.model import passes

MODELS = {
    "encoder": lambda e: e,
    "pretraining": pretraining.AlbertPretrainer,
    "masked words": lambda e: pretraining.AlbertPretrainer(e, False),
    "classifier": lambda e: classification.AlbertClassifier(e, 3, 0.3),
    "choice": lambda e: multiple_choice.AlbertMultipleChoice(e, 0.2),
    "tags": lambda e: token_classification.AlbertTokenClassifier(e, 4, 0.3),
    "vectors": lambda e: embedding.AlbertEmbedder(e, "max", 5),
    "squad_v1": squad_model.AlbertSquadV1,
    "squad_v2": lambda e: squad_model.AlbertSquadV2(e, 2, 3, 0.4),
}


def random_weights(kind, config):
    """The same small weights each time, by variable name; no bias is 0."""
    keras.utils.set_random_seed(1)
    return passes.values(passes.fill(MODELS[kind](AlbertModel(config))))
