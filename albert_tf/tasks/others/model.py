"""The models of tasks without a slice, and what they are trained for.

Source: ALBERT appendix A.4.
"""

import functools
from collections.abc import Sequence
from typing import Any

import tf_keras as keras

from albert_tf.finetuning import base, multi_label, ranking, regression, tables
from albert_tf.finetuning.glue import glue
from albert_tf.model.heads import classification, head
from albert_tf.model.losses import (
    label_objectives,
    objectives,
)
from albert_tf.model.network.encoder import AlbertModel

# The pooled output, of any number of classes.
HEADS = (
    head.Head("classifier", "output_bias", classification.AlbertClassifier),
)


@functools.singledispatch
def make(task: base.Task, encoder: AlbertModel) -> keras.Model:
    """Put the head of a task, with new weights, on an encoder."""
    raise TypeError(
        f"The task {task.name} has no model. Override `make_model`."
    )


@functools.singledispatch
def objective(
    task: base.Task, learnt: Sequence[Any] = ()
) -> objectives.Objective:
    """Return what the model of a task is trained for."""
    raise TypeError(f"The task {task.name} has no loss. Override `objective`.")


@make.register
def _(task: glue.TextTask, encoder: AlbertModel) -> keras.Model:
    return classification.AlbertClassifier(encoder, len(task.labels) or 1)


@objective.register
def _(task: glue.TextTask, learnt: Sequence[Any] = ()) -> objectives.Objective:
    if task.is_regression:
        return label_objectives.REGRESSION
    return label_objectives.CLASSIFICATION


@objective.register
def _(
    task: tables.TableTask, learnt: Sequence[Any] = ()
) -> objectives.Objective:
    return label_objectives.weighted(task.class_weights(learnt))


@make.register
def _(task: regression.RegressionTask, encoder: AlbertModel) -> keras.Model:
    mean, deviation = task.facts.scale
    return classification.AlbertClassifier(
        encoder, 1, mean=mean, deviation=deviation
    )


@objective.register
def _(
    task: regression.RegressionTask, learnt: Sequence[Any] = ()
) -> objectives.Objective:
    return label_objectives.regression(task.facts.scale[1])


@objective.register
def _(
    task: ranking.RankingTask, learnt: Sequence[Any] = ()
) -> objectives.Objective:
    if task.is_pairwise:
        return label_objectives.CLASSIFICATION  # Of the better text.
    return label_objectives.regression(task.facts.scale[1])


@objective.register
def _(
    task: multi_label.MultiLabelTask, learnt: Sequence[Any] = ()
) -> objectives.Objective:
    return label_objectives.multi_label(task.class_weights(learnt))
