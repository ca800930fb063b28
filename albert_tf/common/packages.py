"""Optional packages, which only some options need."""

import importlib
from typing import Any

from albert_tf.common import errors


def require(*modules: str, install: str, argument: str) -> Any:
    """Import modules that may not be installed, and return the first.

    Example:
        require("jieba", install="pip install jieba", argument="unit") raises
        "`unit` needs jieba, which cannot be imported: No module named 'jieba'.
        Install it: pip install jieba" where it is missing.

    Args:
        argument: What needs them, such as format=onnx.
    """
    for name in modules:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise errors.UserError(
                f"`{argument}` needs {name}, which cannot be imported: {error}."
                f" Install it: {install}"
            ) from error
    return importlib.import_module(modules[0])
