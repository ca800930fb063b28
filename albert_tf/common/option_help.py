"""What `--help` and `--helpfull` print.

`--help` lists the options of a command that `options.shown` names, by section,
and those that must be given. `--helpfull` lists the others, too.
"""

import dataclasses
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

WIDTH = 80
_INDENT = " " * 6
_KINDS = {str: "TEXT", int: "NUMBER", float: "NUMBER"}

# In this order. An option without a section is rarely needed.
SECTIONS = ("Model", "Data", "Training", "Devices", "Output")


@dataclasses.dataclass(frozen=True)
class Flag:
    """One option, ready to become a flag.

    Attributes:
        name: On the command line, without dashes.
        type: `str`, `int`, `float` or `bool`.
        optional: Whether None is allowed.
        default: `dataclasses.MISSING` if it must be given.
        metadata: The other arguments of `options.option`.
        section: Where `--help` shows it, one of `SECTIONS`.
    """

    name: str
    type: type
    optional: bool
    default: Any
    metadata: Mapping[str, Any]
    section: str | None = None

    @property
    def is_required(self) -> bool:
        return self.default is dataclasses.MISSING


def help_text(description: str, flags: Sequence[Flag], full: bool) -> str:
    """Return the help of a command; `full`: with rarely needed options."""
    unlisted = [f for f in flags if not f.section]
    rare = [f for f in unlisted if not f.is_required]
    sections = {"Required": [f for f in unlisted if f.is_required]}
    for title in SECTIONS:
        sections[title] = [f for f in flags if f.section == title]
    if full:
        sections["Rarely needed"] = rare
    parts = [description.strip()]
    parts += [
        f"{title}:\n{describe(members)}"
        for title, members in sections.items()
        if members
    ]
    if full:
        parts.append("--flagfile=FILE reads options from a file, one a line.")
    else:
        parts.append(f"--helpfull has {len(rare)} more.")
    return "\n\n".join(parts) + "\n"


def describe(flags: Sequence[Flag]) -> str:
    """Return some lines for each option.

    Example:
          --max_seq_length=NUMBER
              Tokens per example. A number from 1 to 65,536. Default: 512.
    """
    lines = []
    for flag in flags:
        usage, description = _usage_and_text(flag)
        lines.append(f"  {usage}")
        lines += textwrap.wrap(
            description,
            WIDTH,
            initial_indent=_INDENT,
            subsequent_indent=_INDENT,
            break_on_hyphens=False,
        )
    return "\n".join(lines)


def _usage_and_text(flag: Flag) -> tuple[str, str]:
    description, value = flag.metadata["help"], _KINDS.get(flag.type, "")
    choices, within = flag.metadata["choices"], flag.metadata["within"]
    if within:
        description += f" A number {within}."
    if choices and len("|".join(choices)) <= WIDTH // 2:
        value = "|".join(choices)
    elif choices:
        description += f" One of {', '.join(choices)}."
    usage = f"--{flag.name}={value}" if value else f"--[no]{flag.name}"
    if flag.metadata["positional"]:
        usage = f"[--{flag.name}=]{value}"
    if flag.is_required:
        return f"{usage} (required)", description
    if flag.default not in (None, ""):
        default = str(flag.default)
        description += f" Default: {default.lower() if not value else default}."
    return usage, description
