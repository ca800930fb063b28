"""How far layers move their input."""

import dataclasses
import json

import numpy as np
import pytest

from lab.tables import layers
from tests.conftest import LAYER_ATOL, refused


def test_distance_and_angle_of_known_vectors():
    states = [[[3, 0], [0, 1]], [[0, 3], [0, 2]], [[0, -3], [2, 2]]]
    found = layers.movements([np.array(x, np.float32) for x in states])
    np.testing.assert_allclose(
        found["l2"], [(18**0.5 + 1) / 2, (6 + 2) / 2], atol=LAYER_ATOL
    )
    np.testing.assert_allclose(found["degrees"], [45, 112.5], atol=1e-4)


def test_models_are_measured_and_drawn(tmp_path, model_dir):
    (tmp_path / "text.txt").write_text("Mara gave Ivo the lamp. " * 40)
    settings = layers.LayersOptions(
        runs=f"one={model_dir},two={model_dir}",
        text_file=str(tmp_path / "text.txt"),
        output_dir=str(tmp_path / "out"),
    )
    layers.run(settings)
    found = json.loads((tmp_path / "out/layers.json").read_text())
    assert found["one"] == found["two"]
    (length,), (angle,) = found["one"].values()  # Of its only layer.
    assert length > 0 and 0 < angle < 180
    picture = (tmp_path / "out/layers.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    with refused("layers.json exists"):
        layers.run(settings)
    layers.run(dataclasses.replace(settings, overwrite=True))


@pytest.mark.parametrize("runs", ["folder", "one=a,one=b", "one="])
def test_runs_need_names(tmp_path, runs):
    (tmp_path / "text.txt").write_text("Mara")
    settings = layers.LayersOptions(
        runs=runs, text_file=str(tmp_path / "text.txt"), output_dir="out"
    )
    with refused(f"runs={runs}.*NAME=FOLDER"):
        layers.run(settings)
