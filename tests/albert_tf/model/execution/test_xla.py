"""Functions that XLA compiles, but not where there is a TPU."""

import tensorflow as tf

from albert_tf.model.execution import xla


def test_a_function_is_compiled_except_beside_a_tpu(monkeypatch):
    eager = []

    def double(x):
        eager.append(tf.executing_eagerly())
        return 2 * x

    function = xla.xla_compiled(double)
    assert function.__name__ == "double"
    assert float(function(tf.constant(3.0))) == 6
    monkeypatch.setattr(xla, "_has_tpu", lambda: True)
    assert float(function(tf.constant(4.0))) == 8
    assert eager == [False, True]
