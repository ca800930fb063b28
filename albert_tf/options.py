"""Options: one dataclass field is the default, the type, the help and the flag.

A script declares a frozen dataclass of options, `checked`, and calls
`run_script`. A field may itself be such a dataclass (`optimizer:
OptimizerOptions`); its fields then become flags of the script, under their own
names; a last underscore, which keeps a name apart from a word of Python, is
dropped (`from_` is `--from`). Nothing else reads flags, so every function can
be called from Python with plain values.
"""

import dataclasses
import logging as python_logging
import os
import re
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from absl import app, flags, logging

from albert_tf import errors, ranges

OptionsT = TypeVar("OptionsT")

# What a byte of the command line that is not UTF-8 becomes.
_SURROGATE = re.compile("[\ud800-\udfff]")
_HOME = re.compile(r"(^|,\s*)(~[^/,]*)")  # What may name a home folder.


def option(
    default: Any = dataclasses.MISSING,
    help: str = "",  # noqa: A002 - the word users and absl know.
    *,
    choices: tuple[str, ...] | None = None,
    within: ranges.Range | None = None,
    may_change: bool = False,
) -> Any:
    """Declare one option as a dataclass field.

    Args:
        default: Value when the flag is not given; without one it is required.
        help: One line for `--help`.
        choices: The allowed values of a string option.
        within: The allowed values of a number; every number has them.
        may_change: Whether a run may be continued in the same output folder
            with another value.
    """
    metadata = {
        "help": help,
        "choices": choices,
        "within": within,
        "may_change": may_change,
    }
    return dataclasses.field(default=default, metadata=metadata)


def checked(options_class: type[OptionsT]) -> type[OptionsT]:
    """Let a class of options refuse numbers outside their ranges.

    Stands between `@dataclasses.dataclass(frozen=True)` and the class. However
    an object is made, its numbers are checked before its own `__post_init__`.
    """
    rules = getattr(options_class, "__post_init__", lambda self: None)

    def check(self: Any) -> None:
        check_ranges(self)
        rules(self)

    options_class.__post_init__ = check  # type: ignore[attr-defined]
    return options_class


def check_ranges(options: Any) -> None:
    """Raise `errors.UserError` if a number of an object is out of range."""
    hints = typing.get_type_hints(type(options))
    for field in dataclasses.fields(options):
        name, value = _flag_name(field), getattr(options, field.name)
        allowed = field.metadata.get("within")
        kind, optional = _kind(hints[field.name])
        if allowed is None or (optional and value is None):
            continue
        complaint = allowed.complaint(value, whole=kind is int)
        if complaint:
            raise errors.UserError(f"--{name}={value!r} {complaint}")


def _kind(hint: Any) -> tuple[type, bool]:
    """Return the type of an option, and whether it may be None."""
    if not isinstance(hint, types.UnionType):
        return hint, False
    (kind,) = (a for a in typing.get_args(hint) if a is not type(None))
    return kind, True


@dataclasses.dataclass(frozen=True)
class _Flag:
    """One leaf of a tree of options, ready to become a flag."""

    name: str
    type: type
    optional: bool
    default: Any
    metadata: Mapping[str, Any]


def _flag_name(field: dataclasses.Field[Any]) -> str:
    return field.name.removesuffix("_")


def _leaves(options_class: type, defaults: Any = None) -> Iterator[_Flag]:
    """Yield the flags of an options class, nested classes included."""
    hints = typing.get_type_hints(options_class)
    for field in dataclasses.fields(options_class):
        hint, default = hints[field.name], field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        if defaults is not None:
            default = getattr(defaults, field.name)
        if dataclasses.is_dataclass(hint):
            known = None if default is dataclasses.MISSING else default
            yield from _leaves(typing.cast(type, hint), known)
            continue
        yield _Flag(_flag_name(field), *_kind(hint), default, field.metadata)


def names(options_class: type) -> list[str]:
    """Return the names of all options of a class, nested ones included."""
    return [leaf.name for leaf in _leaves(options_class)]


_DEFINE = {
    str: flags.DEFINE_string,
    int: flags.DEFINE_integer,
    float: flags.DEFINE_float,
    bool: flags.DEFINE_boolean,
}


def define_flags(
    options_class: type, flag_values: flags.FlagValues = flags.FLAGS
) -> None:
    """Declare one absl flag for each option of `options_class`."""
    shared = {"flag_values": flag_values, "module_name": sys.argv[0]}
    for leaf in _leaves(options_class):
        required = leaf.default is dataclasses.MISSING
        default = None if required else leaf.default
        help_line = leaf.metadata["help"]
        if leaf.metadata["within"]:
            help_line += f" A number {leaf.metadata['within']}."
        choices = leaf.metadata["choices"]
        if choices:
            flags.DEFINE_enum(leaf.name, default, choices, help_line, **shared)
        else:
            _DEFINE[leaf.type](leaf.name, default, help_line, **shared)
        if required:
            flags.mark_flag_as_required(leaf.name, flag_values)


def _build(
    options_class: type[OptionsT], values: Mapping[str, Any]
) -> OptionsT:
    hints = typing.get_type_hints(options_class)
    arguments: dict[str, Any] = {}
    for field in dataclasses.fields(options_class):  # type: ignore[arg-type]
        hint = hints[field.name]
        if dataclasses.is_dataclass(hint):
            arguments[field.name] = _build(typing.cast(type, hint), values)
        elif _flag_name(field) in values:
            arguments[field.name] = values[_flag_name(field)]
    return options_class(**arguments)


def from_flags(
    options_class: type[OptionsT],
    flag_values: flags.FlagValues = flags.FLAGS,
) -> OptionsT:
    """Build the options object from parsed flags.

    `~` and `~NAME` at the beginning of a path, or of one in a list with commas,
    become home folders: the shell leaves them alone behind `--name=`.

    Raises:
        errors.UserError: A rule between options is broken (the checks of each
            class's `__post_init__`), a required option is empty, or one is no
            text.
    """
    values: dict[str, Any] = {}
    for leaf in _leaves(options_class):
        value = flag_values[leaf.name].value
        if isinstance(value, str):
            _check_text(leaf, value)
            value = _HOME.sub(_home, value)
        values[leaf.name] = value
    return _build(options_class, values)


def _check_text(leaf: _Flag, value: str) -> None:
    """Refuse what no file's name and no JSON can hold, and nothing at all."""
    if not value and leaf.default is dataclasses.MISSING:
        raise errors.UserError(f"--{leaf.name} is empty. It needs a value.")
    if "\0" in value or not value.isascii() and _SURROGATE.search(value):
        raise errors.UserError(
            f"--{leaf.name}={value!a} holds a byte that is no text in UTF-8. "
            "Write it again, and rename the file if it is one."
        )


def _home(match: re.Match[str]) -> str:
    return match[1] + os.path.expanduser(match[2])


def to_dict(options: Any) -> dict[str, Any]:
    """Return all options as one flat dictionary, nested ones included."""
    flat: dict[str, Any] = {}
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        if dataclasses.is_dataclass(value):
            flat.update(to_dict(value))
        else:
            flat[_flag_name(field)] = value
    return flat


def from_dict(
    options_class: type[OptionsT], values: Mapping[str, Any]
) -> OptionsT:
    """Build the options object from the dictionary of `to_dict`.

    What is not in the dictionary has the default of `options_class`, which may
    be another one than that of the class inside it.
    """
    defaults = {
        leaf.name: leaf.default
        for leaf in _leaves(options_class)
        if leaf.default is not dataclasses.MISSING
    }
    return _build(options_class, {**defaults, **values})


def refuse_foreign(settings: Any, names: Iterable[str], other: str) -> None:
    """Make sure that options of another way to use a program are left out.

    Args:
        settings: The options object.
        names: Options that only go with `other`.
        other: An option that is not given.

    Raises:
        errors.UserError: One of them is given.
    """
    for name in names:
        if getattr(settings, name) is not None:
            raise errors.UserError(
                f"--{name}={getattr(settings, name)} goes with --{other}, "
                "which is not given. Leave it out."
            )


def differences(
    options_class: type, previous: Mapping[str, Any], current: Mapping[str, Any]
) -> list[str]:
    """Return a line for every option that differs and may not.

    Args:
        options_class: The options class of both.
        previous: Options of an earlier start, from `to_dict`.
        current: Options of this start.
    """
    fixed = {
        leaf.name
        for leaf in _leaves(options_class)
        if not leaf.metadata["may_change"]
    }
    return [
        f"  --{name} was {previous[name]!r}, is now {current[name]!r}"
        for name in sorted(fixed & previous.keys())
        if previous[name] != current[name]
    ]


def run_script(
    run: Callable[[OptionsT], None], options_class: type[OptionsT]
) -> None:
    """Parse the command line into `options_class` and call `run` with it.

    A `UserError` is printed without a traceback and ends with status 2, a
    failing disk or file with status 1, Ctrl-C with status 130.
    """

    def main(arguments: list[str]) -> int:
        return _guarded(lambda: _call(run, options_class, arguments))

    define_flags(options_class)
    logging.set_verbosity(logging.INFO)
    logging.use_absl_handler()
    logging.get_absl_handler().addFilter(_is_for_the_user)
    app.run(main, flags_parser=_parse)


def run_inside(
    run: Callable[[OptionsT], None],
    options_class: type[OptionsT],
    arguments: Sequence[str],
) -> int:
    """Do what `run_script` does, without leaving this process.

    Args:
        run: The script's function.
        options_class: Its options.
        arguments: What follows the script's name on the command line.

    Returns:
        The exit status; the message of a mistake is on standard error.
    """
    flag_values = flags.FlagValues()
    define_flags(options_class, flag_values)

    def main() -> None:
        rest = flag_values(["", *arguments])
        _call(run, options_class, rest, flag_values)

    return _guarded(main)


def _call(
    run: Callable[[OptionsT], None],
    options_class: type[OptionsT],
    arguments: Sequence[str],
    flag_values: flags.FlagValues = flags.FLAGS,
) -> None:
    """Call `run` with parsed flags; `arguments` is what is left of the line."""
    if len(arguments) > 1:
        raise errors.UserError(
            f"Unexpected argument {arguments[1]!r}. Options are written as "
            "--name=value; --help lists them."
        )
    run(from_flags(options_class, flag_values))


def _guarded(main: Callable[[], None]) -> int:
    """Call `main`; turn what it raises into a message and an exit status."""
    try:
        main()
    except flags.Error as error:
        return _complain(f"error: {error} --help lists all options.", 2)
    except errors.UserError as error:
        return _complain(f"error: {error}", 2)
    except OSError as error:
        return _complain(
            f"error: {error}. Finished files are intact; mend the cause "
            "and start the same command again.",
            1,
        )
    except KeyboardInterrupt:
        return _complain("interrupted", 130)
    except Exception as error:
        if not _is_from_tensorflow(error):
            raise
        return _complain(f"error: TensorFlow says: {error}", 1)
    return 0


def _parse(arguments: list[str]) -> list[str]:
    """Parse the command line; a typo ends like any other mistake."""
    rest: list[str] = []

    def parse() -> None:
        try:
            rest.extend(flags.FLAGS(arguments))
        except UnicodeDecodeError as error:
            raise errors.UserError(
                f"--flagfile is not UTF-8 ({error}). Convert the file first."
            ) from None

    status = _guarded(parse)
    if status:
        sys.exit(status)
    return rest


def _is_from_tensorflow(error: Exception) -> bool:
    """Tell whether this is an error of files or devices inside TensorFlow."""
    tensorflow = sys.modules.get("tensorflow")
    return tensorflow is not None and isinstance(
        error, tensorflow.errors.OpError
    )


def _is_for_the_user(record: python_logging.LogRecord) -> bool:
    """Keep back remarks of installed packages, but not their warnings."""
    installed = "site-packages" in record.pathname
    return not installed or record.levelno > python_logging.INFO


def _complain(message: str, status: int) -> int:
    print(message, file=sys.stderr, flush=True)
    return status
