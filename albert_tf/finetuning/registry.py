"""From the options of a run to its task."""

import importlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from albert_tf.common import errors, options, slices
from albert_tf.finetuning import base, multi_label, ranking, regression, tables
from albert_tf.finetuning.glue import glue
from albert_tf.finetuning.squad import squad
from albert_tf.text import tokenization

# A run's options by name, such as `run_folder.Run.options`.
Options = Mapping[str, Any]
Maker = Callable[[Options, tokenization.AnyTokenizer], base.Task]


def _maker(task: Callable[..., base.Task], options_class: type[Any]) -> Maker:
    def make_task(
        values: Options, tokenizer: tokenization.AnyTokenizer
    ) -> base.Task:
        own: Any = own_options(options_class, values)
        return task(tokenizer, values["max_seq_length"], own)

    return make_task


def own_options(
    options_class: type[options.OptionsT], values: Options
) -> options.OptionsT:
    """Return those of a kind of task among the options of a run."""
    # A run of another kind may have options of these names, without value.
    given = {name: v for name, v in values.items() if v is not None}
    return options.from_dict(options_class, given)


def make_table(
    tokenizer: tokenization.AnyTokenizer,
    max_seq_length: int,
    own: tables.TableOptions,
) -> tables.TableTask:
    kinds = {
        "label": tables.TableTask,
        "labels": multi_label.MultiLabelTask,
        "number": regression.RegressionTask,
        "relevance": ranking.RankingTask,
    }
    return kinds[own.kind](tokenizer, max_seq_length, own)


# Tasks with a class of their own, by `task_name`. A module named by
# `task_module` may add its own.
MAKERS: dict[str, Maker] = {
    squad.NAME: _maker(squad.SquadTask, squad.SquadOptions),
    tables.NAME: _maker(make_table, tables.TableOptions),
}


def kind_of(name: str) -> type[base.Task] | None:
    """Return the class of a task that has a slice."""
    if name.lower() not in slices.SLICES:
        return None
    found: type[base.Task] = slices.load(name.lower(), "task").TASK
    return found


def make(
    values: Options,
    tokenizer: tokenization.AnyTokenizer,
    facts: Mapping[str, Any] = MappingProxyType({}),
) -> base.Task:
    """Make the task that the options of a run describe.

    A task of the user's must be known already, see `load_module`.

    Args:
        facts: What the run has written in its folder.
    """
    name = values["task_name"].lower()
    if kind := kind_of(name):
        own: Any = own_options(kind.options_class, values)
        known = {
            k: tuple(v) if isinstance(v, list) else v for k, v in facts.items()
        }
        given = kind.facts_class(**known) if facts else None
        return kind(tokenizer, values["max_seq_length"], own, given)
    makers = {task.lower(): maker for task, maker in MAKERS.items()}
    if name in makers:
        made = makers[name](values, tokenizer)
        if not isinstance(made, base.Task):
            raise errors.UserError(
                f"`task_name={name}`: its maker returned {made!r}, not a "
                "base.Task. Correct the module."
            )
        return made
    return glue.GlueTask(name, tokenizer, values["max_seq_length"])


def load_module_for(values: Options, folder: str, given: str | None) -> None:
    """Import the module that the task of a run needs, if the user names it.

    What a folder says never decides which code runs: it may come from
    anywhere.
    """
    used = values.get("task_module")
    if used and not given:
        raise errors.UserError(
            f"The run in {folder} used `task_module={used}`. A module is "
            "never imported because a folder names it: if you trust its code, "
            f"add `task_module={used}`."
        )
    load_module(given)


def load_module(name: str | None) -> None:
    """Import a module that adds tasks to `glue_tasks.TASKS` or `MAKERS`.

    Its name comes from the command line, never from data.
    """
    if not name:
        return
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise errors.UserError(
            f"`task_module={name}` cannot be imported: {error}. Name it as in "
            "an import statement, and put its folder on PYTHONPATH."
        ) from None
    except errors.UserError as error:
        raise errors.UserError(f"`task_module={name}`: {error}") from None
