"""Windows of held-out text; the loss is in test_scoring.py."""

import pytest

from lab.measure import held_out


def test_windows_stay_within_documents():
    found = list(held_out.cut("A b.\nC d e.\n \nF.\n\nG h i j", 2))
    assert found == [("A", "b."), ("C", "d"), ("G", "h"), ("i", "j")]


TEXT = "\n\n".join(
    " ".join(f"w{document}_{n}" for n in range(70)) for document in range(400)
)


def test_draws_repeat_and_hide_fifteen_percent():
    windows = held_out.draw(TEXT, 32, 500, 7)
    assert len(windows) == 500  # Of 800.
    assert windows == held_out.draw(TEXT, 32, 500, 7)
    assert windows != held_out.draw(TEXT, 32, 500, 8)
    assert len({window.words for window in windows}) == 500
    hidden = [len(window.hidden) for window in windows]
    assert set(hidden) == {4, 5}
    assert sum(hidden) / (32 * 500) == pytest.approx(0.15, abs=0.002)
    for window in windows:
        assert len(window.words) == 32
        assert list(window.hidden) == sorted(set(window.hidden))
        assert 0 <= window.hidden[0] and window.hidden[-1] < 32


def test_short_windows_hide_one_word():
    (window,) = held_out.draw("a b", 2, 10, 7)
    assert len(window.hidden) == 1


def test_code_length_by_hand():
    assert held_out.code_length([1, 1, 1, 2]) == pytest.approx(3.2451, abs=1e-4)
    assert held_out.code_length([3, 3]) == 0
