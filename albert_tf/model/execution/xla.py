"""Functions that XLA compiles."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import tensorflow as tf

_F = TypeVar("_F", bound=Callable[..., Any])


def xla_compiled(
    function: _F, input_signature: Sequence[Any] | None = None
) -> _F:
    """Compile a function with XLA, except where there is a TPU.

    TensorFlow compiles everything that runs on a TPU. Its wheel for TPUs cannot
    compile for the CPU of the host.
    """
    compiled = tf.function(
        function, input_signature, autograph=False, jit_compile=True
    )

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        return (function if _has_tpu() else compiled)(*arguments)

    return cast("_F", call)


def _has_tpu() -> bool:
    return bool(tf.config.list_logical_devices("TPU_SYSTEM"))
