"""A pretraining record that is well-formed, and changes to it."""

import numpy as np

from albert_tf.data import layouts

# [CLS] 11 [MASK] 13 [SEP] 21 22 23 [SEP]: 12 became [MASK], 13 is kept, 20
# became 22; 23 continues the word of 22.
VALUES = {
    "input_ids": [2, 11, 4, 13, 3, 21, 22, 23, 3, 0],
    "input_mask": [1] * 9 + [0],
    "segment_ids": [0] * 5 + [1] * 4 + [0],
    "token_boundary": [1, 1, 1, 1, 1, 1, 1, 0, 1, 0],
    "masked_lm_positions": [2, 3, 6, 0],
    "masked_lm_ids": [12, 13, 20, 0],
    "masked_lm_weights": [1.0, 1.0, 1.0, 0.0],
    "next_sentence_labels": [1],
}
LAYOUT = layouts.pretraining_layout(10, 4)


def features(*changes):
    """One record for each dictionary of changes to `VALUES`."""
    rows = [{**VALUES, **change} for change in changes]
    return {name: np.array([row[name] for row in rows]) for name in VALUES}


def changed_at(name, place, value):
    values = list(VALUES[name])
    values[place] = value
    return {name: values}
