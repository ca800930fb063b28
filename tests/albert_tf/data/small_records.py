"""A pretraining record of eight tokens, and a manifest for it."""

from albert_tf.data import layouts, manifests

LAYOUT = layouts.pretraining_layout(8, 2)
VALUES = {
    "input_ids": [2, 4, 11, 3, 12, 3, 0, 0],
    "input_mask": [1, 1, 1, 1, 1, 1, 0, 0],
    "segment_ids": [0, 0, 0, 0, 1, 1, 0, 0],
    "token_boundary": [1, 1, 0, 1, 1, 1, 0, 0],
    "masked_lm_positions": [1, 0],
    "masked_lm_ids": [10, 0],
    "masked_lm_weights": [1.0, 0.0],
    "next_sentence_labels": [1],
}
MANIFEST = manifests.Manifest(
    shards=("a.tfrecord",),
    shard_bytes=(0,),
    num_examples=1,
    max_seq_length=8,
    max_predictions_per_seq=2,
    vocab_size=20,
    vocab_sha256="c0ffee",
    random_seed=1,
    options={"ngram": 3},
    versions={"python": "3.11"},
)
