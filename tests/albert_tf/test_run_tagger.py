"""Which tags a run may have; what it learns: tasks/contract_suite.py."""

import pytest

from albert_tf import run_tagger
from albert_tf.finetuning import fact_sources
from albert_tf.tasks.tagging import task as tagging
from tests.albert_tf.finetuning import small_runs, tagged
from tests.conftest import changed, refused


@pytest.mark.parametrize(
    ("of_head", "changes", "message"),
    [
        (("B", "A"), {"tags": "A\tB"}, "tags B, A, .* order A, B"),
        (("B", "A"), {}, "of other tags .*`new_head`"),
        ((), {"train_file": None, "do_train": False}, "tags are not known"),
    ],
)
def test_tags_of_another_head_are_refused(
    world, tmp_path, monkeypatch, of_head, changes, message
):
    facts = {"labels": of_head}
    monkeypatch.setattr(
        fact_sources.RunSource, "head_facts", lambda self: facts
    )
    path = tagged.write(tmp_path / "tags.txt")
    settings = run_tagger.RunTaggerOptions(
        finetuning=small_runs.shared(world, tmp_path / "run"),
        **dict.fromkeys(("train_file", "dev_file", "test_file"), path),
    )
    with refused(message):
        run_tagger.run(changed(settings, init_checkpoint="hub", **changes))


def test_tags_are_separated_by_tabs():
    assert tagging.TaggingOptions("O\t,\tB-a b").labels == ("O", ",", "B-a b")
