from albert_tf.data import layouts


def test_pretraining_layout_has_the_names_and_types_of_the_original():
    whole = layouts.pretraining_layout(8, 2)
    tokens, predictions = ((8,), "int64", None), ((2,), "int64", None)
    plain = {
        "input_ids": tokens,
        "input_mask": tokens,
        "segment_ids": tokens,
        "token_boundary": tokens,
        "next_sentence_labels": ((1,), "int64", None),
    }
    assert described(layouts.without_masks(whole)) == plain
    assert described(whole) == {
        **plain,
        "masked_lm_positions": predictions,
        "masked_lm_ids": predictions,
        "masked_lm_weights": ((2,), "float32", None),
    }


def described(layout):
    return {f.name: (f.shape, f.dtype, f.padding) for f in layout}


SEQUENCES = {
    "input_ids": ((9,), "int64", 0),
    "input_mask": ((9,), "int64", 0),
    "segment_ids": ((9,), "int64", 0),
}


def test_layouts_of_tasks_leave_out_padding():
    number = (), "int64", None
    for regression, dtype in ((False, "int64"), (True, "float32")):
        layout = layouts.classification_layout(9, regression=regression)
        assert described(layout) == {
            **SEQUENCES,
            "label_ids": ((), dtype, None),
            "is_real_example": number,
        }
    questions = {
        "unique_ids": number,
        **SEQUENCES,
        "p_mask": ((9,), "int64", 1),
    }
    layout = layouts.squad_layout(9, is_training=False)
    assert described(layout) == questions
    assert described(layouts.squad_layout(9, is_training=True)) == {
        **questions,
        "start_positions": number,
        "end_positions": number,
        "is_impossible": number,
    }
    padded = described(layouts.with_padding(layout))
    assert padded == {n: (*v[:2], None) for n, v in questions.items()}
