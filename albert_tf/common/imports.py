"""Imports of large packages: when they are first used, and without collections.

Commands check their options before they load TensorFlow, which takes seconds.
What loads it, or is slow and seldom needed, they name at the top with `later`.

TensorFlow's import creates many objects that live as long as the process.
Python's cycle collector looks at them again and again: during the import, while
graphs are built, and when the process ends. So it is paused while TensorFlow is
imported, and what is there then is taken out of later collections. A process
that imports TensorFlow needs about a second of CPU time less (lab/notes,
"Start").
"""

import contextlib
import gc
import importlib
import sys
import types
from collections.abc import Iterator
from typing import Any


class _Later(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        is_first = not {"tensorflow", self.__name__} & sys.modules.keys()
        with paused_collector() if is_first else contextlib.nullcontext():
            return getattr(importlib.import_module(self.__name__), name)


def later(name: str) -> types.ModuleType:
    """Return a module that is imported when something of it is first used."""
    return _Later(name)


@contextlib.contextmanager
def paused_collector() -> Iterator[None]:
    """Pause the garbage collector, and exempt what exists at the end."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
