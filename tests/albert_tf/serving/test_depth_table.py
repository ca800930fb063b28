"""What is measured of each depth, and how it is written."""

import numpy as np

from albert_tf.serving import depth_table


def test_models_take_turns_and_the_fastest_of_three_counts(monkeypatch):
    """Requests of one text, and as they are."""
    now, asked = [0.0], []
    monkeypatch.setattr(depth_table.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(depth_table, "_ALONE", 1)
    requests = [{"text": ["a", "b", "c"]}, {"text": ["d"]}]

    def model_of(name, layers=None):
        def ask(inputs):
            asked.append((name, *inputs["text"]))
            # Each is slower than before, so the first counts.
            now[0] += asked.count(asked[-1]) * (2.0 if name == "x" else 1.0)
            count = len(inputs["text"])
            return {"layers": np.array(layers[:count])} if layers else {}

        model = depth_table.RecordedModel(ask)
        for request in requests:
            model(request)
        return model

    models = [model_of("x"), model_of("y", [2, 4, 6])]
    asked.clear()
    named = [("depth", 3, 0.5), ("patience", 1, 0.75)]
    one, other = depth_table.measure(models, named)
    assert asked[:6] == [("x", "a"), ("y", "a")] * 3
    assert one == ("depth", 3, 3.0, 0.5, 2000.0, 1000.0)
    assert other == ("patience", 1, 3.5, 0.75, 1000.0, 500.0)


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
