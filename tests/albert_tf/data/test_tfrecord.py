import gzip
import io

import numpy as np
import pytest

from albert_tf.data import layouts, tfrecord
from tests import record_files
from tests.conftest import refused

# Where a number begins to need one byte more.
EDGES = [0, 1, 127, 128, 16383, 16384, 2**21 - 1, 2**21, 2**28, 2**30]
EDGES += [2**31, 2**35, 2**49 - 1, 2**56 - 1, 2**56, 2**63 - 1]


def random_values(layout, count, highest=30_000):
    rng = np.random.default_rng(12345)
    return {
        feature.name: rng.integers(0, highest, (count, *feature.shape))
        if feature.dtype == "int64"
        else rng.normal(size=(count, *feature.shape)).astype(np.float32)
        for feature in layout
    }


def encode_one_by_one(layout, values):
    count = len(next(iter(values.values())))
    return [
        record_files.encode(
            layout, {name: v[row] for name, v in values.items()}
        )
        for row in range(count)
    ]


@pytest.mark.parametrize(
    "layout",
    [
        layouts.pretraining_layout(512, 20),
        layouts.pretraining_layout(128, 0),
        layouts.with_padding(layouts.classification_layout(9)),
        layouts.with_padding(layouts.classification_layout(9, regression=True)),
        (
            layouts.Feature("é", (2, 3), "int64"),
            layouts.Feature("z", (), "int64"),
        ),
    ],
)
@pytest.mark.parametrize("highest", [2, 128, 129, 16385, 30_000, 2**31])
def test_batch_equals_encoding_one_by_one(layout, highest):
    values = random_values(layout, 300, highest)  # More than one block.
    found = tfrecord.encode_batch(layout, values)
    assert found == encode_one_by_one(layout, values)


def test_padding_is_left_out_but_for_one_token():
    def layout(width):
        names = {"input_mask": 0, "p_mask": 1}
        return [
            layouts.Feature(n, (width,), "int64", p) for n, p in names.items()
        ]

    masks = np.array([[1, 1, 0], [0, 0, 0]])
    values = {"input_mask": masks, "p_mask": 1 - masks}
    assert tfrecord.encode_batch(layout(3), values) == [
        record_files.encode(
            layout(n), {k: v[row, :n] for k, v in values.items()}
        )
        for row, n in enumerate([2, 1])
    ]


TRUTHS = np.array([[True, False, False], [True, True, False]])


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        *(
            ("int64", np.array([EDGES, EDGES[::-1]])[:, : count + 1])
            for count in range(len(EDGES))
        ),
        ("int64", np.array([EDGES], np.uint64)),
        ("int64", np.array([EDGES[:10]], np.int32)),
        ("int64", np.array([[-1, 300, -(2**63)], [0, 1, 2]])),
        ("int64", TRUTHS),
        # Not contiguous.
        ("int64", np.arange(0, 4000, 7)[:568].reshape(4, 142).T[::3]),
        *(
            ("float32", np.array([[1.5, -2], [0, 3]], dtype))
            for dtype in ("f8", "f4", "i4", ">f4")
        ),
        ("float32", np.array([[1e300, -1e300]])),  # Infinite in float32.
    ],
)
def test_numbers_of_every_type_and_size(kind, values):
    layout = (layouts.Feature("a", values.shape[1:], kind),)
    found = tfrecord.encode_batch(layout, {"a": values})
    plain = values * 1  # Truth values are 0 and 1.
    assert found == encode_one_by_one(layout, {"a": plain})


def test_empty_batch_gives_no_record():
    layout = layouts.pretraining_layout(8, 2)
    values = random_values(layout, 0)
    assert tfrecord.encode_batch(layout, values) == []
    assert tfrecord.frame_batch([]) == []


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "feature a has no value"),
        (
            {"a": np.zeros((1, 2), int), "b": np.zeros(1)},
            r"no features \['b'\]",
        ),
        ({"a": np.zeros((1, 3), int)}, r"shape \(1, 3\).* wants \(1, 2\)"),
        ({"a": np.zeros(2, int)}, r"shape \(2,\).* wants \(2, 2\)"),
        ({"a": np.zeros((), int)}, r"shape \(\); the layout wants \(1, 2\)"),
        ({"a": np.zeros((1, 2))}, "type float64; the layout wants int64"),
        ({"a": np.full((1, 2), 2**63, np.uint64)}, "9223372036854775808"),
    ],
)
def test_wrong_values_are_refused(values, message):
    layout = (layouts.Feature("a", (2,), "int64"),)
    with pytest.raises(ValueError, match=message):
        tfrecord.encode_batch(layout, values)
    with pytest.raises(ValueError, match="has no feature"):
        tfrecord.encode_batch((), {})
    layout = (*layout, layouts.Feature("b", (), "float32"))
    uneven = {"a": np.zeros((2, 2), int), "b": np.zeros(3)}
    with pytest.raises(ValueError, match=r"feature b has shape \(3,\)"):
        tfrecord.encode_batch(layout, uneven)


def test_frames_equal_those_of_tensorflow(tmp_path):
    import tensorflow as tf

    layout = layouts.pretraining_layout(64, 4)
    messages = tfrecord.encode_batch(layout, random_values(layout, 50))
    messages += [b"", b"x", b"\x00" * 40, bytes(range(256)) * 300]
    path = tmp_path / "a.tfrecord"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for message in messages:
            writer.write(message)
    frames = tfrecord.frame_batch(messages)
    assert len(frames) == len(messages)
    assert b"".join(frames) == path.read_bytes()
    assert list(map(tfrecord.unframe, frames)) == messages
    with open(path, "rb") as stream:
        assert list(tfrecord.read_frames(stream)) == messages
    size = path.stat().st_size
    with open(path, "rb") as stream:
        found = list(tfrecord.read_frames(stream, size, skip=True))
        assert found == [b""] * len(messages)
        stream.seek(0)
        with pytest.raises(ValueError, match="the file ends"):
            list(tfrecord.read_frames(stream, size - 1, skip=True))


LONG = tfrecord._frame_head(2**31) + bytes(9)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda raw: raw[:19] + b"\x07" + raw[20:], "length is damaged"),
        (lambda raw: raw[:-5] + b"x" + raw[-4:], "does not fit the content"),
        (lambda raw: raw[:-1], "the file ends"),
        (lambda raw: raw[:25], "the file ends"),
        (lambda raw: raw[:19] + LONG, "its length is 2,147,483,648 bytes"),
    ],
)
def test_damaged_frame_is_an_error_behind_the_whole_ones(damage, message):
    content = b"".join(tfrecord.frame_batch([b"one", b"two"]))
    frames = tfrecord.read_frames(io.BytesIO(damage(content)))
    assert next(frames) == b"one"
    with pytest.raises(ValueError, match=message):
        next(frames)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda packed: packed + bytes(512), "record 3 .*header"),
        (lambda packed: packed + bytes(8) + packed, "record 3 .*header"),
        (lambda packed: packed + b"text", "record 3 .*header"),
        (lambda packed: packed + packed[:2], "record 3 .*within a stream"),
        (lambda packed: packed + packed[:-1], "record 5 .*within a stream"),
        (lambda packed: packed[:-1], "within a stream"),
        (lambda packed: packed[:-4] + bytes(4), "incorrect length check"),
        (lambda packed: bytes(8) + packed, "is not a TFRecord file"),
    ],
)
def test_packed_file_holds_whole_streams_only(tmp_path, damage, message):
    path = tmp_path / "a.tfrecord.gz"
    messages = [b"one" * 100_000, b"two"]
    packed = gzip.compress(b"".join(tfrecord.frame_batch(messages)))
    for content, expected in ((packed, 1), (packed * 2, 2), (b"", 0)):
        path.write_bytes(content)
        assert list(tfrecord.read_records(str(path))) == messages * expected
    path.write_bytes(damage(packed))
    with refused(message):
        tfrecord.count_records(str(path))
