"""What a student is told of its teacher before it learns."""

import shutil

import pytest

from albert_tf.common import errors
from albert_tf.finetuning import finetuning_options, lesson
from albert_tf.model.losses import label_objectives
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.tasks.embedding import model as embedding
from tests.conftest import tiny_config


def test_without_a_teacher_there_is_no_lesson():
    assert lesson.soft_labels(finetuning_options.TeacherOptions()) is None
    with pytest.raises(errors.UserError, match="only used with `teacher`"):
        finetuning_options.TeacherOptions(temperature=2.0)


@pytest.mark.parametrize(
    ("given", "weight"), [(None, 0.5), (0.0, 0), (0.8, 0.8)]
)
def test_labels_and_teacher_share_the_loss(given, weight):
    options = finetuning_options.TeacherOptions(
        teacher="x", teacher_weight=given
    )
    hard = label_objectives.CLASSIFICATION
    found = lesson.soft_labels(options).objective(hard, ["logits"])
    assert found.losses == {
        "classification_loss": 1 - weight,
        "teacher_loss": weight,
    }


@pytest.mark.parametrize("size", [0, 5])
def test_width_of_a_checkpoint(world, tmp_path, size):
    prefix = tmp_path / "encoder" / "model.ckpt"
    model = embedding.AlbertEmbedder(
        AlbertModel(tiny_config()), projection_size=size
    )
    model.save_weights(str(prefix))
    with pytest.raises(errors.UserError, match="no config file beside it"):
        lesson.vectors_of(str(prefix))
    shutil.copy(world.config, prefix.parent / "albert_config.json")
    assert lesson.vectors_of(str(prefix)) == lesson.Vectors(
        size or 16, "mean", size
    )
