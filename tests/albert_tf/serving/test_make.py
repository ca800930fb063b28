"""Which service a task gets; the tests in services/ try them all."""

import pytest

from albert_tf.common import errors
from albert_tf.finetuning import task_models
from albert_tf.finetuning.glue import glue
from albert_tf.model.heads import classification
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.serving import make


class OtherTask(glue.GlueTask):
    """A task with a head of its own."""


class OtherHead(classification.AlbertClassifier):
    """Its weights have the names of the known head."""


@task_models.make_model.register
def make_other_head(task: OtherTask, encoder):
    return OtherHead(encoder, len(task.labels))


def test_a_head_without_a_service_is_refused(tiny_tokenizer, small_config):
    task = OtherTask("rte", tiny_tokenizer, 16)
    encoder = AlbertModel(small_config)
    with pytest.raises(errors.UserError, match="rte with the head OtherHead"):
        make.of_task(task, encoder)
