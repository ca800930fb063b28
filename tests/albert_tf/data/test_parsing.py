import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data import layouts, parsing, tfrecord
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
    mask = np.zeros([4, *shape], np.int64)
    for row, length in enumerate([5, 1, 9, 0]):
        mask[row, ..., :length] = 1
    if len(shape) > 1:
        mask[0, 1, 2:] = 0  # Shorter than the others of its record.
    values = {
        "input_ids": mask * highest,
        "input_mask": mask,
        "p_mask": 1 - mask,
    }
    messages = tfrecord.encode_batch(layout, values)
    sizes = [len(message) for message in messages]
    assert sizes[3] <= sizes[1] < sizes[0] < sizes[2]
    parsed = parsing.parse(layout, messages)
    for name, expected in values.items():
        np.testing.assert_array_equal(parsed[name], expected)
    # A record that another program has padded is read, too.
    padded = tfrecord.encode_batch(layouts.with_padding(layout), values)
    parsed = parsing.parse(layout, padded)
    for name, expected in values.items():
        np.testing.assert_array_equal(parsed[name], expected)


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
