"""Tables of cards and reports."""

from collections.abc import Iterable, Sequence


def table(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    has_numbers: bool = True,
) -> str:
    """Return a table in Markdown; all columns but the first may be numbers.

    A `|`, which would end a cell, becomes `/`.
    """
    head, *lines = (
        f"| {' | '.join(cell.replace('|', '/') for cell in row)} |"
        for row in (heads, *rows)
    )
    other = " ---: |" if has_numbers else " --- |"
    rule = "| --- |" + other * (len(heads) - 1)
    return "\n".join([head, rule, *lines]) + "\n"
