"""Tables of cards and reports."""

from collections.abc import Iterable, Sequence


def table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], align: str = "---:"
) -> str:
    """Return a table in Markdown; `align` is that of all columns but the first.

    A `|`, which would end a cell, becomes `/`.
    """
    rule = ["---", *[align] * (len(heads) - 1)]
    return "".join(
        f"| {' | '.join(cell.replace('|', '/') for cell in row)} |\n"
        for row in (heads, rule, *rows)
    )
