import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data import examples, layouts, parsing, tfrecord

LAYOUT = (
    layouts.Feature("ids", (2, 3), "int64"),
    layouts.Feature("label", (), "int64"),
    layouts.Feature("weights", (2,), "float32"),
)


def make_example(**lists):
    example = tf.train.Example()
    for name, values in lists.items():
        feature = example.features.feature[name]
        kinds = {bytes: "bytes_list", float: "float_list", int: "int64_list"}
        getattr(feature, kinds[type(values[0])]).value.extend(values)
    return example.SerializeToString()


def test_decode_returns_what_tensorflow_wrote():
    numbers = [0, 1, 127, 128, 300, 2**31, 2**63 - 1, -1, -(2**63)]
    found = examples.decode(
        make_example(a=numbers, b=[0.5, -2.0], c=[b"x", b"\0"])
    )
    assert found["a"].tolist() == numbers and found["a"].dtype == np.int64
    assert found["b"].tolist() == [0.5, -2.0]
    assert found["b"].dtype == np.float32
    assert found["c"] == [b"x", b"\0"]
    example = tf.train.Example()
    example.features.feature["d"].SetInParent()  # Of no kind.
    assert examples.decode(example.SerializeToString()) == {"d": []}
    assert examples.decode(b"") == {}


def test_decode_batch_undoes_encode_batch_as_tensorflow_does():
    rng = np.random.default_rng(1)
    values = {
        "ids": rng.integers(0, 40_000, [50, 2, 3]) >> rng.integers(0, 16),
        "label": rng.integers(-3, 300, [50]),
        "weights": rng.random([50, 2], np.float32),
    }
    messages = tfrecord.encode_batch(LAYOUT, values)
    found = examples.decode_batch(LAYOUT, messages)
    parsed = parsing.parse(LAYOUT, tf.constant(messages))
    for name, array in values.items():
        assert found[name].tolist() == array.tolist()
        assert found[name].tolist() == parsed[name].numpy().tolist()
        assert found[name].dtype == parsed[name].numpy().dtype
    assert examples.decode_batch(LAYOUT, [])["ids"].shape == (0, 2, 3)


GOOD = {"ids": [1] * 6, "label": [1], "weights": [0.5, 0.5]}


@pytest.mark.parametrize(
    "change",
    [
        {"ids": [1] * 5},
        {"label": [1.0]},
        {"weights": [1, 1]},
        {"weights": [b"1", b"1"]},
        {"label": [1, 1]},
        {"weights": []},
    ],
)
def test_decode_batch_refuses_records_of_another_layout(change):
    changed = {n: v for n, v in {**GOOD, **change}.items() if v}
    records = [make_example(**GOOD), make_example(**changed)]
    (name,) = change
    with pytest.raises(ValueError, match=f"{name} has . numbers of type"):
        examples.decode_batch(LAYOUT, records)


@pytest.mark.parametrize("number", [-1, 10])
def test_numbers_outside_of_their_range_are_refused(number):
    layout = (layouts.Feature("label", (), "int64", None, 0, 9),)
    records = [make_example(label=[n]) for n in (0, 9, number)]
    good = examples.decode_batch(layout, records[:2])["label"]
    assert good.tolist() == [0, 9]
    with pytest.raises(ValueError, match=f"label has the number {number}"):
        examples.decode_batch(layout, records)


@pytest.mark.parametrize(
    ("good", "damaged"),
    [
        (b"\x01\xac\x02", b"\x01\xac\x82"),
        (b"\x01\xac\x02", b"\x01\x00"),
        (b"\x01\xac\x02", b"\xff" * 11),
    ],
)
def test_damaged_numbers(good, damaged):
    record = make_example(a=[1, 300]).replace(good, damaged)
    with pytest.raises(ValueError, match="not a tf.train.Example"):
        examples.decode(record)
