"""What happened to examples, logged at once or collected."""

import pytest

from albert_tf.finetuning import base


class Plain(base.Task):
    """A task without anything of its own."""


Plain.__abstractmethods__ = frozenset()


@pytest.mark.parametrize("collected", [False, True])
def test_remarks_are_logged_at_once_or_collected(caplog, collected):
    task = Plain(None, 9)
    task.remarks = {} if collected else None
    for names in (["a", "b", "c"], [], list("defg")):
        task.remark("texts are cut.", names)
    if collected:
        assert not caplog.records
        assert task.remarks == {"texts are cut.": list("abcdefg")}
        return
    assert caplog.messages == [
        "3 texts are cut. (a, b, c)",
        "4 texts are cut. (d, e, f, ...)",
    ]
