"""Configs and recipes by name."""

import os

import pytest

from albert_tf.common import configs
from albert_tf.model.checkpoints import checkpoint_files
from tests.conftest import ROOT, refused

OURS = str(ROOT / "configs")
WEIGHTS = f"{OURS}/checkpoints"


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("albert_base_v2", f"{OURS}/models/albert_base_v2.json"),
        ("configs/glue/rte.flags", f"{OURS}/glue/rte.flags"),
        ("configs/glue/none.flags", "configs/glue/none.flags"),
        ("glue/rte.flags", "glue/rte.flags"),
        ("albert", "albert"),
        ("albert_small_en", f"{WEIGHTS}/albert_small_en/albert_config.json"),
        (f"{WEIGHTS}/albert_small_en", f"{WEIGHTS}/albert_small_en"),
        ("", ""),
    ],
)
def test_find_knows_what_comes_with_the_package(
    path, found, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert configs.find(path) == found


@pytest.mark.parametrize("path", ["albert_bas_v2", "albert_base_v2.json"])
def test_a_name_that_is_almost_known_is_proposed(path):
    with refused("Did you mean albert_base_v2[?]"):
        configs.find_model(path)


def test_other_paths_are_left_as_they_are(tmp_path, monkeypatch):
    assert configs.find_model("my/config.json") == "my/config.json"
    known = configs.find_model("albert_base_v2")
    assert known == f"{OURS}/models/albert_base_v2.json"
    for path in ("", "albert_base_v2", "./albert_small_en", "models"):
        assert configs.find_checkpoint(path) == path
    names = configs.checkpoint_names()
    assert names
    for name in names:
        assert configs.find_checkpoint(name) == f"{WEIGHTS}/{name}"
    monkeypatch.chdir(tmp_path)
    for path in ("albert_base_v2", *names):
        (tmp_path / path).touch()
        assert configs.find(path) == configs.find_checkpoint(path) == path


def test_weights_may_be_in_a_folder_of_the_name_of_a_config(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "albert_base_v2").mkdir()
    found = configs.find_model("albert_base_v2")
    assert found == f"{OURS}/models/albert_base_v2.json"
    assert configs.find_checkpoint("albert_base_v2") == "albert_base_v2"


def test_names_are_those_of_the_files():
    assert [f"{name}.json" for name in configs.model_names()] == sorted(
        os.listdir(f"{OURS}/models")
    )


@pytest.mark.parametrize("name", configs.ONLY_IN_CLONES)
def test_a_name_that_packages_lack_is_explained(name, tmp_path, monkeypatch):
    assert name in configs.checkpoint_names()
    monkeypatch.setattr(configs, "_FOLDERS", (tmp_path,))
    assert "is in clones of the project" in configs.note(name)
    with refused(f"init_checkpoint={name}.* is in clones of the project"):
        checkpoint_files.find(name)
