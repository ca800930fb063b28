"""The garbage collector during imports."""

import gc

import pytest

from albert_tf.common import imports


@pytest.fixture(autouse=True)
def as_before():
    """Leave nothing frozen behind."""
    yield
    gc.enable()
    gc.unfreeze()


def test_collector_is_paused_inside_only():
    with imports.uncollected():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_collector_runs_again_after_an_import_that_fails():
    with pytest.raises(ModuleNotFoundError), imports.uncollected():
        import no_such_package  # noqa: F401
    assert gc.isenabled()


def test_what_was_imported_is_not_collected_later():
    before = gc.get_freeze_count()
    with imports.uncollected():
        kept = [[] for _ in range(10)]
    assert gc.get_freeze_count() >= before + len(kept)


def test_end_without_begin_changes_nothing():
    before = gc.get_freeze_count()
    imports.end()
    assert gc.isenabled()
    assert gc.get_freeze_count() == before
