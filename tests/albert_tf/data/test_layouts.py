from albert_tf.data import layouts


def test_pretraining_layout_has_the_names_and_types_of_the_original():
    features = layouts.pretraining_layout(8, 2)
    layout = {f.name: (f.shape, f.dtype) for f in features}
    assert layout == {
        "input_ids": ((8,), "int64"),
        "input_mask": ((8,), "int64"),
        "segment_ids": ((8,), "int64"),
        "token_boundary": ((8,), "int64"),
        "masked_lm_positions": ((2,), "int64"),
        "masked_lm_ids": ((2,), "int64"),
        "masked_lm_weights": ((2,), "float32"),
        "next_sentence_labels": ((1,), "int64"),
    }
