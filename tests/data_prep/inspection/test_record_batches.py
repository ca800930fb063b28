"""Records in batches, of a layout that is found in them."""

from albert_tf.data import layouts
from data_prep.inspection import record_batches
from tests import record_files
from tests.conftest import FIXTURES, refused
from tests.data_prep.one_record import LAYOUT, VALUES

ORIGINAL = FIXTURES / "original_tfrecord" / "original.tfrecord.gz"


def test_a_file_of_the_original():
    (batch,) = record_batches.read_batches(str(ORIGINAL))
    assert len(batch) == 353
    example = record_batches.parse_example(batch[0], "path")
    layout = record_batches.find_layout(example)
    shapes = {feature.name: feature.shape for feature in layout}
    assert shapes["input_ids"] == (128,)
    assert shapes["masked_lm_ids"] == (20,)
    features = record_batches.parse_batch(layout, batch, "path")
    assert features["input_ids"].shape == (353, 128)


def test_records_without_masks_have_a_layout_without_them():
    kept = layouts.without_masks(LAYOUT)
    example = {feature.name: VALUES[feature.name] for feature in kept}
    found = {f.name for f in record_batches.find_layout(example)}
    assert "input_ids" in found
    assert "masked_lm_ids" not in found


def test_other_records_have_no_layout():
    assert record_batches.find_layout({"input_ids": [1, 2]}) is None


def test_records_that_cannot_be_read_are_refused(tmp_path):
    path, example = str(tmp_path / "a"), record_files.encode(LAYOUT, VALUES)
    record_files.write(path, [])
    with refused("holds no record"):
        list(record_batches.read_batches(path))
    with refused(r"not a tf\.train\.Example"):
        record_batches.parse_example(b"\xff\xff", "path")
    record_files.write(path, [example])
    layout = tuple(
        f if f.name != "input_ids" else type(f)(f.name, (3,), f.dtype)
        for f in LAYOUT
    )
    with refused("record 1 cannot be used: .*layout of the first one"):
        record_batches.parse_batch(layout, [example], path)
