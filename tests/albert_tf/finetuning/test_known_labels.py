"""Which labels a run has."""

import pytest

from albert_tf.common import errors
from albert_tf.finetuning import known_labels, tables
from tests.albert_tf.finetuning import small_runs
from tests.conftest import changed

NAMES = known_labels.Names(
    "labels", lambda text: tables.TableOptions(labels=text).names, "output_bias"
)


def test_those_of_the_file_or_of_the_model(world, tmp_path, monkeypatch):
    settings = small_runs.shared(world, tmp_path / "run")
    assert NAMES.choose(settings, "t.csv", lambda path: [path]) == ["t.csv"]
    with pytest.raises(errors.UserError, match="labels are not known"):
        NAMES.choose(settings, None, list)

    monkeypatch.setattr(
        known_labels.Names, "of_model", lambda self, model: ("b", "a")
    )
    assert NAMES.choose(settings, None, list) == ("b", "a")
    settings = changed(settings, init_checkpoint="old")
    assert NAMES.choose(settings, "t.csv", lambda path: "ab") == ("b", "a")
    with pytest.raises(errors.UserError, match="`init_checkpoint=old` holds"):
        NAMES.choose(settings, "t.csv", lambda path: "abc")
    settings = changed(settings, new_head=True)
    assert NAMES.choose(settings, "t.csv", lambda path: "abc") == "abc"
