"""What an encoder computes in, and Keras' global policy."""

import tf_keras as keras

from albert_tf.common import errors
from albert_tf.model.config import PRECISIONS

_OF_POLICIES = {"float32": "float32", "mixed_bfloat16": "bfloat16"}


def choose(precision: str | None) -> str:
    """Return the precision, by default the one of Keras' global policy."""
    if precision in PRECISIONS:
        return precision
    if precision is not None:
        raise errors.UserError(
            f"precision={precision!r} is not known. Allowed are "
            f"{', '.join(PRECISIONS)}."
        )
    name = keras.mixed_precision.global_policy().name
    if name not in _OF_POLICIES:
        raise errors.UserError(
            f"Keras' global policy is {name!r}. Allowed are "
            f"{', '.join(_OF_POLICIES)}. Set one of them, or choose with "
            "AlbertModel(config, precision=...), one of "
            f"{', '.join(PRECISIONS)}; float16 needs loss scaling."
        )
    return _OF_POLICIES[name]
