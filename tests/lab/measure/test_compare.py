"""Two recipes side by side."""

import json

from lab.measure import compare, report
from tests.conftest import refused


def parts(bits, right, scores, windows=9):
    """The parts of one model."""
    held_out = {
        "bits_per_byte": bits,
        "word_accuracy": 0.25,
        "piece_accuracy": bits / 4,
    }
    tasks = {"rte": {"pretrained": {"1": scores[0], "2": scores[1]}}}
    return {
        "held_out": {
            "settings": {"weights": str(bits), "windows": windows},
            "results": held_out,
        },
        "minimal_pairs": {
            "settings": {"pairs": "x"},
            "results": {"paradigms": {"one": right, "two": 2 * right}},
        },
        "finetuning": {
            "settings": {"seeds": 2, "learning_rate": bits, "starts": [bits]},
            "results": {"tasks": tasks},
        },
    }


def test_table_by_hand():
    rows = compare.compare(
        [parts(2.0, 20.0, (60.0, 61.0)), parts(2.5, 22.0, (60.0, 60.0))],
        [parts(1.5, 25.0, (62.0, 64.0)), parts(1.75, 29.0, (61.0, 60.0))],
    )
    assert rows == [
        ["bits per byte", "-0.62 (-0.75 to -0.50)", "2"],
        ["hidden words right, %", "+0.00 (+0.00 to +0.00)", "2"],
        ["hidden pieces right, %", "-15.62 (-18.75 to -12.50)", "2"],
        ["minimal pairs, %", "+9.00 (+6.00 to +12.00)", "2"],
        ["rte", rows[4][1], "4"],
        ["mean of the tasks", rows[4][1], "4"],
    ]
    assert rows[4][1].startswith("+1.50 (+0.")


def test_parts_that_are_missing_are_left_out_and_others_refused():
    one, other = parts(2.0, 50.0, (1.0, 2.0)), parts(1.0, 50.0, (1.0, 2.0))
    del one["finetuning"], other["minimal_pairs"]
    rows = compare.compare([one], [other])
    assert rows[0] == ["bits per byte", "-1.00", "1"]
    assert len(rows) == 3
    with refused("no part in common"):
        compare.compare([one], [{"cost": one["held_out"]}])
    changed = parts(2.0, 50.0, (1.0, 2.0), windows=8)
    with refused("part held_out with different settings: windows. "):
        compare.compare([one], [changed])


def test_as_many_folders_with_measures_are_needed(tmp_path, capsys):
    content = json.dumps({"parts": parts(2.0, 50.0, (1.0, 2.0))})
    for name in "abc":
        (tmp_path / name).mkdir()
        (tmp_path / name / report.FILE_NAME).write_text(content)
    a, b, c = (str(tmp_path / name) for name in "abc")
    compare.run(compare.CompareOptions(first=f"{a},{b}", second=f"{b},{c}"))
    assert "| hidden words right, % |" in capsys.readouterr().out
    for first, second, message in (
        (f"{a},{b}", c, "are 2 folders and `second` 1, .*no measure: none"),
        (a, f"{c}x", f"no measure: {c}x. Give"),
    ):
        with refused(message):
            compare.run(compare.CompareOptions(first=first, second=second))
