"""Imports that wait, and the garbage collector during them."""

import gc
import sys

import pytest

from albert_tf.common import imports


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
