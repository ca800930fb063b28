"""Options: from a dataclass to flags and back, and what a mistake prints."""

import dataclasses
import errno
import logging
import sys

import pytest
from absl import logging as absl_logging

from albert_tf.common import errors, options, ranges
from albert_tf.common.options import checked, option
from tests.conftest import python, refused


@dataclasses.dataclass(frozen=True)
@checked
class Inner:
    size: int = option(3, "A size.", within=ranges.Range(1, 10))
    shape: str = option("round", "A shape.", choices=("round", "square"))


@dataclasses.dataclass(frozen=True)
@checked
class Outer:
    name: str = option(help="A name.", may_change=True)
    rate: float = option(0.5, "A rate.", within=ranges.Range(0, 9))
    note: str | None = option(None, "A note.", choices=("a", "out", ""))
    verbose: bool = option(False, "Whether to talk.", may_change=True)
    from_: int | None = option(None, "A start.", within=ranges.Range(0, 5))
    inner: Inner = Inner(size=7)

    def __post_init__(self) -> None:
        if self.rate > 1:
            raise errors.UserError(f"`rate={self.rate}` is above 1. Use less.")


@dataclasses.dataclass(frozen=True)
class Viewer:
    paths: str = option(help="Files to show.", positional=True)
    size: int = option(3, "A size.")


def parse(*words: str) -> Outer:
    return options.parse(Outer, words)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ([], Outer("x", 0.5, None, False, None, Inner(7, "round"))),
        (
            ["--rate=0.25", "--note", "a", "--verbose", "--size=9", "--from=2"],
            Outer("x", 0.25, "a", True, 2, Inner(9, "round")),
        ),
        (
            ["--noverbose", "-shape=square"],
            Outer("x", inner=Inner(7, "square")),
        ),
        (["--verbose=True", "--note="], Outer("x", note="", verbose=True)),
        (["--verbose=0", "--size=0x9"], Outer("x", inner=Inner(9))),
        (["--size=2", "--size=3"], Outer("x", inner=Inner(3))),
    ],
)
def test_flags_become_an_object(words, wanted):
    assert parse("--name=x", *words) == wanted


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
    wanted = ["name", "rate", "note", "verbose", "from", "size", "shape"]
    assert options.names(Outer) == wanted


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ("--flagfile=a.flags",),
        ("-flagfile=a.flags",),
        ("--flagfile", "a.flags"),
        ("--flagfile=~/a.flags",),
        ("--flagfile=outer.flags", "--flagfile=outer.flags"),
    ],
)
def test_options_take_the_place_of_a_flag_file(words, folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder))
    content = b"# comment\r\n\r\n// comment\n --rate=1 \n--name=x # y\n"
    (folder / "a.flags").write_bytes(content)
    (folder / "outer.flags").write_text("--flagfile=a.flags\n")
    found = parse("--rate=0", "--size=2", *words, "--size=4")
    assert found == Outer("x # y", 1, inner=Inner(4))
    read = {path.rpartition("/")[2] for path in options.flag_files}
    assert read - {"outer.flags"} == {"a.flags"}


def test_recipes_are_found_from_any_folder(folder):
    @dataclasses.dataclass(frozen=True)
    class Options:
        albert_config_file: str = option("", positional=True)

    (folder / "mine.flags").write_text("--flagfile=configs/race/race.flags\n")
    for path in ("configs/race/race.flags", "mine.flags"):
        # The second line of the recipe is no option here.
        with refused("flag 'max_seq_length'"):
            options.parse(Options, [f"--flagfile={path}"])
    word = "configs/race/race.flags"  # No flag file, but a value.
    assert options.parse(Options, [word]).albert_config_file == word


def refuse(outer: Outer) -> None:
    raise errors.UserError("`name=x` is taken, or give `size` or `other`.")


def stumble(outer: Outer) -> None:
    raise OSError(5, "Input/output error", outer.name)


def fill_the_disk(outer: Outer) -> None:
    raise OSError(f"Cannot write `name={outer.name}`")


def fill_the_disk_beside(outer: Outer) -> None:
    path = outer.name.rstrip("/") + ".partial"
    raise OSError(errno.ENOSPC, "No space left", path)


def pass_the_limit(outer: Outer) -> None:
    raise OSError(errno.EFBIG, "Too large (ulimit -f)", outer.name)


def interrupt(_: Outer) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "missing:\n  --name=TEXT (required)\n      A name."),
        (["--name="], "--name is empty"),
        (["--name=a\0b"], "--name='a\\x00b' contains a byte"),
        (["--name=x", "--note=\udcff"], "--note='\\udcff' contains"),
        (
            ["--name=x", "--shape=flat"],
            "--shape=flat is not allowed. Use round",
        ),
        (["--name=x", "--shape="], "--shape= is not allowed"),
        (["--name=x", "--size=many"], "--size=many is not a whole number. ("),
        (["--name=x", "--size=1.5"], "--size=1.5 is not a whole number"),
        (["--name=x", "--size=0"], "--size=0 is below 1. Use a whole number"),
        (["--name=x", "--from=6"], "--from=6 is above 5"),
        (["--name=x", "--rate="], "--rate= is not a number. ("),
        (["--name=x", "--rate=nan"], "--rate=nan is not a number"),
        (["--name=x", "--rate=2"], "--rate=2.0 is above 1. Use less."),
        (["--name=x", "--rate"], "Missing value for flag --rate"),
        (["--name=x", "--verbose=maybe"], "--verbose=maybe is not true or fal"),
        (
            ["--name=x", "--noverbose=true"],
            "--noverbose=true does not take an argument",
        ),
        (["--name=x", "--verbos"], "Did you mean: verbose, verbosity ?"),
        (["--name=x", "--extra=3"], "flag 'extra'"),
        (["--name=x", "size=3"], "Unexpected argument 'size=3'. Options"),
        (["yes", "--name=x"], "Unexpected argument 'yes'"),
        (["--name=x", "--verbosity=loud"], "--verbosity=loud"),
        (["--flagfile"], "--flagfile"),
        (["--flagfile=none"], "--flagfile=none is not a file. ("),
        (["--flagfile=."], "Is a directory: '.'"),
        (["--flagfile=a\0b"], "is not a file. ("),
        (["--flagfile=outer"], "--flagfile=inner is not a file. ("),
        (["--flagfile=itself"], "--flagfile=itself includes itself"),
        (["--flagfile=bytes"], "--flagfile=bytes: 'utf-8' codec can't decode"),
        (["--flagfile=zeros"], "Unexpected argument"),
        (["--flagfile=/dev/zero"], "--flagfile=/dev/zero is a device"),
        (["--flagfile=deep0"], "is one of more than 100 files"),
        (["--flagfile=two0"], "is one of more than 100 files"),
        (["--flagfile=oter"], "=oter is not a file. Did you mean outer? ("),
        (["--flagfile=hour"], "mean configs/pretraining/hour.flags? ("),
        (["--flagfile=x/cola.flag"], "mean configs/glue/cola.flags? ("),
        (["--flagfile=wide"], "is one of more than 100 files"),
    ],
)
def test_wrong_options(words, says, folder, capsys):
    (folder / "outer").write_bytes(b"--flagfile=inner")
    (folder / "itself").write_bytes(b"--flagfile=itself")
    (folder / "bytes").write_bytes(b"--name=x\n\xff\n")
    (folder / "zeros").write_bytes(bytes(1000))
    (folder / "wide").write_text("--flagfile=empty\n" * 100)
    (folder / "empty").write_text("")
    for number in range(100):
        for name, times in (("deep", 1), ("two", 2)):
            lines = f"--flagfile={name}{number + 1}\n" * times
            (folder / f"{name}{number}").write_text(lines)
    assert options.run_inside(pytest.fail, Outer, words) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ") and says in said


@pytest.mark.parametrize(
    ("run", "words", "status", "says"),
    [
        (str, ["--name=x"], 0, ""),
        (refuse, ["--name=x"], 2, "--name=x is taken, or give --size or `oth"),
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
        (
            pass_the_limit,
            ["--name=x"],
            1,
            "which belongs to --name=x. Raise that limit, or choose",
        ),
        (interrupt, ["--name=x"], 130, "interrupted"),
    ],
)
def test_status_and_message_of_an_error(run, words, status, says, capsys):
    assert options.run_inside(run, Outer, words) == status
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["a"], Viewer("a")),
        (["a", "b c", "--size=4", "d"], Viewer("a,b c,d", 4)),
        (["--paths=a"], Viewer("a")),
        (["--size=4", "--", "--a"], Viewer("--a", 4)),
    ],
)
def test_words_without_dashes_go_to_the_positional_option(words, wanted):
    seen = []
    assert options.run_inside(seen.append, Viewer, words) == 0
    assert seen == [wanted]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--paths=a", "b"], "Unexpected argument 'b'"),
        ([], "missing:\n  [--paths=]TEXT (required)\n      Files to show."),
        ([""], "--paths is empty"),
    ],
)
def test_positional_option_is_given_once(words, says, capsys):
    assert options.run_inside(str, Viewer, words) == 2
    assert says in capsys.readouterr().err


@dataclasses.dataclass(frozen=True)
class Models:
    names: str = options.option(help="Of models.", repeated=True)


def test_values_of_a_repeated_option_are_joined():
    assert options.parse(Models, ["--names=a", "--names=b,c"]) == Models(
        "a,b,c"
    )
    with refused("`names` is empty"):
        options.parse(Models, ["--names="])


def test_only_options_that_are_not_repeated_warn_of_it(monkeypatch, caplog):
    monkeypatch.setattr(sys, "argv", ["", "--names=a", "--names=b"])
    options._warn_of_repeats(Models)
    assert not caplog.text
    monkeypatch.setattr(sys, "argv", ["", "--paths=a", "--paths=b"])
    options._warn_of_repeats(Viewer)
    assert "`paths` is given with 2 values" in caplog.text


@pytest.mark.parametrize("is_file_last", [True, False])
def test_flag_files_behind_an_option_warn_of_it(
    is_file_last, monkeypatch, caplog, tmp_path
):
    (tmp_path / "recipe").write_text("--paths=a\n")
    words = ["--paths=b", f"--flagfile={tmp_path}/recipe"]
    words = words if is_file_last else words[::-1]
    monkeypatch.setattr(sys, "argv", ["", *words])
    options._warn_of_repeats(Viewer)
    assert ("`paths` is given with 2 values" in caplog.text) == is_file_last


def test_to_dict_is_flat_and_from_dict_undoes_it():
    outer = Outer("x", from_=3, inner=Inner(1, "square"))
    flat = options.to_dict(outer)
    assert flat["size"] == 1 and flat["from"] == 3 and len(flat) == 7
    assert options.from_dict(Outer, flat) == outer
    # Where nothing is said the outer class decides, as on the command line.
    assert options.from_dict(Outer, {"name": "x"}) == parse("--name=x")
    for wrong in ({"shape": "flat"}, {"size": 11}, {"rate": None}):
        with refused(f"`{[*wrong][0]}="):
            options.from_dict(Outer, {"name": "x", **wrong})


@dataclasses.dataclass(frozen=True)
@checked
class Sauce:
    salt: float = option(0.5, within=ranges.Range(0, 9), needs="cooked")
    pepper: bool = option(False)


@dataclasses.dataclass(frozen=True)
@checked
class Meal:
    kind: str = option("soup", choices=("soup", "rice", "cake"))
    cooked: bool = option(True)
    cream: str | None = option(None, needs="kind=soup|cake")
    crust: int = option(0, within=ranges.Range(0, 9), needs=("cream", "cooked"))
    raw: bool = option(False, needs="cooked=False")
    sauce: Sauce = options.part(Sauce(), needs="kind=rice", but=("pepper",))


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"cream": "a", "crust": 1}, None),
        ({"kind": "rice", "salt": 1.0, "pepper": True}, None),
        ({"pepper": True, "raw": True, "cooked": False}, None),
        ({"kind": "rice", "salt": 0.5, "cooked": False}, None),  # As usual.
        ({"kind": "rice", "cream": ""}, "cream=` is only used with `kind=soup"),
        ({"crust": 1}, "`crust=1` is only used with `cream`, which is not"),
        ({"cream": "a", "crust": 1, "cooked": False}, "with `cooked`, which"),
        ({"raw": True}, "`raw=True` is only used with `cooked=False`, which"),
        ({"salt": 0.0}, "`salt=0.0` is only used with `kind=rice`, which"),
        ({"kind": "rice", "salt": 1.0, "cooked": False}, "with `cooked`, wh"),
    ],
)
def test_options_without_what_they_need_are_refused(values, says):
    """Where a part of the options does not know the other, the whole does."""
    Sauce(salt=1.0)
    if says is None:
        flat = options.to_dict(options.from_dict(Meal, values))
        assert values.items() <= flat.items()
        return
    with refused(says):
        options.from_dict(Meal, values)


def test_options_of_something_else_are_refused_whatever_they_are():
    options.refuse_unused(Viewer("a", 3), ["size"], "other=x")
    words = "`size=0` is only used with `other=x`, .* Give both or neither"
    with refused(words):
        options.refuse_unused(Viewer("a", 0), ["size"], "other=x")


def test_differences_leave_out_what_may_change():
    before = options.to_dict(Outer("x"))
    now = options.to_dict(Outer("y", 0.25, None, True, None, Inner(8)))
    lines = ["--rate was 0.5, is now 0.25", "--size was 7, is now 8"]
    assert options.differences(Outer, before, now) == lines
    # What an earlier version did is what the default does.
    assert options.differences(Outer, {"rate": 0.5}, now) == lines
    assert not options.differences(Outer, {}, options.to_dict(Outer("x")))
    # Without a default it is not known.
    assert not options.differences(Viewer, {}, options.to_dict(Viewer("a")))


@pytest.mark.parametrize(
    ("flag", "shown"),
    [
        ("--help", "--helpfull has 6 more."),
        ("-h", "Required:\n  --name=TEXT (required)"),
        ("--helpshort", "--helpfull has 6 more."),
        ("--helpfull", "--shape=round|square"),
    ],
)
def test_help_ends_with_status_0(flag, shown, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["program", flag])
    with pytest.raises(SystemExit) as left:
        options.run_script(pytest.fail, Outer)
    assert left.value.code == 0
    assert shown in capsys.readouterr().out


# A command in a process of its own.
PROGRAM = """
import dataclasses
from absl import logging
from albert_tf.common import errors, options

@dataclasses.dataclass(frozen=True)
class Options:
    name: str = options.option()

class Garbage:
    def __init__(self):
        self.own = self
    def __del__(self):
        print("collected")

def run(settings):
    logging.info("`name=%s` is there.", settings.name)
    if settings.name != "x":
        Garbage()
    if settings.name == "taken":
        raise errors.UserError("`name=taken` is taken.")
    if settings.name == "fault":
        raise TypeError("A fault.")

options.run_script(run, Options)
"""


@pytest.mark.parametrize(
    ("words", "answers", "status", "says"),
    [
        (["--name=x"], "", 0, "--name=x is there.\n"),
        (["--name=x", "--verbosity=-1"], "", 0, ""),
        (["--name=y", "--name=x"], "", 0, "--name is given with 2 values; the"),
        (["--name=taken"], "", 2, "error: --name=taken is taken.\n"),
        (["--nam=x"], "", 2, "Did you mean: name ?"),
        (["--name=fault"], "", 1, "TypeError: A fault."),
        (["--name=fault", "--only_check_args"], "", 0, ""),
        (["--name=x", "--run_with_pdb"], "p settings\nc\n", 0, "name='x'"),
        (["--name=x", "--run_with_profiling"], "", 0, "cumtime"),
    ],
)
def test_scripts_run_through_absl(words, answers, status, says):
    done = python("-c", PROGRAM, *words, input=answers, status=status)
    assert says in done.stderr + done.stdout
    assert ("Traceback" in done.stderr) == (status == 1)
    assert says or not done.stderr
    # What an error leaves behind may never end, see `options.run_script`.
    assert "collected" not in done.stdout


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
    found = []

    def log(_):
        record = logging.LogRecord("absl", level, path, 1, "text", None, None)
        found.append(bool(absl_logging.get_absl_handler().filter(record)))

    assert options.run_inside(log, Outer, ["--name=x"]) == 0
    assert found == [shown]


@pytest.mark.parametrize(
    ("error", "status"), [("KeyboardInterrupt", 130), ("ValueError", 1)]
)
def test_ctrl_c_during_imports_leaves_no_traceback(tmp_path, error, status):
    (tmp_path / "slow.py").write_text(f"raise {error}")
    code = (
        f"import sys; sys.path.append({str(tmp_path)!r})\n"
        "import dataclasses\n"
        "from albert_tf.common import imports, options\n"
        "slow = imports.later('slow')\n"
        "no_options = dataclasses.make_dataclass('None_', [])\n"
        "options.run_script(lambda _: slow.run(), no_options)"
    )
    said = python("-c", code, status=status).stderr
    assert (said == "interrupted\n") == (status == 130)
    assert ("Traceback" in said) == (status == 1)
