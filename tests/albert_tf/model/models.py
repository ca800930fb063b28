"""Every kind of model around an encoder, for tests."""

from albert_tf.model.heads import (
    classification,
    multiple_choice,
    pretraining,
    question_answering,
)

MODELS = {
    "encoder": lambda e: e,
    "pretraining": pretraining.AlbertPretrainer,
    "masked words": lambda e: pretraining.AlbertPretrainer(e, False),
    "classifier": lambda e: classification.AlbertClassifier(e, 3, 0.3),
    "choice": lambda e: multiple_choice.AlbertMultipleChoice(e, 0.2),
    "squad_v1": question_answering.AlbertSquadV1,
    "squad_v2": lambda e: question_answering.AlbertSquadV2(e, 2, 3, 0.4),
}
