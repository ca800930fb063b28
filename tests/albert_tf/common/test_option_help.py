"""What --help and --helpfull show."""

import dataclasses

from albert_tf.common import option_help, options, ranges
from albert_tf.common.options import option, shown


@dataclasses.dataclass(frozen=True)
@shown(Devices="precision", Training="learning_rate")
class Inner:
    learning_rate: float = option(
        0.5, "Peak.", within=ranges.Range(above=0, high=10)
    )
    precision: str = option("x", "Numbers.", choices=("x" * 20, "y" * 19))


@dataclasses.dataclass(frozen=True)
@shown(Training="do_eval")
class Base:
    do_eval: bool = option(True, "Whether to evaluate.")


@dataclasses.dataclass(frozen=True, kw_only=True)
@shown(Model="task", Training="do_train", Data="input_file")
class Outer(Base):
    task: str = option(help="A task.", choices=("a" * 20, "b" * 20))
    odd_one: str = option(help="Needed.")
    odd_option: str | None = option(None, "An odd one.")
    do_train: bool = option(False, "Whether to train.")
    inner: Inner = Inner()
    input_file: str = option(
        "a", help="Long words." + " Long words." * 6, positional=True
    )


def test_options_stand_in_the_sections_that_show_them():
    leaves = list(options.iter_flags(Outer))
    shown = (
        "What it does.\n\n"
        "Required:\n  --odd_one=TEXT (required)\n      Needed.\n\n"
        "Model:\n"
        "  --task=TEXT (required)\n"
        "      A task. One of aaaaaaaaaaaaaaaaaaaa, bbbbbbbbbbbbbbbbbbbb.\n\n"
        "Data:\n"
        "  [--input_file=]TEXT\n"
        "      Long words. Long words. Long words. Long words. Long words. "
        "Long words.\n"
        "      Long words. Default: a.\n\n"
        "Training:\n"
        "  --[no]do_eval\n"
        "      Whether to evaluate. Default: true.\n"
        "  --[no]do_train\n"
        "      Whether to train. Default: false.\n"
        "  --learning_rate=NUMBER\n"
        "      Peak. A number above 0, up to 10. Default: 0.5.\n\n"
        "Devices:\n"
        f"  --precision={'x' * 20}|{'y' * 19}\n"
        "      Numbers. Default: x.\n\n"
    )
    end = "--helpfull has 1 more.\n"
    assert option_help.help_text("What it does.", leaves, False) == shown + end
    full = option_help.help_text("\nWhat it does.", leaves, True)
    end = "--flagfile=FILE reads options from a file, one a line.\n"
    rest = "Rarely needed:\n  --odd_option=TEXT\n      An odd one.\n\n"
    assert full == shown + rest + end
