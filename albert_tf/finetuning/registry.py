"""From the options of a run to its task."""

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from albert_tf.common import errors, options, slices
from albert_tf.finetuning import base
from albert_tf.text import tokenization

# A run's options by name, such as `run_folder.Run.options`.
Options = Mapping[str, Any]

_KINDS = (slices.load(name, "task").TASK for name in slices.SLICES)
# Tasks with a class of their own, by `task_name`; all other names are those of
# GLUE's table, `specs.TASKS`. A module named by `task_module` may add its own
# to both.
TASKS: dict[str, type[base.Task]] = {
    kind.name: kind for kind in _KINDS if kind.name
}
_LOADED: set[str] = set()  # Modules that the user has named.


def find_class(name: str) -> type[base.Task]:
    """Return the class of a task; its name may have capitals."""
    kinds = {key.lower(): kind for key, kind in TASKS.items()}
    kind = kinds.get(name.lower(), slices.load("glue", "task").TASK)
    if not (isinstance(kind, type) and issubclass(kind, base.Task)):
        raise errors.UserError(
            f"`task_name={name}`: its entry in registry.TASKS is {kind!r}, "
            "not a subclass of base.Task. Correct the module."
        )
    return kind


def select_options(
    options_class: type[options.OptionsT], values: Options
) -> options.OptionsT:
    """Build the options of a task from all options of a run."""
    # A run of another kind may have options of these names, without value.
    present = {name: v for name, v in values.items() if v is not None}
    return options.from_dict(options_class, present)


def make(
    values: Options,
    tokenizer: tokenization.AnyTokenizer,
    facts: Mapping[str, Any] = MappingProxyType({}),
    source: base.FactSource | None = None,
) -> base.Task:
    """Make the task that the options of a run describe.

    `load_module` comes before, for a task of the user's.

    Args:
        facts: Those that the run has written in its folder.
        source: Where a new run finds its facts.
    """
    kind = find_class(values["task_name"])
    task_options: Any = select_options(kind.options_class, values)
    kind, task_facts = kind.variant(task_options), None
    if source:
        task_facts = kind.find_facts(task_options, source)
    elif facts:
        task_facts = read_facts(kind, values, facts)
    return kind(tokenizer, values["max_seq_length"], task_options, task_facts)


def read_facts(
    kind: type[base.Task], values: Options, facts: Mapping[str, Any]
) -> base.Facts:
    """Check the facts in a run's folder, whose file may be damaged."""
    # Options of the same names say which values are allowed.
    others = {name: v for name, v in facts.items() if name != "labels"}
    select_options(kind.options_class, {**values, **others})
    return kind.facts_class.from_dict(facts)


def load_module_for(values: Options, folder: str, module: str | None) -> None:
    """Import the module that the task of a run needs, if the user names it.

    The folder may come from anywhere, so what it says never decides which code
    runs. The command of a student has loaded the module of its teacher.
    """
    used = values.get("task_module")
    if used and not module and used not in _LOADED:
        raise errors.UserError(
            f"The run in {folder} used `task_module={used}`. A module is "
            "never imported because a folder names it: if you trust its code, "
            f"add `task_module={used}`."
        )
    load_module(module)


def load_module(name: str | None) -> None:
    """Import a module that adds tasks to `TASKS` or `specs.TASKS`.

    Its name comes from the command line, never from data.
    """
    if not name:
        return
    try:
        importlib.import_module(name)
        _LOADED.add(name)
    except ModuleNotFoundError as error:
        raise errors.UserError(
            f"`task_module={name}` cannot be imported: {error}. Name it as in "
            "an import statement, and put its folder on PYTHONPATH."
        ) from None
    except errors.UserError as error:
        raise errors.UserError(f"`task_module={name}`: {error}") from None
