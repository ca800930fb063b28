"""Options of what is exported: which go together, and which were given."""

from albert_tf.common import options
from albert_tf.serving import source_options


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
