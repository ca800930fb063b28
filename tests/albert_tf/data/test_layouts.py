from albert_tf.data import layouts
from albert_tf.tasks.embedding import task as embedding
from albert_tf.tasks.squad import features as squad_features
from albert_tf.tasks.tagging import task as tagging


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
    layout = squad_features.squad_layout(9, is_training=False)
    assert described(layout) == questions
    assert described(squad_features.squad_layout(9, is_training=True)) == {
        **questions,
        "start_positions": number,
        "end_positions": number,
        "is_impossible": number,
    }
    padded = described(layouts.with_padding(layout))
    assert padded == {n: (*v[:2], None) for n, v in questions.items()}


def test_numbers_have_shapes_and_ranges():
    record, most = layouts.pretraining_layout(8, 2), 2**31 - 1
    answers = squad_features.squad_layout(9, is_training=True)
    classes = layouts.classification_layout(9, num_labels=3)
    passages, options = layouts.passage_layout(9), layouts.choice_layout(9, 4)
    scored = embedding.texts_layout(9, 2, has_score=True)
    known = layouts.for_model(record, 13, 3)
    masks = {feature.name for feature in layouts.mask_layout(8, 2)}
    plain = {feature.name for feature in layouts.without_masks(record)}
    assert masks - plain == {f.name for f in record if "masked_lm" in f.name}
    assert masks & plain == {"input_ids"}
    for layout, name, *wanted in (
        (record, "token_boundary", (8,), None, 0, 1),
        (record, "masked_lm_positions", (2,), None, 0, 7),
        (record, "masked_lm_weights", (2,), None, 0, 100),
        (record, "next_sentence_labels", (1,), None, -1, 1),
        (passages, "tokens", (7,), 0, -most - 1, most),
        (passages, "marks", (7,), 0, 0, 255),
        (passages, "document", (), None, 0, most),
        (options, "input_mask", (4, 9), 0, 0, 1),
        (options, "label_ids", (), None, 0, 3),
        (embedding.texts_layout(9), "input_ids", (9,), 0, -most - 1, most),
        (scored, "input_ids", (2, 9), 0, -most - 1, most),
        (scored, "label_ids", (), None, -most - 1, most),
        (tagging.tagging_layout(9, 3), "label_ids", (9,), 0, 0, 3),
        (answers, "p_mask", (9,), 1, 0, 1),
        (answers, "end_positions", (), None, 0, 8),
        (classes, "label_ids", (), None, 0, 2),
        (layouts.with_labels(classes, 4), "label_ids", (4,), None, 0, 1),
        (known, "input_ids", (8,), None, 0, 12),
        (known, "masked_lm_ids", (2,), None, 0, 12),
        (known, "segment_ids", (8,), None, 0, 2),
    ):
        (found,) = (f for f in layout if f.name == name)
        assert [found.shape, found.padding, found.low, found.high] == wanted
