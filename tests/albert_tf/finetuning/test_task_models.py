"""The head and the loss of each task; test_squad.py has those of SQuAD."""

import numpy as np
import pytest

from albert_tf.finetuning import base
from albert_tf.model.heads import classification
from albert_tf.model.losses import embedding_objectives, label_objectives
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.tasks.embedding import task as embedding
from albert_tf.tasks.glue import task as glue
from albert_tf.tasks.race import model as multiple_choice
from albert_tf.tasks.race import task as race
from albert_tf.tasks.squad import model as squad_model
from albert_tf.tasks.squad import task as squad
from albert_tf.tasks.table import data, numbers
from albert_tf.tasks.tagging import task as tagging
from tests.albert_tf.tasks.glue import small_tasks


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
    task = small_tasks.make(name, None, 16, DerivedTask)
    model = task.make_model(AlbertModel(small_config))
    assert type(model) is classification.AlbertClassifier
    assert model.output_bias.shape == [outputs]
    assert task.objective() is objective


def test_a_task_without_a_head_says_what_is_missing(small_config):
    class Headless(base.Task):
        name = "headless"

    Headless.__abstractmethods__ = frozenset()
    task = Headless(None, 16)
    with pytest.raises(TypeError, match="headless has no model.*make_model"):
        task.make_model(AlbertModel(small_config))
    with pytest.raises(TypeError, match="headless has no model.*objective"):
        task.objective()


def test_heads_are_as_the_options_say(small_config):
    encoder, tokenizer = AlbertModel(small_config), small_tasks.Markers()
    options = squad.SquadOptions("2.0", 3, 2, 0.25)
    task = squad.SquadTask(tokenizer, 128, options)
    model = task.make_model(encoder)
    assert (model.start_n_top, model.end_n_top) == (3, 2)
    assert model.dropout == 0.25
    assert task.objective() is squad_model.V2
    options = embedding.EmbeddingOptions(text_pooling="max", projection_size=5)
    task = embedding.EmbeddingTask(tokenizer, 16, options)
    model = task.make_model(encoder)
    assert (model.text_pooling, model.projection_size) == ("max", 5)
    assert task.objective() is embedding_objectives.COSINE
    options = tagging.TaggingOptions("N\tV\tP")
    task = tagging.TaggingTask(tokenizer, 16, options)
    model = task.make_model(encoder)
    assert model.output_bias.shape == [3]
    assert task.objective() is label_objectives.TOKENS
    options = data.TableOptions(text_columns="t", query_column="q")
    task = numbers.RankingTask(tokenizer, 16, options)
    assert task.objective() is label_objectives.CLASSIFICATION


def test_model_scores_options(small_config):
    options = race.RaceOptions(max_qa_length=6, dropout_prob=0.25)
    task = race.RaceTask(small_tasks.Markers(), 16, options)
    model = task.make_model(AlbertModel(small_config))
    assert isinstance(model, multiple_choice.AlbertMultipleChoice)
    assert model.dropout == 0.25
    ids = np.ones([1, 4, 8], np.int32)
    assert model({"input_ids": ids})["logits"].shape == [1, 4]
    assert task.objective() is label_objectives.CLASSIFICATION
