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
    """A task that registers nothing."""


def test_a_derived_task_has_the_head_of_its_base(tiny_tokenizer, small_config):
    task = DerivedTask("mnli", tiny_tokenizer, 16)
    encoder = AlbertModel(small_config)
    model = task_models.make_model(task, encoder)
    assert type(model) is classification.AlbertClassifier
    assert model.output_bias.shape == [3]
    assert task_models.objective(task) is label_objectives.CLASSIFICATION


def test_a_task_without_a_head_says_what_is_missing(small_config):
    class Headless(base.Task):
        name = "headless"

    Headless.__abstractmethods__ = frozenset()
    task = Headless(None, 16)
    with pytest.raises(TypeError, match="headless has no model.*make_model"):
        task_models.make_model(task, AlbertModel(small_config))
    with pytest.raises(TypeError, match="headless has no loss.*objective"):
        task_models.objective(task)


@pytest.mark.parametrize(
    "name, outputs", [("rte", 2), ("mnli", 3), ("ax", 3), ("sts-b", 1)]
)
def test_model_has_one_output_for_each_label(small_config, name, outputs):
    task = small_tasks.make(name)
    model = task_models.make_model(task, AlbertModel(small_config))
    assert isinstance(model, classification.AlbertClassifier)
    assert model.output_bias.shape == [outputs]
    objective = label_objectives.CLASSIFICATION
    if name == "sts-b":
        objective = label_objectives.REGRESSION
    assert task_models.objective(task) is objective


def test_model_scores_options(small_config):
    options = race.RaceOptions(max_qa_length=6)
    task = race.RaceTask(small_tasks.Markers(), 16, options)
    model = task_models.make_model(task, AlbertModel(small_config))
    assert isinstance(model, multiple_choice.AlbertMultipleChoice)
    ids = np.ones([1, 4, 8], np.int32)
    assert model({"input_ids": ids})["logits"].shape == [1, 4]
    assert task_models.objective(task) is label_objectives.CLASSIFICATION
