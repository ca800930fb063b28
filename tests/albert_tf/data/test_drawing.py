"""What training draws from records without masks."""

import numpy as np

from albert_tf.data import drawing, masking

MASKS = drawing.Masks(
    masking.Masker(
        masking.MaskingOptions(max_predictions_per_seq=3, masked_lm_prob=0.4),
        masking.Vocabulary(60, 2, 3, 4, np.zeros(0, np.uint8)),
    ),
    max_seq_length=8,
)


def test_masks_are_those_of_the_records_word_starts():
    records = {
        "input_ids": np.array([[2, 5, 6, 7, 8, 3, 0, 0], [0] * 8]),
        "input_mask": np.array([[1] * 6 + [0] * 2, [0] * 8]),
        "token_boundary": np.array([[1, 1, 0, 1, 0, 1, 0, 0], [0] * 8]),
    }
    found = MASKS.draw(records, np.arange(2, dtype=np.uint64))
    shapes = {f.name: (2, *f.shape) for f in MASKS.makes}
    assert {name: value.shape for name, value in found.items()} == shapes
    # A word has two pieces, and both of them are hidden.
    assert found["masked_lm_weights"].tolist() == [[1, 1, 0], [0, 0, 0]]
    places = found["masked_lm_positions"][0, :2].tolist()
    assert places in ([1, 2], [3, 4])
    assert found["masked_lm_ids"][0, :2].tolist() == [p + 4 for p in places]
    assert not found["input_ids"][1].any()
