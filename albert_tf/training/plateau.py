"""The first plateau of pretraining, and the warning of a run that stays there.

A model first learns how frequent pieces are. With some recipes it learns no
more for a long time, although the loss has fallen and is finite.
"""

from collections.abc import Sequence

# The mean loss is taken over the lines of the last so many updates.
_WINDOW = 500
# No warning before so many updates, and one in so many.
_INTERVAL = 1000
# How far, in nats, the loss must be below the entropy: more than the mean of
# 500 small batches varies by chance.
_MARGIN = 0.1


def find(
    losses: Sequence[tuple[int, float]],
    entropy_of_labels: float | None,
    warmup_end: int,
    network: str = "model",
) -> str | None:
    """Return a warning if the run is on its plateau and a warning is due.

    One is due at the first line of the log that is written at twice the warm-up
    or later, and at 1,000 updates or later; then at the first line of every
    further 1,000 updates. Lines of earlier starts of the run count.

    Args:
        losses: Step and training `masked_lm_loss` of all lines of the log.
        entropy_of_labels: Of the records; None if it is not known.
        warmup_end: Step at which the warm-up ends.
        network: What the message calls the network that predicts the words.

    Returns:
        None if no warning is due, the run learns, or nothing is known.
    """
    if entropy_of_labels is None or not losses:
        return None
    last = losses[-1][0]
    previous = losses[-2][0] if len(losses) > 1 else 0
    first = max(_INTERVAL, 2 * warmup_end)
    if last < first or _intervals(last, first) == _intervals(previous, first):
        return None
    recent = [loss for step, loss in losses if step > last - _WINDOW]
    mean = sum(recent) / len(recent)
    is_stuck = mean >= entropy_of_labels - _MARGIN
    if not is_stuck:
        return None
    return (
        f"After {last:,} updates the masked_lm_loss is {mean:.3f} (mean of "
        "the last lines of the log). The entropy of the labels is "
        f"{entropy_of_labels:.3f}: the {network} knows no more than how "
        "frequent pieces are. What can help, unless you use it already: the "
        "config key position_bias=alibi, `bias_correction`, a lower "
        "`learning_rate`, a longer `num_warmup_steps`, shorter sequences "
        "first. See docs/recipes.md."
    )


def _intervals(step: int, first: int) -> int:
    return (step - first) // _INTERVAL
