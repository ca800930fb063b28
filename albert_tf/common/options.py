"""Command-line options as fields of dataclasses.

A field gives an option its name, type, default and help. A script declares a
frozen dataclass of options, `checked`, and calls `run_script`. A field may
itself be such a dataclass (`optimizer: OptimizerOptions`); its fields then
become flags of the script, under their own names. An underscore at the end of a
name, which distinguishes it from a keyword of Python, is dropped (`from_` is
`--from`). Nothing else reads flags, so every function can be called from Python
with plain values.
"""

import contextlib
import dataclasses
import difflib
import logging as python_logging
import os
import re
import sys
import types
import typing
from collections.abc import (
    Callable,
    Container,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from typing import Any, TypeVar

from absl import flags, logging

from albert_tf.common import (
    errors,
    files,
    flag_files,
    imports,
    option_help,
    ranges,
)
from albert_tf.common.option_help import Flag

OptionsT = TypeVar("OptionsT")

# What a byte of the command line that is not UTF-8 becomes.
_SURROGATE = re.compile("[\ud800-\udfff]")
# The path of an installed package that is not this one.
_FOREIGN = re.compile(r"site-packages/(?!(albert_tf|data_prep)/)")
# Messages of absl, and ours in their place.
_ABSL_MESSAGES = (
    (r"^Missing value for flag (\S+)$", r"\1 has no value"),
    (r"^(\S+) does not take an argument$", r"\1 must have no value"),
    (r"^flag (--\w+=.*?): ", r"\1 is not allowed: "),
)
_HOME = re.compile(r"(^|,\s*)(~[^/,]*)")  # May name a home folder.


def option(
    default: Any = dataclasses.MISSING,
    help: str = "",  # noqa: A002 - the word users and absl know.
    *,
    choices: tuple[str, ...] | None = None,
    within: ranges.Range | None = None,
    may_change: bool = False,
    positional: bool = False,
) -> Any:
    """Declare one option as a dataclass field.

    Args:
        default: Value when the flag is not given; without one it is required.
        help: One line for `--help`, which shows the options of
            `option_help.GROUPS`, or else for `--helpfull`.
        choices: The allowed values of a string option.
        within: The allowed values of a number; every number has them.
        may_change: Whether a run may be continued in the same output folder
            with another value.
        positional: Whether an argument without `--name=` is its value: at
            most one option of a command. Several arguments, to which the shell
            expands a pattern, are joined by commas.
    """
    metadata = {
        "help": help,
        "choices": choices,
        "within": within,
        "may_change": may_change,
        "positional": positional,
    }
    return dataclasses.field(default=default, metadata=metadata)


def checked(options_class: type[OptionsT]) -> type[OptionsT]:
    """Make a class of options refuse numbers outside their ranges.

    A decorator, written below `@dataclasses.dataclass(frozen=True)`. The
    numbers of every object are checked before its own `__post_init__`.
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
            raise errors.UserError(complaint, name, repr(value))


def _kind(hint: Any) -> tuple[type, bool]:
    """Return the type of an option, and whether it may be None."""
    if not isinstance(hint, types.UnionType):
        return hint, False
    (kind,) = (a for a in typing.get_args(hint) if a is not type(None))
    return kind, True


def _flag_name(field: dataclasses.Field[Any]) -> str:
    return field.name.removesuffix("_")


def leaves(options_class: type, defaults: Any = None) -> Iterator[Flag]:
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
            yield from leaves(typing.cast(type, hint), known)
            continue
        yield Flag(_flag_name(field), *_kind(hint), default, field.metadata)


def names(options_class: type) -> list[str]:
    """Return the names of all options of a class, nested ones included."""
    return [leaf.name for leaf in leaves(options_class)]


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
            value = values[_flag_name(field)]
            _check_choice(field, value, hint)
            arguments[field.name] = value
    return options_class(**arguments)


def _check_choice(field: dataclasses.Field[Any], value: Any, hint: Any) -> None:
    choices = field.metadata.get("choices")
    _, optional = _kind(hint)
    if not choices or value in choices or (optional and value is None):
        return
    raise errors.UserError(
        f"is not allowed. Use {' or '.join(choices)}.", _flag_name(field), value
    )


def parse(options_class: type[OptionsT], words: Sequence[str]) -> OptionsT:
    """Return the options that a command line gives.

    `~` and `~NAME` at the beginning of a path, or of one in a list with commas,
    become home folders: the shell leaves them alone behind `--name=`.

    Args:
        options_class: The options of the command.
        words: What follows the name of the command.

    Raises:
        errors.UserError: An option is unknown, missing or empty, its value is
            not allowed, options do not fit together (`__post_init__` of each
            class), or a flag file cannot be read.
    """
    found = list(leaves(options_class))
    texts = _texts(found, words)
    missing = [x for x in found if x.is_required and x.name not in texts]
    if missing:
        raise errors.UserError(
            f"Required options are missing:\n{option_help.describe(missing)}"
        )
    given = [leaf for leaf in found if leaf.name in texts]
    return from_dict(
        options_class, {x.name: _value(x, texts[x.name]) for x in given}
    )


def _texts(found: Sequence[Flag], words: Sequence[str]) -> dict[str, str]:
    """Return the texts of the options that are given."""
    flag_values = flags.FlagValues()
    for flag in flags.FLAGS.flags_by_module_dict()["absl.logging"]:
        flag_values[flag.name] = flag
    for leaf in found:
        flags.DEFINE_string(leaf.name, None, leaf.help, flag_values)
        flag_values[leaf.name].boolean = leaf.type is bool
    _, *rest = _parse_words(flag_values, words)
    texts = {
        leaf.name: flag_values[leaf.name].value
        for leaf in found
        if flag_values[leaf.name].present
    }
    takers = [x.name for x in found if x.metadata["positional"]]
    if rest and (not takers or takers[0] in texts):
        raise errors.UserError(
            f"Unexpected argument {rest[0]!r}. {_hint(found, words, rest[0])}"
            "Options are written as --name=value; --help lists them."
        )
    return {**texts, takers[0]: ",".join(rest)} if rest else texts


def _hint(found: Sequence[Flag], words: Sequence[str], word: str) -> str:
    """Return what the user may have meant by a word that is no option."""
    kinds = {leaf.name: leaf.type for leaf in found}
    if word.partition("=")[0] in kinds and "=" in word:
        return f"Did you mean --{word}? "
    place = words.index(word) if word in words else 0
    name = words[place - 1].lstrip("-") if place else ""
    if kinds.get(name) is bool:
        return f"Write --{name} or --no{name}, without a value. "
    return ""


def _parse_words(
    flag_values: flags.FlagValues, words: Sequence[str]
) -> list[str]:
    """Parse a command line; return what is no option, after one word.

    Raises:
        errors.UserError: An option is unknown, or a flag file cannot be read.
    """
    expanded = list(flag_files.expand(words))
    try:
        return flag_values(["", *expanded])
    except flags.UnrecognizedFlagError as error:
        name = error.flagname
        near = difflib.get_close_matches(name, list(flag_values), 1)
        hint = f"Did you mean --{near[0]}? " if near else ""
        negated = name.removeprefix("no").lstrip("_-")
        if negated != name and _is_boolean(flag_values, negated):
            hint = f"Did you mean --no{negated}? "
        raise errors.UserError(
            f"--{name} is not an option of this command. {hint}--helpfull "
            "lists all options."
        ) from None
    except (flags.Error, ValueError) as error:
        problem = str(error)
        for pattern, ours in _ABSL_MESSAGES:
            problem = re.sub(pattern, ours, problem)
        raise errors.UserError(
            f"{problem}. Options are written as --name=value; --help lists "
            "them."
        ) from None


def _is_boolean(flag_values: flags.FlagValues, name: str) -> bool:
    return name in flag_values and bool(flag_values[name].boolean)


_TRUTH = {
    **dict.fromkeys(("true", "t", "1"), True),
    **dict.fromkeys(("false", "f", "0"), False),
}
_BASES = {"0x": 16, "0o": 8}


def _value(leaf: Flag, text: str) -> Any:
    """Return the value of an option.

    Raises:
        errors.UserError: It is not of the type of the option.
    """
    if leaf.type is bool:
        if text.lower() not in _TRUTH:
            raise errors.UserError(
                f"is neither true nor false. Write --{leaf.name} or "
                f"--no{leaf.name}.",
                leaf.name,
                text,
            )
        return _TRUTH[text.lower()]
    if leaf.type is str:
        _check_text(leaf, text)
        return _HOME.sub(_home, text)
    try:
        if leaf.type is int:
            return int(text, _BASES.get(text[:2], 10))
        return float(text)
    except ValueError:
        complaint = leaf.metadata["within"].complaint(
            text, whole=leaf.type is int
        )
        raise errors.UserError(complaint, leaf.name, text) from None


def _check_text(leaf: Flag, value: str) -> None:
    """Refuse an empty required value, NUL, and bytes that are not UTF-8."""
    if not value and leaf.is_required:
        raise errors.UserError("is empty. It needs a value.", leaf.name)
    if "\0" in value or not value.isascii() and _SURROGATE.search(value):
        raise errors.UserError(
            f"--{leaf.name}={value!a} contains a byte that is not UTF-8 text. "
            "Correct it; if it is the name of a file, rename the file."
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

    Options that are not in the dictionary have the defaults of `options_class`,
    which may differ from those of the classes inside it.

    Raises:
        errors.UserError: A value is not among the choices of its option, or
            options do not fit together (`__post_init__` of each class).
    """
    defaults = {
        leaf.name: leaf.default
        for leaf in leaves(options_class)
        if not leaf.is_required
    }
    return _build(options_class, {**defaults, **values})


def refuse_foreign(settings: Any, names: Iterable[str], other: str) -> None:
    """Refuse options that have no effect without another option.

    Args:
        settings: The options object.
        names: Options that are only used together with `other`.
        other: An option that is not given.

    Raises:
        errors.UserError: One of them is given.
    """
    for name in names:
        if getattr(settings, name) is not None:
            raise errors.UserError(
                f"is only used with `{other}`, which is not given. Leave it "
                "out.",
                name,
                getattr(settings, name),
            )


def differences(
    options_class: type, previous: Mapping[str, Any], current: Mapping[str, Any]
) -> list[str]:
    """Return a line for each option that changed although it must not.

    Args:
        options_class: The options class of both.
        previous: Options of an earlier start, from `to_dict`. One that is
            missing, because an earlier version did not have it, was as by
            default.
        current: Options of this start.
    """
    lines = []
    for leaf in sorted(leaves(options_class), key=lambda leaf: leaf.name):
        before = previous.get(leaf.name, leaf.default)
        is_known = before is not dataclasses.MISSING
        now = current[leaf.name]
        if is_known and before != now and not leaf.metadata["may_change"]:
            lines.append(f"  --{leaf.name} was {before!r}, is now {now!r}")
    return lines


def run_script(
    run: Callable[[OptionsT], None], options_class: type[OptionsT]
) -> None:
    """Parse the command line into `options_class` and call `run` with it.

    A `UserError` is printed without a traceback. The exit status is 2 for it, 1
    for an error of a disk or file, and 130 for Ctrl-C.
    """
    imports.end()
    _prepare(options_class)
    sys.exit(run_inside(run, options_class, sys.argv[1:]))


def check_command_line(options_class: type) -> None:
    """Exit after `--help` or wrong options; otherwise do nothing.

    A command calls this before it imports TensorFlow, which takes seconds, and
    `run_script` after it.
    """
    _prepare(options_class)
    status = run_inside(lambda _: None, options_class, sys.argv[1:])
    if status:
        sys.exit(status)
    imports.begin()


def _prepare(options_class: type) -> None:
    """Set up logging; for `--help`, print the help and exit."""
    flags.FLAGS.mark_as_parsed()  # Otherwise absl warns when it logs.
    logging.set_verbosity(logging.INFO)
    logging.use_absl_handler()
    logging.get_absl_handler().addFilter(_is_for_the_user)
    asked = {word.lstrip("-") for word in sys.argv[1:] if word[:1] == "-"}
    full = "helpfull" in asked
    if full or asked & {"help", "h", "?", "helpshort"}:
        description = sys.modules["__main__"].__doc__ or ""
        found = list(leaves(options_class))
        sys.stdout.write(option_help.text(description, found, full))
        sys.exit(0)


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
    values: dict[str, Any] = {}

    def main() -> None:
        settings = parse(options_class, arguments)
        values.update(to_dict(settings))
        run(settings)

    return _guarded(main, names(options_class), values)


def _guarded(
    main: Callable[[], None], names: Container[str], values: Mapping[str, Any]
) -> int:
    """Call `main`; turn what it raises into a message and an exit status.

    Args:
        main: What to call.
        names: Arguments that messages show as flags.
        values: Of the options, as soon as they are known.
    """
    try:
        with _flags_in_logs(names):
            main()
    except errors.UserError as error:
        return _complain(f"error: {errors.as_flags(str(error), names)}", 2)
    except OSError as error:
        return _complain(
            f"error: {errors.as_flags(str(error), names)}"
            f"{_place(error, values)}. Finished files are intact. Fix the "
            "cause and run the same command again.",
            1,
        )
    except KeyboardInterrupt:
        return _complain("interrupted", 130)
    except Exception as error:
        if not _is_from_tensorflow(error):
            raise
        return _complain(f"error in TensorFlow: {error}", 1)
    return 0


def _place(error: OSError, values: Mapping[str, Any]) -> str:
    """Return which option names the file of an error, and what to do.

    Example:
        For a full disk at "x.partial": ", which belongs to --to=x. Make room
        there, or choose another place"
    """
    path = str(error.filename or "")
    near = [
        (len(value), name, value)
        for name, value in values.items()
        if isinstance(value, str)
        and value.rstrip("/")
        and (path + "/").startswith(tuple(value.rstrip("/") + x for x in "/."))
    ]
    if not near:
        return ""
    _, name, value = max(near)
    advice = ""
    if error.errno in files.NO_ROOM:
        advice = ". Make room there, or choose another place"
    return f", which belongs to --{name}={value}{advice}"


@contextlib.contextmanager
def _flags_in_logs(names: Container[str]) -> Iterator[None]:
    """Show the arguments of `names` as flags in what is logged."""

    def show(record: python_logging.LogRecord) -> bool:
        record.msg = errors.as_flags(record.getMessage(), names)
        record.args = ()
        return True

    handler = logging.get_absl_handler()
    handler.addFilter(show)
    try:
        yield
    finally:
        handler.removeFilter(show)


def _is_from_tensorflow(error: Exception) -> bool:
    """Tell whether this is an error of files or devices inside TensorFlow."""
    tensorflow = sys.modules.get("tensorflow")
    return tensorflow is not None and isinstance(
        error, tensorflow.errors.OpError
    )


def _is_for_the_user(record: python_logging.LogRecord) -> bool:
    """Drop what other packages log, except their warnings."""
    is_foreign = _FOREIGN.search(record.pathname)
    return not is_foreign or record.levelno > python_logging.INFO


def _complain(message: str, status: int) -> int:
    print(message, file=sys.stderr, flush=True)
    return status
