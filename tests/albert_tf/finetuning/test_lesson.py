"""What a student is told of its teacher before it learns."""

import shutil

import pytest

from albert_tf.common import errors
from albert_tf.finetuning import finetuning_options, lesson
from albert_tf.model.network.encoder import AlbertModel
from tests.conftest import tiny_config


def test_without_a_teacher_there_is_no_lesson():
    assert lesson.soft_labels(finetuning_options.TeacherOptions()) is None
    with pytest.raises(errors.UserError, match="only used with `teacher`"):
        finetuning_options.TeacherOptions(temperature=2.0)


def test_width_of_a_checkpoint(world, tmp_path):
    prefix = tmp_path / "encoder" / "model.ckpt"
    AlbertModel(tiny_config()).save_weights(str(prefix))
    with pytest.raises(errors.UserError, match="no config file beside it"):
        lesson.vectors_of(str(prefix))
    shutil.copy(world.config, prefix.parent / "albert_config.json")
    assert lesson.vectors_of(str(prefix)) == lesson.Vectors(16, "mean", 0)
