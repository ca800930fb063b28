"""Imports that wait, and the garbage collector during them."""

import gc
import importlib
import sys

import pytest

from albert_tf.common import imports
from tests.conftest import TwoDevices


@pytest.fixture(autouse=True)
def as_before():
    """Leave nothing frozen behind."""
    yield
    gc.enable()
    gc.unfreeze()


def test_collector_is_paused_inside_only():
    with imports.paused_collector():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_collector_runs_again_after_an_import_that_fails():
    with pytest.raises(ModuleNotFoundError):
        imports.later("no_such_package").name  # noqa: B018
    assert gc.isenabled()


def test_what_was_imported_is_not_collected_later():
    before = gc.get_freeze_count()
    with imports.paused_collector():
        kept = [[] for _ in range(10)]
    assert gc.get_freeze_count() >= before + len(kept)


def test_in_commands_keras_sees_neither_pandas_nor_scipy(tmp_path, monkeypatch):
    """Afterwards others do, and what was imported before stays."""
    finders = [f for f in sys.meta_path if not isinstance(f, TwoDevices)]
    monkeypatch.setattr(sys, "meta_path", finders)
    for name in ("tensorflow", "pandas"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "scipy", gc)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "pandas.py").touch()
    lines = "import scipy", "try:", " import pandas", "except ImportError:"
    (tmp_path / "tensorflow.py").write_text(
        "\n".join([*lines, " is_alone = 1"])
    )
    imports.import_tensorflow_alone()
    tensorflow = importlib.import_module("tensorflow")
    assert tensorflow.is_alone and tensorflow.scipy is gc
    assert importlib.import_module("pandas").__file__ == f"{tmp_path}/pandas.py"
    monkeypatch.delitem(sys.modules, "pandas")


def test_a_module_is_imported_when_it_is_used(tmp_path, monkeypatch):
    """The first time without collections; TensorFlow is not there yet."""
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    lines = "import gc\n\nwas_enabled = gc.isenabled()\n"
    (tmp_path / "used_late.py").write_text(lines)
    module = imports.later("used_late")
    assert "used_late" not in sys.modules
    assert module.was_enabled is False and gc.isenabled()
    before = gc.get_freeze_count()
    assert module.gc is gc and gc.get_freeze_count() == before
    del sys.modules["used_late"]
