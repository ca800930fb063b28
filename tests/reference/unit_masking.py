"""ERNIE 1.0's choice of what is hidden, as loops.

Source: the released ERNIE, batching.py, mask (branch for units): a unit is
chosen if the draw of its first piece is at most 0.15. The same draw, as a share
of 0.15, decides about that piece, and a draw of its own about each other one:
80 % become [MASK], 10 % a random piece, 10 % stay.
"""

MASKED, RANDOM, KEPT = range(3)


def hide(sizes, generator):
    """Return what happens to each piece of each unit; None: not chosen.

    Args:
        sizes: Pieces of each unit.
    """
    found = []
    for size in sizes:
        draws = generator.random(size)
        if draws[0] > 0.15:
            found.append(None)
            continue
        shares = [draws[0] / 0.15, *draws[1:]]
        found.append(
            [
                MASKED if share > 0.2 else RANDOM if share > 0.1 else KEPT
                for share in shares
            ]
        )
    return found
