"""Seeds of dropout, one for each use in a pass.

The same seed gives the same dropout, so a checkpoint need not store the state
of a generator, and a layer can be computed a second time for its gradient.

All seeds follow from that of a pass, s. The embeddings have fold(s, 0); the
first layer has fold(fold(s, 0), 1), each further one fold(that before, 1). Uses
of dropout within a part are numbered from 1: use n draws with fold(part, n).
Heads fold streams of their own, from 2^28 on, into s or fold(s, 0).
"""

from collections.abc import Callable

import tensorflow as tf

Dropout = Callable[[tf.Tensor], tf.Tensor]


def fold_in(seed: tf.Tensor | None, stream: int) -> tf.Tensor:
    """Return a new seed, int32 [2], from a seed and a number.

    Args:
        seed: int32 [2]; None draws one from TensorFlow's global generator.
        stream: Number of the use; each gives an independent seed.
    """
    if seed is None:
        seed = tf.random.uniform([2], maxval=2**31 - 1, dtype=tf.int32)
    return tf.random.experimental.stateless_fold_in(seed, stream)


class DropoutSeeds:
    """Dropout for one pass, or for one layer of it.

    Each use folds its number into the seed, so the order of calls decides what
    is drawn. Uses with the rate 0 do not count. A seed is int32 [2]; None
    switches dropout off.
    """

    def __init__(self, seed: tf.Tensor | None):
        self._seed = seed
        self._uses = 0

    def __call__(self, x: tf.Tensor, rate: float) -> tf.Tensor:
        """Drop entries with probability `rate` and scale up the others."""
        return self.next(rate)(x)

    def next(self, rate: float) -> Dropout:
        """Return the next use's dropout; called again, it drops the same."""
        if self._seed is None or rate == 0:
            return tf.identity
        self._uses += 1
        seed = fold_in(self._seed, self._uses)

        def drop(x: tf.Tensor) -> tf.Tensor:
            # Uniform bfloat16 numbers are multiples of 2^-7, more than 0.001.
            wide = tf.cast(x, tf.float32)
            dropped = tf.nn.experimental.stateless_dropout(wide, rate, seed)
            return tf.cast(dropped, x.dtype)

        return drop


NO_DROPOUT = DropoutSeeds(None)
