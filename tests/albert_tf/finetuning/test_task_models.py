"""The head and the loss of each task; test_squad.py has those of SQuAD."""

import numpy as np
import pytest

from albert_tf.finetuning import base, race, task_models
from albert_tf.finetuning.glue import glue
from albert_tf.model.heads import classification, multiple_choice
from albert_tf.model.losses import label_objectives
from albert_tf.model.network.encoder import AlbertModel
from tests.albert_tf.finetuning.glue import small_tasks


class DerivedTask(glue.GlueTask):
    """A task that registers nothing has the head of its base."""


@pytest.mark.parametrize(
    "name, outputs, objective",
    [
        ("rte", 2, label_objectives.CLASSIFICATION),
        ("mnli", 3, label_objectives.CLASSIFICATION),
        ("sts-b", 1, label_objectives.REGRESSION),
    ],
)
def test_model_has_one_output_for_each_label(
    small_config, name, outputs, objective
):
    task = DerivedTask(name, small_tasks.Markers(), 16)
    model = task_models.make_model(task, AlbertModel(small_config))
    assert type(model) is classification.AlbertClassifier
    assert model.output_bias.shape == [outputs]
    assert task_models.objective(task) is objective


def test_a_task_without_a_head_says_what_is_missing(small_config):
    class Headless(base.Task):
        name = "headless"

    Headless.__abstractmethods__ = frozenset()
    task = Headless(None, 16)
    with pytest.raises(TypeError, match="headless has no model.*make_model"):
        task_models.make_model(task, AlbertModel(small_config))
    with pytest.raises(TypeError, match="headless has no loss.*objective"):
        task_models.objective(task)


def test_model_scores_options(small_config):
    options = race.RaceOptions(max_qa_length=6)
    task = race.RaceTask(small_tasks.Markers(), 16, options)
    model = task_models.make_model(task, AlbertModel(small_config))
    assert isinstance(model, multiple_choice.AlbertMultipleChoice)
    ids = np.ones([1, 4, 8], np.int32)
    assert model({"input_ids": ids})["logits"].shape == [1, 4]
    assert task_models.objective(task) is label_objectives.CLASSIFICATION
