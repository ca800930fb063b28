"""The model of a label or a number: one linear layer on the pooled output.

Source: ALBERT appendix A.4.
"""

import tf_keras as keras

from albert_tf.finetuning import base
from albert_tf.model.heads import classification, head
from albert_tf.model.losses import label_objectives, objectives
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.tasks.text.task import TextTask

HEADS = (
    head.Head(
        "classifier",
        "output_bias",
        classification.AlbertClassifier,
        transformers={
            "ForSequenceClassification": (("", "output", "classifier"),)
        },
        pipelines={"ForSequenceClassification": "text-classification"},
    ),
)


def make(task: TextTask, encoder: AlbertModel) -> keras.Model:
    mean, deviation = task.scale
    return classification.AlbertClassifier(
        encoder,
        len(task.labels) or 1,
        mean=mean,
        deviation=deviation,
        vectors=task.vectors,
    )


def objective(
    task: TextTask, learnt: base.Examples = ()
) -> objectives.Objective:
    if task.problem == "labels":
        return label_objectives.multi_label(task.class_weights(learnt))
    if task.is_pairwise:
        return label_objectives.CLASSIFICATION  # Of the better text.
    if task.is_regression:
        return label_objectives.regression(*task.scale)
    return label_objectives.weighted(task.class_weights(learnt))
