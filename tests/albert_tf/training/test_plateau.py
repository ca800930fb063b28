"""The warning of a run that learns only how frequent pieces are."""

import math

import pytest

from albert_tf.training import plateau

ENTROPY = 6.4


def lines(last, loss, every=100):
    """The column of a run with the same loss up to step `last`."""
    return [(step, loss) for step in range(every, last + 1, every)]


def warned_at(losses, warmup_end=300, entropy=ENTROPY):
    """The steps at which a run with these lines was warned."""
    return [
        losses[i][0]
        for i in range(len(losses))
        if plateau.find(losses[: i + 1], entropy, warmup_end)
    ]


def test_run_on_its_plateau_is_warned_once_in_1000_updates():
    warning = plateau.find(lines(1000, 6.351), ENTROPY, 300)
    for part in (
        "After 1,000 updates the masked_lm_loss is 6.351",
        "entropy of the labels is 6.400",
        "no more than how frequent pieces are",
        "`bias_correction`, a lower `learning_rate`",
        "docs/recipes.md",
    ):
        assert part in warning
    assert warned_at(lines(3500, 6.35)) == [1000, 2000, 3000]
    assert warned_at(lines(3500, 6.4, every=300)) == [1200, 2100, 3000]
    assert warned_at(lines(6000, 7.0, every=2000)) == [2000, 4000, 6000]


def test_run_that_learns_is_not_warned():
    assert warned_at(lines(3000, 6.29)) == []


@pytest.mark.parametrize(
    ("warmup_end", "first"), [(0, 1000), (500, 1000), (501, 1100), (700, 1400)]
)
def test_no_warning_during_the_first_1000_updates_and_twice_the_warmup(
    warmup_end, first
):
    assert warned_at(lines(1500, 7.0), warmup_end) == [first]


def test_only_the_last_500_updates_count():
    """Those of the lines at 600 to 1,000."""
    early = lines(500, 5.0)
    assert plateau.find([*early, *lines(1000, 6.4)[5:]], ENTROPY, 0)
    early = lines(500, 9.0)
    assert not plateau.find([*early, *lines(1000, 6.2)[5:]], ENTROPY, 0)


def test_mean_of_the_lines_counts():
    """The mean is 6.32, then 6.28; it must be below 6.3."""
    before = lines(900, 6.4)
    assert plateau.find([*before, (1000, 6.0)], ENTROPY, 0)
    assert not plateau.find([*before, (1000, 5.8)], ENTROPY, 0)


def test_nothing_is_said_without_an_entropy_or_lines():
    assert plateau.find(lines(1000, 9.0), None, 0) is None
    assert plateau.find([], ENTROPY, 0) is None


def test_loss_that_is_not_a_number_gives_no_warning():
    assert plateau.find(lines(1000, math.nan), ENTROPY, 0) is None


def test_resumed_run_is_not_warned_again_before_1000_more_updates():
    """Stopped at 1,250, where its log has a line."""
    losses = [*lines(1200, 7.0), (1250, 7.0)]
    losses += [(step, 7.0) for step in range(1300, 2200, 100)]
    assert warned_at(losses) == [1000, 2000]


def test_run_that_continues_the_steps_of_another_is_warned_at_its_first_line():
    assert warned_at([(5100, 7.0), (5200, 7.0)]) == [5100]
