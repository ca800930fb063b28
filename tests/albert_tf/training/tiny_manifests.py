"""A manifest of made-up records, for several test files."""

from albert_tf.data import manifests


def make(**changes):
    values = {
        "shards": ("a.tfrecord", "b.tfrecord"),
        "shard_bytes": (1, 1),
        "num_examples": 2,
        "max_seq_length": 128,
        "max_predictions_per_seq": 20,
        "vocab_size": 400,
        "vocab_sha256": "",
        "random_seed": 1,
        "options": {"masked_lm_prob": 0.15},
        "versions": {},
    }
    return manifests.Manifest(**{**values, **changes})
