"""Options: from a dataclass to flags and back, and what a mistake prints."""

import dataclasses
import errno
import gc
import logging
import sys

import pytest
from absl import logging as absl_logging

from albert_tf.common import errors, options, ranges
from albert_tf.common.options import option


@dataclasses.dataclass(frozen=True)
class Inner:
    size: int = option(3, "A size.", within=ranges.Range(1, 10))
    shape: str = option("round", "A shape.", choices=("round", "square"))


@dataclasses.dataclass(frozen=True)
class Outer:
    name: str = option(help="A name.", may_change=True)
    rate: float = option(0.5, "A rate.", within=ranges.Range(0, 9))
    note: str | None = option(None, "A note.")
    verbose: bool = option(False, "Whether to talk.", may_change=True)
    inner: Inner = dataclasses.field(default_factory=lambda: Inner(size=7))

    def __post_init__(self) -> None:
        if self.rate > 1:
            raise errors.UserError(f"--rate={self.rate} is above 1. Use less.")


def parse(*arguments: str) -> Outer:
    return options.parse(Outer, arguments)


def test_defaults_become_flags_and_an_object():
    assert parse("--name=x") == Outer("x", 0.5, None, False, Inner(7, "round"))


def test_flags_reach_nested_options():
    parsed = parse(
        "--name=x", "--rate=0.25", "--note=y", "--verbose", "--size=9"
    )
    assert parsed == Outer("x", 0.25, "y", True, Inner(9, "round"))


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("~/x", "/home/me/x"),
        ("~", "/home/me"),
        ("~/a*.txt, ~/b,~/c", "/home/me/a*.txt, /home/me/b,/home/me/c"),
        ("~nobody-of-this-name/x", "~nobody-of-this-name/x"),
        ("a~/x", "a~/x"),
        ("./~/x", "./~/x"),
    ],
)
def test_tilde_is_the_home_folder(monkeypatch, given, wanted):
    monkeypatch.setenv("HOME", "/home/me")
    assert parse(f"--name={given}").name == wanted


def test_names_lists_nested_options_in_order():
    assert options.names(Outer) == [
        "name",
        "rate",
        "note",
        "verbose",
        "size",
        "shape",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--rate=0.25"],
            "Required options are missing:\n  --name=TEXT (required)\n      "
            "A name.",
        ),
        (
            ["--name=x", "--shape=flat"],
            "`shape=flat` is not allowed. Use round or square.",
        ),
        (
            ["--name=x", "--size=many"],
            "`size=many` is not a whole number. Use a whole number from 1 to "
            "10.",
        ),
        (
            ["--name=x", "--rate="],
            "`rate=` is not a number. Use a number from 0 to 9.",
        ),
        (
            ["--name=x", "--verbose=maybe"],
            "`verbose=maybe` is neither true nor false. Write --verbose or "
            "--noverbose.",
        ),
        (
            ["--name=x", "--verbos"],
            "--verbos is not an option of this command. Did you mean "
            "--verbose? --helpfull lists all options.",
        ),
        (
            ["--name=x", "--no_verbose"],
            "--no_verbose is not an option of this command. Did you mean "
            "--noverbose? --helpfull lists all options.",
        ),
        (
            ["--name=x", "--noname"],
            "--noname is not an option of this command. Did you mean --name? "
            "--helpfull lists all options.",
        ),
        (
            ["--name=x", "--extra=3"],
            "--extra is not an option of this command. --helpfull lists all "
            "options.",
        ),
        (
            ["--name=x", "--flagfile=absent.flags"],
            "--flagfile=absent.flags cannot be read: No such file or "
            "directory. Name a file with one option on each line.",
        ),
        (
            ["--name=x", "--rate"],
            "--rate has no value. Options are written as --name=value; --help "
            "lists them.",
        ),
        (
            ["--name=x", "--noverbose=true"],
            "--noverbose=true must have no value. Options are written as "
            "--name=value; --help lists them.",
        ),
        (
            ["--name=x", "--verbosity=loud"],
            "--verbosity=loud is not allowed: invalid literal for int() with "
            "base 10: 'loud'. Options are written as --name=value; --help "
            "lists them.",
        ),
        (
            ["--name=x", "--pdb"],
            "--pdb is not an option of this command. --helpfull lists all "
            "options.",
        ),
    ],
)
def test_message_of_a_wrong_option(arguments, message):
    with pytest.raises(errors.UserError) as error:
        parse(*arguments)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("--verbose", True),
        ("--noverbose", False),
        ("--verbose=True", True),
        ("--verbose=0", False),
    ],
)
def test_truth_values(given, wanted):
    assert parse("--name=x", given).verbose is wanted


def test_numbers_may_be_hexadecimal():
    assert parse("--name=x", "--size=0x9").inner.size == 9


def test_rules_between_options_hold_for_flags():
    with pytest.raises(errors.UserError, match="--rate=2.0 is above 1"):
        parse("--name=x", "--rate=2")


def test_to_dict_is_flat_and_from_dict_undoes_it():
    outer = Outer("x", inner=Inner(1, "square"))
    flat = options.to_dict(outer)
    assert flat["size"] == 1 and "inner" not in flat
    assert options.from_dict(Outer, flat) == outer
    # Where nothing is said the outer class decides, as on the command line.
    assert options.from_dict(Outer, {"name": "x"}) == parse("--name=x")


def test_differences_leave_out_what_may_change():
    before = options.to_dict(Outer("x"))
    now = options.to_dict(Outer("y", 0.25, None, True, Inner(8)))
    assert options.differences(Outer, before, now) == [
        "  --rate was 0.5, is now 0.25",
        "  --size was 7, is now 8",
    ]


def test_differences_accept_options_that_are_new():
    before = {"rate": 0.5}
    assert not options.differences(Outer, before, options.to_dict(Outer("x")))
    # What an earlier version did is what the default does.
    now = options.to_dict(Outer("x", inner=Inner(8)))
    assert options.differences(Outer, before, now) == [
        "  --size was 7, is now 8"
    ]


def test_script_explains_a_typo_without_a_traceback(run_module):
    done = run_module("albert_tf.export", "--run_dri=x", "--export_dir=y")
    assert done.returncode == 2
    assert "run_dri" in done.stderr and "run_dir" in done.stderr
    assert "Traceback" not in done.stderr


def test_script_ends_with_status_2_after_a_users_mistake(run_module, tmp_path):
    done = run_module(
        "albert_tf.export", f"--run_dir={tmp_path}", "--export_dir=y"
    )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(
        f"error: --run_dir={tmp_path} is not"
    )
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("flag", "shown"),
    [
        ("--help", "--helpfull has 6 more."),
        ("-h", "--helpfull has 6 more."),
        ("--helpshort", "--helpfull has 6 more."),
        ("--helpfull", "--shape=round|square"),
    ],
)
def test_help_ends_with_status_0(flag, shown, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["program", flag])
    with pytest.raises(SystemExit) as left:
        options.run_script(refuse, Outer)
    assert left.value.code == 0
    assert shown in capsys.readouterr().out


def test_script_refuses_an_argument_without_dashes(run_module):
    done = run_module(
        "data_prep.make_demo_data", "--output_dir=x", "num_stories=3"
    )
    assert done.returncode == 2
    assert "Unexpected argument 'num_stories=3'" in done.stderr


def refuse(outer: Outer) -> None:
    raise errors.UserError(f"--name={outer.name} is taken.")


def refuse_arguments(outer: Outer) -> None:
    raise errors.UserError("is taken, or give `size` or `other`.", "name", "x")


def stumble(outer: Outer) -> None:
    raise OSError(5, "Input/output error", outer.name)


def fill_the_disk(outer: Outer) -> None:
    raise OSError(f"Cannot write `name={outer.name}`")


def fill_the_disk_beside(outer: Outer) -> None:
    path = outer.name.rstrip("/") + ".partial"
    raise OSError(errno.ENOSPC, "No space left", path)


def interrupt(_: Outer) -> None:
    raise KeyboardInterrupt


@dataclasses.dataclass(frozen=True)
class Viewer:
    paths: str = option(help="Files to show.", positional=True)
    size: int = option(3, "A size.")


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["a"], Viewer("a")),
        (["a", "b c", "--size=4", "d"], Viewer("a,b c,d", 4)),
        (["--paths=a"], Viewer("a")),
        (["--size=4", "--", "--a"], Viewer("--a", 4)),
    ],
)
def test_words_without_dashes_go_to_the_positional_option(arguments, wanted):
    seen = []
    assert options.run_inside(seen.append, Viewer, arguments) == 0
    assert seen == [wanted]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--paths=a", "b"], "Unexpected argument 'b'"),
        ([], "missing:\n  [--paths=]TEXT (required)\n      Files to show."),
        ([""], "--paths is empty"),
    ],
)
def test_positional_option_is_given_once(arguments, message, capsys):
    assert options.run_inside(str, Viewer, arguments) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("run", "arguments", "status", "message"),
    [
        (str, ["--name=x"], 0, ""),
        (refuse, ["--name=x"], 2, "error: --name=x is taken."),
        (
            refuse_arguments,
            ["--name=x"],
            2,
            "error: --name=x is taken, or give --size or `other`.",
        ),
        (stumble, ["--name=x"], 1, "error: [Errno 5] Input/output error: 'x'"),
        (fill_the_disk, ["--name=x"], 1, "error: Cannot write --name=x. "),
        (
            stumble,
            ["--note=a", "--name=a/b"],
            1,
            "'a/b', which belongs to --name=a/b. Finished",
        ),
        (
            fill_the_disk_beside,
            ["--note=out", "--name=out/x/"],
            1,
            "which belongs to --name=out/x/. Make room there, or choose",
        ),
        (interrupt, ["--name=x"], 130, "interrupted"),
        (str, [], 2, "--name"),
        (str, ["--name=x", "--size=many"], 2, "--size"),
        (str, ["--name=x", "size=3"], 2, "Unexpected argument 'size=3'"),
        (str, ["--name=x", "size=3"], 2, "Did you mean --size=3?"),
        (
            str,
            ["--name=x", "--verbose", "yes"],
            2,
            "Unexpected argument 'yes'. Write --verbose or --noverbose, "
            "without a value.",
        ),
        (str, ["yes", "--name=x"], 2, "Unexpected argument 'yes'. Options"),
        (str, ["--name="], 2, "--name is empty"),
        (str, ["--name=x", "--note="], 0, ""),
        (str, ["--name=a\0b"], 2, "--name='a\\x00b' contains a byte"),
        (str, ["--name=x", "--note=\udcff"], 2, "--note='\\udcff' contains"),
    ],
)
def test_status_and_message_inside_a_process(
    run, arguments, status, message, capsys
):
    assert options.run_inside(run, Outer, arguments) == status
    assert message in capsys.readouterr().err


def test_logs_of_a_command_show_its_arguments_as_flags():
    shown = []

    def log(_=None):
        message, values = "`note=%s` is odd. Set `size` or `other`.", ("x",)
        record = logging.LogRecord("absl", 20, "x", 1, message, values, None)
        absl_logging.get_absl_handler().filter(record)
        shown.append(record.getMessage())

    assert options.run_inside(log, Outer, ["--name=x"]) == 0
    log()
    assert shown == [
        "--note=x is odd. Set --size or `other`.",
        "`note=x` is odd. Set `size` or `other`.",
    ]


@pytest.mark.parametrize(
    ("path", "level", "shown"),
    [
        ("/env/site-packages/albert_tf/run_squad.py", logging.INFO, True),
        ("/env/site-packages/data_prep/split.py", logging.INFO, True),
        ("/clone/albert_tf/run_squad.py", logging.INFO, True),
        ("/env/site-packages/tensorflow/x.py", logging.INFO, False),
        ("/env/site-packages/tensorflow/x.py", logging.WARNING, True),
    ],
)
def test_remarks_of_other_packages_are_kept_back(path, level, shown):
    record = logging.LogRecord("absl", level, path, 1, "text", None, None)
    assert options._is_for_the_user(record) == shown


def test_collector_is_paused_between_check_and_run(monkeypatch):
    @dataclasses.dataclass(frozen=True)
    class NoOptions:
        pass

    seen = []
    monkeypatch.setattr("sys.argv", ["command"])
    try:
        options.check_command_line(NoOptions)
        seen.append(gc.isenabled())
        with pytest.raises(SystemExit):
            options.run_script(lambda _: seen.append(gc.isenabled()), NoOptions)
    finally:
        gc.enable()
        gc.unfreeze()
    assert seen == [False, True]
