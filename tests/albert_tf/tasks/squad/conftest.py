"""A task of SQuAD with short windows."""

import pytest

from albert_tf.common import options
from albert_tf.tasks.squad import task as squad
from tests.albert_tf.tasks.squad.question_files import LENGTH


@pytest.fixture
def make(tiny_tokenizer):
    def make_task(length=LENGTH, **values):
        values = {"doc_stride": 8, "max_query_length": 10, **values}
        settings = options.from_dict(squad.SquadOptions, values)
        return squad.SquadTask(tiny_tokenizer, length, settings)

    return make_task
