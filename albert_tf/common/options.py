"""Command-line options as fields of dataclasses, parsed by absl's flags.

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
import errno
import gc
import logging as python_logging
import os
import pathlib
import re
import sys
import types
import typing
from collections.abc import (
    Callable,
    Collection,
    Container,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from typing import Any, TypeVar

from absl import app, flags, logging

from albert_tf.common import (
    configs,
    errors,
    files,
    imports,
    option_help,
    ranges,
    streams,
)
from albert_tf.common.option_help import Flag

OptionsT = TypeVar("OptionsT")

_DEFINE: dict[type, Callable[..., Any]] = {
    bool: flags.DEFINE_boolean,
    float: flags.DEFINE_float,
    int: flags.DEFINE_integer,
    str: flags.DEFINE_string,
}
# What a byte of the command line that is not UTF-8 becomes, and NUL.
_NOT_TEXT = re.compile("[\0\ud800-\udfff]")
_MOST_FLAG_FILES = 100  # A file counts as often as it is included.
# Those of the command line that was parsed last.
flag_files: list[str] = []
_HOME = re.compile(r"(^|,\s*)(~[^/,]*)")  # May name a home folder.
# The path of an installed package that is not this one.
_FOREIGN_PACKAGE = re.compile(r"site-packages/(?!(albert_tf|data_prep)/)")


def option(  # noqa: PLR0913 - all but two are keywords.
    default: Any = dataclasses.MISSING,
    help: str = "",  # noqa: A002 - the word users and absl know.
    *,
    choices: tuple[str, ...] | None = None,
    within: ranges.Range | None = None,
    may_change: bool = False,
    positional: bool = False,
    repeated: bool = False,
    needs: str | tuple[str, ...] = (),
    must_exist: bool | str = False,
    names: Callable[[], list[str]] = list,
) -> Any:
    """Declare one option as a dataclass field.

    Args:
        default: Without one the option is required.
        help: One line for `--help`, if a class has it `shown`, or else for
            `--helpfull`.
        within: The allowed values of a number; every number has them.
        may_change: Whether a run may be continued in the same output folder
            with another value.
        positional: Whether an argument without `--name=` is its value: at
            most one option of a command. Several arguments, to which the shell
            expands a pattern, are joined by commas.
        repeated: Whether a text may be given several times; the values are
            joined by commas.
        needs: The options without which this one has no use, such as `teacher`
            or `objective=mlm|rtd`; then it must be left out, or as by default.
        must_exist: Whether `run_script` refuses a path where nothing is, and
            that is no name of a config or of weights of this package. Or the
            option with which it does, such as `do_train`. Not for what a
            continued run no longer reads, such as `init_checkpoint`.
        names: Returns what may stand in place of a path that must exist.
    """
    metadata = {
        "help": help,
        "choices": choices,
        "within": within,
        "may_change": may_change,
        "positional": positional,
        "repeated": repeated,
        "needs": (needs,) if isinstance(needs, str) else needs,
        "must_exist": must_exist,
        "names": names,
    }
    return dataclasses.field(default=default, metadata=metadata)


def part(default: OptionsT, *, needs: str, but: Collection[str] = ()) -> Any:
    """Declare a nested class of options that need another, except for `but`."""
    return dataclasses.field(
        default=default, metadata={"part_needs": needs, "but": but}
    )


def shown(**sections: str) -> Callable[[type[OptionsT]], type[OptionsT]]:
    """Make `--help` list options, "NAME NAME", under the title of a section.

    A decorator, written below `checked`.
    """

    def declare(options_class: type[OptionsT]) -> type[OptionsT]:
        titles = dict(getattr(options_class, "help_sections", {}))
        for title, names in sections.items():
            assert {*names.split()} <= options_class.__annotations__.keys()
            titles |= dict.fromkeys(names.split(), title)
        options_class.help_sections = titles  # type: ignore[attr-defined]
        return options_class

    return declare


def checked(options_class: type[OptionsT]) -> type[OptionsT]:
    """Make a class refuse values outside `choices` and `within`.

    A decorator, written below `@dataclasses.dataclass(frozen=True)`. The values
    of every object are checked before its own `__post_init__`.
    """
    post_init = getattr(options_class, "__post_init__", lambda self: None)

    def check(self: Any) -> None:
        hints = typing.get_type_hints(type(self))
        for field in dataclasses.fields(self):
            if "help" in field.metadata:
                flag = _to_flag(field, hints[field.name], field.default)
                _check_value(flag, getattr(self, field.name))
        post_init(self)
        _check_needs(self)

    options_class.__post_init__ = check  # type: ignore[attr-defined]
    return options_class


def _check_value(flag: Flag, value: Any) -> None:
    choices, within = flag.metadata["choices"], flag.metadata["within"]
    if value is None and flag.optional:
        return
    if choices and value not in choices:
        raise errors.UserError(
            f"`{flag.name}={value}` is not allowed. Use {' or '.join(choices)}."
        )
    is_whole = flag.type is int
    if within and (complaint := within.describe_fault(value, whole=is_whole)):
        raise errors.UserError(f"`{flag.name}={value!r}` {complaint}")


def _check_needs(options: Any) -> None:
    """Refuse options that have no use without another, which is not given.

    An option with its default value counts as left out. The other option may
    be outside of this class; then the outer class checks it.
    """
    values = to_dict(options)
    for leaf in iter_flags(type(options)):
        value = values[leaf.name]
        if value == leaf.default:
            continue
        for need in leaf.metadata["needs"]:
            other, _, allowed = need.partition("=")
            is_given = values.get(other, True)
            if allowed and other in values:
                is_given = str(is_given) in allowed.split("|")
            if not is_given:
                raise unused_option_error(leaf.name, value, need)


def unused_option_error(name: str, value: Any, need: str) -> errors.UserError:
    """Return the error for an option that has no use without `need`."""
    *most, last = need.split("|")
    others = f"{', '.join(most)} or {last}" if most else last
    return errors.UserError(
        f"`{name}={value}` is only used with `{others}`, which is not given. "
        "Give both or neither."
    )


def _to_flag(field: dataclasses.Field[Any], hint: Any, default: Any) -> Flag:
    name, optional = field.name.removesuffix("_"), False
    if isinstance(hint, types.UnionType):  # Such as `int | None`.
        hint, optional = typing.get_args(hint)[0], True
    return Flag(name, hint, optional, default, field.metadata)


def _default_of(field: dataclasses.Field[Any], outer: Any) -> Any:
    """Return a field's default; that of `outer`, the outer class's, if any."""
    if dataclasses.is_dataclass(outer):
        return getattr(outer, field.name)
    return field.default


def iter_flags(options_class: type, defaults: Any = None) -> Iterator[Flag]:
    """Yield the flags of an options class, those of nested classes, too."""
    hints = typing.get_type_hints(options_class)
    sections = getattr(options_class, "help_sections", {})
    for field in dataclasses.fields(options_class):
        hint, default = hints[field.name], _default_of(field, defaults)
        if not dataclasses.is_dataclass(hint):
            flag = _to_flag(field, hint, default)
            section = sections.get(field.name)
            yield dataclasses.replace(flag, section=section)
            continue
        need = field.metadata.get("part_needs")
        for leaf in iter_flags(typing.cast(type, hint), default):
            metadata = dict(leaf.metadata)
            if need and leaf.name not in field.metadata["but"]:
                metadata["needs"] = (need, *metadata["needs"])
            yield dataclasses.replace(leaf, metadata=metadata)


def names(options_class: type) -> list[str]:
    """Return the names of all options of a class, nested ones included."""
    return [leaf.name for leaf in iter_flags(options_class)]


def optional(
    options_class: type, names: Collection[str], task_name: str
) -> type[Any]:
    """Make a class with some options of another, all with default None.

    For `export`, which takes missing values from a run.

    Args:
        task_name: As the help shows it, such as SQuAD.
    """
    fields, sections = [], {}
    for leaf in iter_flags(options_class):
        if leaf.name in names:
            text = f"{leaf.metadata['help']} For {task_name}"
            if leaf.default is not None:
                text += f"; default: the run's, else {leaf.default}"
            metadata = {**leaf.metadata, "help": f"{text}."}
            metadata["may_change"] = False
            field = dataclasses.field(default=None, metadata=metadata)
            fields.append((leaf.name, leaf.type | None, field))
            sections[leaf.name] = leaf.section
    optional_class = dataclasses.make_dataclass(
        f"{task_name}Options",
        fields,
        namespace={
            "__post_init__": lambda self: None,
            "help_sections": sections,
        },
        frozen=True,
    )
    return checked(optional_class)


def to_dict(options: Any) -> dict[str, Any]:
    """Return {flag: value}, nested options flattened; undone by `from_dict`."""
    flat: dict[str, Any] = {}
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        is_nested = dataclasses.is_dataclass(value)
        name = field.name.removesuffix("_")
        flat.update(to_dict(value) if is_nested else {name: value})
    return flat


def from_dict(
    options_class: type[OptionsT],
    values: Mapping[str, Any],
    defaults: OptionsT | None = None,
) -> OptionsT:
    """Build the options object from the dictionary of `to_dict`.

    Options that are not in the dictionary have the defaults of `options_class`,
    which may differ from those of the classes inside it.
    """
    hints = typing.get_type_hints(options_class)
    arguments: dict[str, Any] = {}
    for field in dataclasses.fields(options_class):  # type: ignore[arg-type]
        hint, default = hints[field.name], _default_of(field, defaults)
        value = values.get(field.name.removesuffix("_"), default)
        if dataclasses.is_dataclass(hint):
            value = from_dict(typing.cast(type, hint), values, default)
        if value is not dataclasses.MISSING:
            arguments[field.name] = value
    return options_class(**arguments)


def parse(options_class: type[OptionsT], words: Sequence[str]) -> OptionsT:
    """Build an options object from the words of a command line.

    `~` and `~NAME` at the beginning of a path, or of one in a list with commas,
    become home folders: the shell leaves them alone behind `--name=`.
    """
    declared = list(iter_flags(options_class))
    values = _parse_flags(declared, words)
    missing = [x for x in declared if x.is_required and x.name not in values]
    if missing:
        raise errors.UserError(
            f"Required options are missing:\n{option_help.describe(missing)}"
        )
    for leaf in declared:
        if leaf.type is str and leaf.name in values:
            values[leaf.name] = _check_and_expand(leaf, values[leaf.name])
    return from_dict(options_class, values)


class _FlagValues(flags.FlagValues):
    """Flags whose files (`--flagfile`) may be recipes, found by name."""

    def __init__(self) -> None:
        super().__init__()
        flag_files.clear()

    def _get_flag_file_lines(
        self, filename: str, parsed_file_stack: list[str] | None = None
    ) -> list[str]:
        path = configs.find(filename)
        if path in (parsed_file_stack or ()):
            raise flags.Error(f"--flagfile={path} includes itself")
        if len(flag_files) == _MOST_FLAG_FILES:
            raise flags.Error(
                f"--flagfile={path} is one of more than {_MOST_FLAG_FILES} "
                "files that flag files include"
            )
        if pathlib.Path(path).is_char_device():
            raise flags.Error(f"--flagfile={path} is a device")
        if not os.path.exists(path):
            near = files.suggest(path) or configs.suggest_recipe(path)
            raise flags.Error(f"--flagfile={path} is not a file.{near}")
        flag_files.append(path)
        try:
            lines = super()._get_flag_file_lines(path, parsed_file_stack)
        except ValueError as error:  # Not UTF-8, or NUL in the name.
            raise flags.Error(f"--flagfile={path}: {error}") from None
        return typing.cast(list[str], lines)


def _parse_flags(declared: list[Flag], words: Sequence[str]) -> dict[str, Any]:
    """Parse words with absl; return the options that they set, by name."""
    parser = _FlagValues()
    for module in ("absl.app", "absl.logging"):
        for flag in flags.FLAGS.flags_by_module_dict()[module]:
            parser[flag.name] = flag
    for leaf in declared:
        define = _DEFINE[leaf.type]
        if leaf.metadata["repeated"]:
            define = flags.DEFINE_multi_string
        define(leaf.name, None, "", flag_values=parser)
    try:
        _, *arguments = parser(["", *words])
    except (flags.Error, ValueError) as error:
        raise errors.UserError(
            f"{_reword_error(error, declared)} (Options are written as "
            "--name=value; --helpfull lists them.)"
        ) from None
    values = {
        leaf.name: parser[leaf.name].value
        for leaf in declared
        if parser[leaf.name].present
    }
    for name, value in values.items():
        if isinstance(value, list):
            values[name] = ",".join(value)
    taker = [x.name for x in declared if x.metadata["positional"]]
    if arguments and (not taker or taker[0] in values):
        raise errors.UserError(
            f"Unexpected argument {arguments[0]!r}. Options are written as "
            "--name=value, or as --name and --noname where the value is true "
            "or false; --help lists them."
        )
    return {**values, taker[0]: ",".join(arguments)} if arguments else values


_KINDS = {bool: "true or false", int: "a whole number", float: "a number"}


def _reword_error(error: Exception, declared: Iterable[Flag]) -> str:
    """Return absl's error message; our own where a value has a wrong type."""
    match = re.match(r"flag --((\w+)=.*?): ", str(error), re.DOTALL)
    kinds = {leaf.name: _KINDS.get(leaf.type) for leaf in declared}
    kind = kinds.get(match[2]) if match else None
    return f"--{match[1]} is not {kind}." if match and kind else str(error)


def _check_and_expand(leaf: Flag, value: str) -> str:
    if not value and leaf.is_required:
        raise errors.UserError(f"`{leaf.name}` is empty. It needs a value.")
    if _NOT_TEXT.search(value):
        raise errors.UserError(
            f"--{leaf.name}={value!a} contains a byte that is not UTF-8 text. "
            "Correct it; if it is the name of a file, rename the file."
        )
    return _HOME.sub(lambda x: x[1] + os.path.expanduser(x[2]), value)


def refuse_unused(settings: Any, names: Collection[str], other: str) -> None:
    """Refuse options that are only used with `other`, which is not given.

    An option with its default value counts as left out.
    """
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if field.name in names and value != field.default:
            raise unused_option_error(field.name, value, other)


def differences(
    options_class: type, previous: Mapping[str, Any], current: Mapping[str, Any]
) -> list[str]:
    """Return a line for each option that changed although it must not.

    Both are from `to_dict`. An option that `previous` lacks, because an earlier
    version did not have it, had its default value.
    """
    lines = []
    for leaf in sorted(iter_flags(options_class), key=lambda leaf: leaf.name):
        old = previous.get(leaf.name, leaf.default)
        new = current[leaf.name]
        is_fixed = not leaf.metadata["may_change"]
        if is_fixed and old not in (new, dataclasses.MISSING):
            lines.append(f"--{leaf.name} was {old!r}, is now {new!r}")
    return lines


def run_script(
    run: Callable[[OptionsT], None], options_class: type[OptionsT]
) -> None:
    """Parse the command line, and call `run` through absl's `app.run`.

    A `UserError` is printed without a traceback. The exit status is 2 for it, 1
    for an error of a disk or file, and 130 for Ctrl-C.
    """
    streams.prepare()
    imports.import_tensorflow_alone()
    _print_help(options_class)
    flags.FLAGS.mark_as_parsed()  # Each parser has flags of its own.

    # An error's frames may hold an iterator of tf.data, whose end waits for
    # its threads. These may wait for Python, which does not run them while
    # garbage is collected. So after an error none is, not even at exit.
    def run_without_collection(settings: OptionsT) -> None:
        try:
            _refuse_missing(settings)
            _warn_of_repeats(options_class)
            run(settings)
        except BaseException:
            gc.disable()
            raise

    try:
        status = _guard(
            lambda parser: app.run(
                run_without_collection, flags_parser=lambda w: parser(w[1:])
            ),
            options_class,
        )
    finally:
        gc.freeze()
    sys.exit(status)


def _refuse_missing(settings: Any) -> None:
    """Refuse paths that do not exist, before TensorFlow is loaded.

    Lists, patterns and paths of other file systems are checked where they are
    read. Of a checkpoint only the file `PATH.index` exists.
    """
    values = to_dict(settings)
    for leaf in iter_flags(type(settings)):
        path, must = values[leaf.name], leaf.metadata["must_exist"]
        if not (path and values.get(must, must)) or (
            files.is_remote(path) or set(path) & set(",*?[")
        ):
            continue
        prefix = os.path.splitext(path)[0]
        places = path, f"{path}.index", f"{prefix}.index", configs.find(path)
        if not any(map(os.path.exists, places)):
            names = leaf.metadata["names"]()
            raise errors.UserError(
                f"`{leaf.name}={path}` does not exist."
                f"{files.suggest(path, names)}{configs.note(path)} Check the "
                f"path (the current folder is {os.getcwd()})."
            )


def _warn_of_repeats(options_class: type) -> None:
    """Warn of options that the command line sets to different values.

    An option may change the value of a flag file before it, but not behind it.
    """
    values_of: dict[str, set[str]] = {}
    declared = iter_flags(options_class)
    single = [x.name for x in declared if not x.metadata["repeated"]]
    parser = _FlagValues()
    for word in sys.argv[1:]:
        lines = [word]
        if "=" in word:
            lines = parser.read_flags_from_files([word], force_gnu=False)
        for line in lines:
            name, is_set, value = line.lstrip("-").partition("=")
            counts = lines == [word] or name in values_of
            if line[:1] == "-" and is_set and name in single and counts:
                values_of.setdefault(name, set()).add(value)
    for name, values in values_of.items():
        if len(values) > 1:
            logging.warning(
                "`%s` is given with %d values; the last one counts. Several "
                "names in one value have commas between them.",
                name,
                len(values),
            )


def _print_help(options_class: type) -> None:
    """Print the help and exit, if the command line asks for it."""
    words = {word.lstrip("-") for word in sys.argv[1:] if word[:1] == "-"}
    full = "helpfull" in words
    if full or words & {"help", "h", "?", "helpshort"}:
        description = sys.modules["__main__"].__doc__ or ""
        declared = list(iter_flags(options_class))
        text = option_help.help_text(description, declared, full)
        try:
            print(text, end="", flush=True)
        except BrokenPipeError:
            streams.drop_output()
        except OSError as error:
            sys.exit(_print_error(f"error: {error}", 1))
        sys.exit(0)


def run_inside(
    run: Callable[[OptionsT], None],
    options_class: type[OptionsT],
    arguments: Sequence[str],
) -> int:
    """Do what `run_script` does in this process, and return the exit status.

    The message of a mistake is on standard error.
    """
    return _guard(lambda parser: run(parser(arguments)), options_class)


def _guard(start: Callable[..., None], options_class: type[OptionsT]) -> int:
    """Run a command; print its error as a message, and return the exit status.

    `start` runs it, given a function that parses its options.
    """
    option_names, values = names(options_class), dict[str, Any]()

    def parser(words: Sequence[str]) -> OptionsT:
        settings = parse(options_class, words)
        values.update(to_dict(settings))
        return settings

    try:
        with _logs_for_users(option_names):
            start(parser)
            print(end="", flush=True)
    except errors.UserError as error:
        return _print_error(
            f"error: {errors.as_flags(str(error), option_names)}", 2
        )
    except OSError as error:
        return _print_error(
            f"error: {errors.as_flags(str(error), option_names)}"
            f"{_name_option(error, values)}. Finished files are intact. Fix "
            "the cause and run the same command again.",
            1,
        )
    except KeyboardInterrupt:
        return _print_error("interrupted", 130)
    except errors.or_tensorflow() as error:
        return _print_error(f"error in TensorFlow: {error}", 1)
    return 0


def _name_option(error: OSError, values: Mapping[str, Any]) -> str:
    """Return the option that names the file of an error, and a remedy.

    Example:
        For a full disk at "x.partial": ", which belongs to --to=x. Make room
        there, or choose another place"
    """
    candidates = []
    for name, value in values.items():
        path = value.rstrip("/") if isinstance(value, str) else ""
        if path and f"{error.filename}/".startswith((f"{path}/", f"{path}.")):
            candidates.append((len(value), name, value))
    if not candidates:
        return ""
    _, name, value = max(candidates)
    advice = ""
    if error.errno in files.NO_ROOM:
        is_limit = error.errno == errno.EFBIG
        room = "Raise that limit" if is_limit else "Make room there"
        advice = f". {room}, or choose another place"
    return f", which belongs to --{name}={value}{advice}"


@contextlib.contextmanager
def _logs_for_users(names: Container[str]) -> Iterator[None]:
    """Show the arguments of `names` as flags in log messages.

    Messages of other packages are left out, except warnings.
    """

    def show(record: python_logging.LogRecord) -> bool:
        record.msg = errors.as_flags(record.getMessage(), names)
        record.args = ()
        is_foreign = _FOREIGN_PACKAGE.search(record.pathname)
        return not is_foreign or record.levelno > python_logging.INFO

    handler = logging.get_absl_handler()
    handler.addFilter(show)
    try:
        yield
    finally:
        handler.removeFilter(show)


def _print_error(message: str, status: int) -> int:
    with contextlib.suppress(OSError):  # There may be no room for it.
        print(message, file=sys.stderr, flush=True)
    return status
