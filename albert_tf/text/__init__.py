"""Text to ids: vocabularies, in Python and as TensorFlow ops."""
