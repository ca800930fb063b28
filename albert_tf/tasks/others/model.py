"""The models of tasks without a slice, and what they are trained for.

Source: ALBERT appendix A.4.
"""

import functools

import tf_keras as keras

from albert_tf.finetuning import base, multi_label, ranking, regression, tables
from albert_tf.finetuning.glue import glue
from albert_tf.finetuning.squad import squad
from albert_tf.model.heads import classification, question_answering
from albert_tf.model.losses import (
    label_objectives,
    objectives,
    span_objectives,
)
from albert_tf.model.network.encoder import AlbertModel


@functools.singledispatch
def make(task: base.Task, encoder: AlbertModel) -> keras.Model:
    """Put the head of a task, with new weights, on an encoder."""
    raise TypeError(
        f"The task {task.name} has no model. Override `make_model`."
    )


@functools.singledispatch
def objective(task: base.Task) -> objectives.Objective:
    """Return what the model of a task is trained for."""
    raise TypeError(f"The task {task.name} has no loss. Override `objective`.")


@make.register
def _(task: glue.TextTask, encoder: AlbertModel) -> keras.Model:
    return classification.AlbertClassifier(encoder, len(task.labels) or 1)


@objective.register
def _(task: glue.TextTask) -> objectives.Objective:
    if task.is_regression:
        return label_objectives.REGRESSION
    return label_objectives.CLASSIFICATION


@objective.register
def _(task: tables.TableTask) -> objectives.Objective:
    return label_objectives.weighted(task.class_weights)


@make.register
def _(task: regression.RegressionTask, encoder: AlbertModel) -> keras.Model:
    return classification.AlbertClassifier(
        encoder, 1, mean=task.mean, deviation=task.deviation
    )


@objective.register
def _(task: regression.RegressionTask) -> objectives.Objective:
    return label_objectives.regression(task.deviation)


@objective.register
def _(task: ranking.RankingTask) -> objectives.Objective:
    if task.is_pairwise:
        return label_objectives.CLASSIFICATION  # Of the better text.
    return label_objectives.regression(task.deviation)


@objective.register
def _(task: multi_label.MultiLabelTask) -> objectives.Objective:
    return label_objectives.multi_label(task.class_weights)


@make.register
def _(task: squad.SquadTask, encoder: AlbertModel) -> keras.Model:
    # The pooler has no part in it and keeps its weights, as in the original.
    if not task.has_null:
        return question_answering.AlbertSquadV1(encoder)
    return question_answering.AlbertSquadV2(
        encoder,
        task.options.start_n_top,
        task.options.end_n_top,
        task.options.dropout_prob,
    )


@objective.register
def _(task: squad.SquadTask) -> objectives.Objective:
    if task.has_null:
        return span_objectives.V2
    return span_objectives.V1
