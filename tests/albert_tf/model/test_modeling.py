"""The encoder under its old name."""

from albert_tf.model import modeling
from albert_tf.model.network import encoder


def test_the_old_module_has_the_encoder():
    assert modeling.AlbertModel is encoder.AlbertModel
