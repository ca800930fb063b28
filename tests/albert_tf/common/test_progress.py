import io
import sys

from absl import logging

from albert_tf.common import progress


class Clock:
    """Stands for the module `time`; seconds are set by the test."""

    now = 1000.0

    def monotonic(self):
        return self.now


def logged(monkeypatch, what, total, unit, *updates):
    """Return the lines of updates, each (seconds since the start, done)."""
    clock, lines = Clock(), []
    monkeypatch.setattr(progress, "time", clock)
    monkeypatch.setattr(sys, "stderr", io.StringIO())  # No terminal.
    monkeypatch.setattr(logging, "info", lambda text, line: lines.append(line))
    with progress.Progress(what, total, unit) as shown:
        for seconds, done in updates:
            clock.now = 1000.0 + seconds
            shown.update(done)
    return lines


def test_a_line_every_half_a_minute(monkeypatch):
    lines = logged(
        monkeypatch, "pairing", 80, "units", (0, 0), (29, 5), (30, 15), (59, 30)
    )
    assert lines == ["pairing: 15 units of 80, 0.5 units/s, about 130 s left"]


def test_what_an_earlier_run_has_done_counts_in_no_rate(monkeypatch):
    lines = logged(monkeypatch, "writing", 80, "rows", (0, 40), (40, 60))
    assert lines == ["writing: 60 rows of 80, 0.5 rows/s, about 40 s left"]
    # But work that is done at the first look was done now.
    lines = logged(monkeypatch, "writing", 80, "rows", (40, 80))
    assert lines == ["writing: 80 rows of 80, 2.0 rows/s, about 0 s left"]


def test_bytes_are_shown_as_megabytes_and_a_total_may_be_missing(monkeypatch):
    lines = logged(monkeypatch, "tokenizing", None, "B", (0, 0), (50, 10**8))
    assert lines == ["tokenizing: 100 MB, 2.0 MB/s"]


def test_a_terminal_shows_a_bar(monkeypatch):
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress.Progress("pairing", 80, "units") as shown:
        shown.update(20)
        shown.update(80)
    assert "pairing: 100%" in terminal.getvalue()
    assert "80.0/80.0" in terminal.getvalue()
