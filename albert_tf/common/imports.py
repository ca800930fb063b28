"""Imports of large packages, without the garbage collector.

TensorFlow's import creates many objects that live as long as the process.
Python's cycle collector looks at them again and again: during the import, while
graphs are built, and when the process ends. Commands pause it while they
import, and take what is there then out of later collections. A process that
imports TensorFlow needs about a second of CPU time less (lab/notes,
"Start").
"""

import contextlib
import gc
from collections.abc import Iterator


def end() -> None:
    """Start a paused collector; what exists now is not collected any more."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Pause the collector for the imports inside, for those in functions."""
    gc.disable()
    try:
        yield
    finally:
        end()
