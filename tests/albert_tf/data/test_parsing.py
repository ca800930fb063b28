import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data import layouts, parsing, tfrecord
from albert_tf.tasks.squad import features as squad_features
from tests import record_files
from tests.albert_tf.data.small_records import LAYOUT, VALUES


def test_parse_restores_what_was_encoded_inside_a_dataset():
    serialized = [record_files.encode(LAYOUT, VALUES)] * 3
    dataset = tf.data.Dataset.from_tensor_slices(serialized).batch(3)
    dataset = dataset.map(lambda batch: parsing.parse(LAYOUT, batch))
    parsed = next(iter(dataset))
    assert parsed.keys() == VALUES.keys()
    for name, values in VALUES.items():
        assert parsed[name].numpy().tolist() == [values] * 3
        wanted = "float32" if name == "masked_lm_weights" else "int32"
        assert parsed[name].dtype.name == wanted


@pytest.mark.parametrize("highest", [1, 100, 300, 70_000, -5])
@pytest.mark.parametrize("shape", [(9,), (3, 9)])
def test_padding_is_left_out_of_records_and_restored(highest, shape):
    layout = tuple(
        layouts.Feature(name, shape, "int64", padding)
        for name, padding in (
            ("input_ids", 0),
            ("input_mask", 0),
            ("p_mask", 1),
        )
    )
    layout = (*layout, layouts.Feature("is_real_example", (), "int64"))
    mask = np.zeros([4, *shape], np.int64)
    for row, length in enumerate([5, 1, 9, 0]):
        mask[row, ..., :length] = 1
    if len(shape) > 1:
        mask[0, 1, 2:] = 0  # Shorter than the others of its record.
    values = {
        "input_ids": mask * highest,
        "input_mask": mask,
        "p_mask": 1 - mask,
        # The last has no token.
        "is_real_example": np.array([1, 1, 1, 0]),
    }
    messages = tfrecord.encode_batch(layout, values)
    sizes = [len(message) for message in messages]
    assert sizes[3] <= sizes[1] < sizes[0] < sizes[2]
    parsed = parsing.parse(layout, messages)
    np.testing.assert_equal(parsed, values)
    # A record that another program has padded is read, too.
    padded = tfrecord.encode_batch(layouts.with_padding(layout), values)
    parsed = parsing.parse(layout, padded)
    np.testing.assert_equal(parsed, values)


@pytest.mark.parametrize("written, read", [((9,), (8,)), ((2, 9), (2, 8))])
def test_longer_sequences_than_expected_are_refused(written, read):
    def layout(shape):
        return (layouts.Feature("input_mask", shape, "int64", 0),)

    values = {"input_mask": np.ones([2, *written], np.int64)}
    messages = tfrecord.encode_batch(layout(written), values)
    with pytest.raises(tf.errors.InvalidArgumentError):
        parsing.parse(layout(read), messages)
    missing = layouts.Feature("input_ids", written, "int64", 0)
    with pytest.raises(tf.errors.InvalidArgumentError):
        parsing.parse((*layout(written), missing), messages)


@pytest.mark.parametrize("lengths", [(5, 4), (4, 5)])
def test_sequences_of_different_lengths_are_refused(lengths):
    layout = layouts.passage_layout(10)
    values = {"tokens": [7] * lengths[0], "marks": [1] * lengths[1]}
    exact = tuple(
        layouts.Feature(name, (len(v),), "int64") for name, v in values.items()
    )
    exact = (*exact, layouts.Feature("document", (), "int64"))
    record = record_files.encode(exact, {**values, "document": 0})
    with pytest.raises(tf.errors.InvalidArgumentError):
        parsing.parse(layout, tf.constant([record]))
    assert "the same length" in (parsing.describe_fault(layout, record) or "")


def padded(count, *numbers):
    return [*numbers, *[0] * (count - len(numbers))]


MODEL_LAYOUT = layouts.for_model(LAYOUT, 13, 2)
WRONG = {
    "input_ids": [
        padded(8, 2, 13, 11, 3, 12, 3),
        padded(8, 2, -1, 11, 3, 12, 3),
        padded(8, 2, 2**32 + 7, 11, 3, 12, 3),
        padded(8, 2, 2**63 - 1, 11, 3, 12, 3),
    ],
    "input_mask": [
        padded(8, 1, 5, 1, 1, 1, 1),
        padded(8, 1, -1, 1, 1, 1, 1),
        padded(8, 1, 2**32 + 1, 1, 1, 1, 1),
        padded(8),
    ],
    "segment_ids": [padded(8, 0, 0, 2), padded(8, 0, -1)],
    "token_boundary": [padded(8, 2), padded(8, 1, 2**32)],
    "masked_lm_positions": [[8, 0], [-1, 0], [2**32 + 1, 0], [7, 0]],
    "masked_lm_ids": [[13, 0], [10, 13], [-1, 0], [2**40, 0]],
    "masked_lm_weights": [
        [-1.0, 0.0],
        [1e30, 0.0],
        [float("nan"), 0.0],
        [1.0, float("inf")],
    ],
    "next_sentence_labels": [[2], [-2], [2**32]],
}


@pytest.mark.parametrize(
    ("name", "values"), [(n, v) for n, many in WRONG.items() for v in many]
)
def test_numbers_that_no_model_can_use_are_refused_in_every_record(
    name, values
):
    good = record_files.encode(LAYOUT, VALUES)
    wrong = record_files.encode(LAYOUT, {**VALUES, name: values})
    parse = tf.function(lambda batch: parsing.parse(MODEL_LAYOUT, batch))
    assert parse([good] * 3)[name].shape[0] == 3
    with pytest.raises(tf.errors.InvalidArgumentError):
        parse([good, good, wrong])
    assert f"has {name} " in parsing.describe_fault(MODEL_LAYOUT, wrong)
    assert parsing.describe_fault(MODEL_LAYOUT, good) is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"masked_lm_positions": [1, 1]}, "twice among masked_lm_positions"),
        (
            {"masked_lm_positions": [1, 1], "masked_lm_weights": [0.5, 0.5]},
            "twice among masked_lm_positions",
        ),
        ({"masked_lm_positions": [5, 6]}, "positions where input_mask is 0"),
        ({"masked_lm_positions": [5, 2]}, None),  # In any order.
        ({"masked_lm_weights": [0.5, 0.0]}, None),
        ({"masked_lm_weights": [0.0, 0.0]}, None),  # Nothing is hidden.
        ({"next_sentence_labels": [-1]}, None),
        ({"input_ids": padded(8, 2, 12, 12, 12, 12, 3)}, None),
    ],
)
def test_numbers_of_a_record_go_together(changes, message):
    values = {**VALUES, "masked_lm_weights": [1.0, 1.0], **changes}
    found = parsing.describe_fault(
        MODEL_LAYOUT, record_files.encode(LAYOUT, values)
    )
    assert found is None if message is None else message in found


CLASSES = layouts.classification_layout(2, num_labels=3)
SQUAD = squad_features.squad_layout(2, is_training=True)


@pytest.mark.parametrize(
    ("layout", "name", "values"),
    [
        (CLASSES, "label_ids", 3),
        (CLASSES, "label_ids", -1),
        (
            layouts.classification_layout(2, regression=True),
            "label_ids",
            np.nan,
        ),
        (CLASSES, "is_real_example", 2),
        (CLASSES, "input_mask", [0, 0]),
        (SQUAD, "start_positions", 2),
        (SQUAD, "end_positions", -1),
        (SQUAD, "is_impossible", 5),
        (SQUAD, "p_mask", [0, 2]),
        (SQUAD, "unique_ids", 2**31),
    ],
)
def test_numbers_of_tasks_are_checked(layout, name, values):
    good = {f.name: np.ones(f.shape, int) for f in layout}
    assert (
        parsing.describe_fault(layout, record_files.encode(layout, good))
        is None
    )
    wrong = record_files.encode(layout, {**good, name: values})
    assert f"has {name} " in parsing.describe_fault(layout, wrong)
    if name == "input_mask":  # The original fills its last batch with these.
        filling = {**good, name: values, "is_real_example": 0}
        record = record_files.encode(layout, filling)
        assert parsing.describe_fault(layout, record) is None


@pytest.mark.parametrize(
    ("layout", "left_out", "message"),
    [
        (LAYOUT, "token_boundary", None),
        (layouts.without_masks(LAYOUT), "token_boundary", "token_boundary"),
        (LAYOUT, "masked_lm_weights", "masked_lm_weights"),
        (LAYOUT, "input_ids segment_ids", "input_ids, segment_ids"),
        (LAYOUT, "token_boundary input_mask", "input_mask"),
    ],
)
def test_a_missing_feature_is_filled_or_named(layout, left_out, message):
    """Word starts are zeros where masks are stored; others are needed."""
    written = [f for f in LAYOUT if f.name not in left_out.split()]
    values = {f.name: VALUES[f.name] for f in written}
    record = record_files.encode(written, values)
    if message:
        with pytest.raises(tf.errors.InvalidArgumentError):
            parsing.parse(layout, tf.constant([record]))
        assert parsing.describe_fault(layout, record) == f"lacks {message}"
        return
    assert parsing.describe_fault(layout, record) is None
    found = parsing.parse(layout, tf.constant([record]))
    assert found[left_out].numpy().tolist() == [[0] * 8]
    for name, value in values.items():
        assert found[name].numpy().tolist() == [value]


def test_what_is_no_record_has_another_layout():
    found = parsing.describe_fault(LAYOUT, b"no example")
    assert found.startswith("has another layout. Each record must hold 8 input")
