"""Where each kind of task lives: one line a task.

A slice is a folder with the modules `task` (no TensorFlow), `model`, `service`
and, only where needed, `portable` and `view`: see `finetuning.base`. The
layers below name slices here and load their parts when they are used.
"""

import importlib
import importlib.util
from collections.abc import Iterator
from types import ModuleType

SLICES = {
    "text": "albert_tf.tasks.text",
    "embedding": "albert_tf.tasks.embedding",
    "tagging": "albert_tf.tasks.tagging",
    "race": "albert_tf.tasks.race",
    "squad": "albert_tf.tasks.squad",
    "glue": "albert_tf.tasks.glue",
    "table": "albert_tf.tasks.table",
}


def load(name: str, module: str) -> ModuleType:
    """Return a module of a slice, such as `load("tagging", "task")`."""
    return importlib.import_module(f"{SLICES[name]}.{module}")


def load_all(module: str) -> Iterator[ModuleType]:
    """Load a module, such as "service", of each slice that has one."""
    for name, package in SLICES.items():
        if importlib.util.find_spec(f"{package}.{module}"):
            yield load(name, module)
