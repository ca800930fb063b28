"""Two recipes side by side."""

import json

import pytest

from albert_tf.common import errors
from lab.measure import compare, report


def parts(bits, right, scores, **settings):
    """The parts of one model."""
    return {
        "held_out": {
            "settings": {"weights": str(bits), "windows": 9, **settings},
            "results": {
                "bits_per_byte": bits,
                "word_accuracy": 0.25,
                "piece_accuracy": 0.5,
            },
        },
        "minimal_pairs": {
            "settings": {"pairs": "x"},
            "results": {"paradigms": {"one": right, "two": right + 10}},
        },
        "finetuning": {
            "settings": {"seeds": 2, "learning_rate": bits},
            "results": {
                "tasks": {
                    "rte": {"pretrained": {"1": scores[0], "2": scores[1]}}
                }
            },
        },
    }


def test_table_by_hand():
    rows = compare.compare(
        [parts(2.0, 50.0, (60.0, 61.0)), parts(2.5, 52.0, (60.0, 60.0))],
        [parts(1.5, 55.0, (62.0, 64.0)), parts(1.75, 59.0, (61.0, 60.0))],
    )
    assert rows == [
        ["bits per byte", "-0.62 (-0.75 to -0.50)", "2"],
        ["hidden words right, %", "+0.00 (+0.00 to +0.00)", "2"],
        ["hidden pieces right, %", "+0.00 (+0.00 to +0.00)", "2"],
        ["minimal pairs, %", "+6.00 (+6.00 to +6.00)", "2"],
        ["rte", rows[4][1], "4"],
        ["mean of the tasks", rows[4][1], "4"],
    ]
    assert rows[4][1].startswith("+1.50 (+0.")


def test_parts_that_are_missing_are_left_out():
    one, other = parts(2.0, 50.0, (1.0, 2.0)), parts(1.0, 50.0, (1.0, 2.0))
    del one["finetuning"], other["minimal_pairs"]
    rows = compare.compare([one], [other])
    assert [row[0] for row in rows][0] == "bits per byte"
    assert rows[0] == ["bits per byte", "-1.00", "1"]
    assert len(rows) == 3
    with pytest.raises(errors.UserError, match="no part in common"):
        compare.compare([one], [{"cost": one["held_out"]}])


def test_other_settings_are_refused():
    one, other = (
        parts(2.0, 50.0, (1.0, 2.0), windows=count) for count in (9, 8)
    )
    message = "part held_out with different settings: windows. "
    with pytest.raises(errors.UserError, match=message):
        compare.compare([one], [other])


def test_command_reads_folders(tmp_path, capsys):
    for name, bits in (("a", 2.0), ("b", 1.0)):
        (tmp_path / name).mkdir()
        content = {"held_out": parts(bits, 50.0, (1.0, 2.0))["held_out"]}
        text = json.dumps({"parts": content})
        (tmp_path / name / report.FILE_NAME).write_text(text)
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    compare.run(compare.CompareOptions(first=a, second=b))
    assert "| bits per byte | -1.00 | 1 |" in capsys.readouterr().out
    with pytest.raises(errors.UserError, match="another number of folders"):
        compare.CompareOptions(a, f"{a},{b}")
