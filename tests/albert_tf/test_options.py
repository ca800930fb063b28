"""Options: from a dataclass to flags and back, and what a mistake prints."""

import dataclasses

import pytest
from absl import flags

from albert_tf import errors, options
from albert_tf.options import option


@dataclasses.dataclass(frozen=True)
class Inner:
    size: int = option(3, "A size.")
    shape: str = option("round", "A shape.", choices=("round", "square"))


@dataclasses.dataclass(frozen=True)
class Outer:
    name: str = option(help="A name.", may_change=True)
    rate: float = option(0.5, "A rate.")
    note: str | None = option(None, "A note.")
    verbose: bool = option(False, "Whether to talk.", may_change=True)
    inner: Inner = dataclasses.field(default_factory=lambda: Inner(size=7))

    def __post_init__(self) -> None:
        if self.rate > 1:
            raise errors.UserError(f"--rate={self.rate} is above 1. Use less.")


def parse(*arguments: str) -> Outer:
    values = flags.FlagValues()
    options.define_flags(Outer, values)
    values(["program", *arguments])
    return options.from_flags(Outer, values)


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
        (["--rate=0.25"], "name"),
        (["--name=x", "--shape=flat"], "round|square"),
        (["--name=x", "--size=many"], "size"),
    ],
)
def test_absl_refuses_wrong_flags(arguments, message):
    with pytest.raises(flags.IllegalFlagValueError) as error:
        parse(*arguments)
    assert message in str(error.value)


def test_unknown_flag_comes_with_a_suggestion():
    with pytest.raises(flags.UnrecognizedFlagError, match="verbose"):
        parse("--name=x", "--verbos")


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
    assert done.stderr.splitlines()[-1].startswith(f"error: {tmp_path} is not")
    assert "Traceback" not in done.stderr


def test_script_refuses_an_argument_without_dashes(run_module):
    done = run_module(
        "data_prep.make_demo_data", "--output_dir=x", "num_stories=3"
    )
    assert done.returncode == 2
    assert "Unexpected argument 'num_stories=3'" in done.stderr


def refuse(outer: Outer) -> None:
    raise errors.UserError(f"--name={outer.name} is taken.")


def stumble(outer: Outer) -> None:
    raise OSError(5, "Input/output error", outer.name)


def interrupt(_: Outer) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("run", "arguments", "status", "message"),
    [
        (str, ["--name=x"], 0, ""),
        (refuse, ["--name=x"], 2, "error: --name=x is taken."),
        (stumble, ["--name=x"], 1, "error: [Errno 5] Input/output error: 'x'"),
        (interrupt, ["--name=x"], 130, "interrupted"),
        (str, [], 2, "--name"),
        (str, ["--name=x", "--size=many"], 2, "--size"),
        (str, ["--name=x", "size=3"], 2, "Unexpected argument 'size=3'"),
        (str, ["--name="], 2, "--name is empty"),
        (str, ["--name=x", "--note="], 0, ""),
        (str, ["--name=a\0b"], 2, "--name='a\\x00b' holds a byte"),
        (str, ["--name=x", "--note=\udcff"], 2, "--note='\\udcff' holds"),
    ],
)
def test_status_and_message_inside_a_process(
    run, arguments, status, message, capsys
):
    assert options.run_inside(run, Outer, arguments) == status
    assert message in capsys.readouterr().err
