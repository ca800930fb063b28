"""Imports of large packages: when they are first used, and without collections.

Commands check their options before they load TensorFlow, which takes seconds.
What loads it, or is slow and seldom needed, they name at the top with `later`.

TensorFlow's import creates many objects that live as long as the process.
Python's cycle collector looks at them again and again: during the import, while
graphs are built, and when the process ends. So it is paused while TensorFlow is
imported, and what is there then is taken out of later collections. A process
that imports TensorFlow needs about a second of CPU time less (lab/notes,
"Start").

Keras imports pandas and SciPy where they are installed, to take their tables
and matrices. No command gives it any, so commands hide them from it: 117 MiB
of 787 and half a second.
"""

import contextlib
import gc
import importlib
import importlib.abc
import importlib.util
import sys
import types
from collections.abc import Iterator
from typing import Any

_UNUSED = {"pandas", "scipy"}  # By what Keras does here.


class _TensorFlowAlone(importlib.abc.MetaPathFinder):
    """Imports TensorFlow as if `_UNUSED` were not installed."""

    def find_spec(self, name: str, *_: Any) -> Any:
        if name != "tensorflow":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec and spec.loader:
            execute = spec.loader.exec_module

            def execute_alone(module: types.ModuleType) -> None:
                hidden: Any = dict.fromkeys(_UNUSED - sys.modules.keys())
                sys.modules.update(hidden)
                try:
                    execute(module)
                finally:
                    for name in hidden:
                        del sys.modules[name]

            spec.loader.exec_module = execute_alone  # type: ignore[method-assign]
        return spec


def import_tensorflow_alone() -> None:
    """Hide from TensorFlow's import, later, what a command does not need."""
    sys.meta_path.insert(0, _TensorFlowAlone())


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
