"""The encoder, under its old name."""

from albert_tf.model.config import PRECISIONS, AlbertConfig
from albert_tf.model.network.encoder import AlbertModel

__all__ = ["PRECISIONS", "AlbertConfig", "AlbertModel"]
