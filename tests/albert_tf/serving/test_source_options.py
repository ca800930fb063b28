"""Options of what is exported: which go together, and which were given."""

import pytest

from albert_tf.common import errors, options
from albert_tf.serving import source_options


@pytest.mark.parametrize(
    "values, message",
    [
        ({}, "`run_dir` and `init_checkpoint`: exactly one"),
        ({"run_dir": "r", "init_checkpoint": "c"}, "exactly one of the two"),
        ({"init_checkpoint": "c"}, "`init_checkpoint=c` needs `task`: .* race"),
        ({"run_dir": "r", "task": "race"}, "`task=race` is given with `run_di"),
        (
            {"run_dir": "r", "pairs": True},
            "is only used with `task=classifier or regression`",
        ),
        (
            {"init_checkpoint": "c", "task": "squad", "labels": "a,b"},
            "`labels=a,b` is only used with `task=classifier`",
        ),
        (
            {"run_dir": "r", "albert_config_file": "a"},
            "`albert_config_file=a` is only used with `init_checkpoint`",
        ),
        (
            {"init_checkpoint": "c", "task": "encoder", "task_module": "m"},
            "`task_module=m` is only used with `run_dir`",
        ),
        ({"run_dir": "r", "task": "poem"}, "task=poem"),
        ({"run_dir": "r", "num_options": 27}, "`num_options=27` is above 26"),
    ],
)
def test_options_that_do_not_go_together(values, message):
    with pytest.raises(errors.UserError, match=message):
        options.from_dict(source_options.SourceOptions, values)


def test_only_given_options_count():
    """Also one that is false."""
    settings = options.from_dict(
        source_options.SourceOptions,
        {
            "init_checkpoint": "c",
            "task": "classifier",
            "doc_stride": 8,
            "pairs": False,
        },
    )
    given = settings.given
    assert given.items() >= {"task": "classifier", "doc_stride": 8}.items()
    assert given["pairs"] is False
    assert not {"run_dir", "num_labels", "n_best_size"} & given.keys()
