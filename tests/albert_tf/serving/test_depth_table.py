"""What is measured of each depth, and how it is written."""

import numpy as np
import pytest

from albert_tf.serving import depth_table


def test_a_watch_counts_texts_layers_and_the_fastest_of_three(monkeypatch):
    """Requests alone, and together; the first of each is not timed."""
    now, asked = [0.0], []
    monkeypatch.setattr(depth_table.time, "perf_counter", lambda: now[0])
    seconds = [9.0, 3.0, 2.0, 4.0, 9.0, 8.0, 8.0, 7.0]

    def ask(inputs):
        now[0] += seconds[len(asked)] if len(asked) < len(seconds) else 1.0
        asked.append(inputs["text"])
        return {"layers": np.array([2, 4, 6][: len(inputs["text"])])}

    watch = depth_table.Watch(ask)
    watch({"text": ["a", "b", "c"]})
    watch({"text": ["d"]})
    assert asked[:4] == [["a", "b", "c"]] * 4
    assert asked[4:8] == [["a"]] * 4
    point = watch.point("patience", 1, 0.5)
    assert point.layers == np.mean([2, 4, 6, 2])
    assert point.together == pytest.approx(1000 * (2 + 1) / 4)
    assert point.alone == pytest.approx(1000 * (7 + 1 + 1 + 1) / 4)


def test_a_model_that_says_no_layers_uses_its_depth():
    watch = depth_table.Watch(lambda inputs: {"label": inputs["text"]})
    watch({"text": ["a"]})
    assert watch.point("depth", 3, 0.5).layers == 3


def test_table_and_plot_are_written(tmp_path, capsys):
    points = [
        depth_table.Point("depth", 2, 2.0, 0.5, 1.25, 0.5),
        depth_table.Point("entropy", 0.3, 1.5, 0.75, 1.0, 0.25),
    ]
    depth_table.write(str(tmp_path), points, "accuracy")
    table = (tmp_path / "depths.md").read_text()
    assert "| depth 2 | 2.00 | 0.5000 | 1.25 | 0.50 |" in table
    assert "| entropy 0.3 | 1.50 | 0.7500 | 1.00 | 0.25 |" in table
    assert capsys.readouterr().out.strip() == table.strip()
    assert (tmp_path / "depths.png").read_bytes().startswith(b"\x89PNG")
