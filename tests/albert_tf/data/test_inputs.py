"""Batches: their order, their shape and what fills them up."""

import gzip
import itertools
import os
import pathlib
import types

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.common import random_streams
from albert_tf.data import (
    drawing,
    inputs,
    layouts,
    manifests,
    masking,
    packed_rows,
    tfrecord,
)
from tests import record_files
from tests.albert_tf.data import short_records
from tests.conftest import refused

LAYOUT = (
    layouts.Feature("input_ids", (3,), "int64"),
    layouts.Feature("weight", (), "float32"),
)


@pytest.fixture
def paths(tmp_path):
    """Three files with the examples 1 to 20."""
    names = [str(tmp_path / f"{number}.tfrecord") for number in range(3)]
    rows = [
        {"input_ids": [number] * 3, "weight": number / 2}
        for number in range(1, 21)
    ]
    record_files.write(names, rows, LAYOUT)
    return names


def first_ids(dataset, batches):
    taken = itertools.islice(dataset.as_numpy_iterator(), batches)
    return [batch["input_ids"][:, 0].tolist() for batch in taken]


def shapes_of(dataset):
    """The static shapes of its batches."""
    return {k: v.shape.as_list() for k, v in dataset.element_spec.items()}


def train(paths, seed=1, first_step=0):
    return inputs.training_dataset(
        paths, LAYOUT, 4, seed=seed, first_step=first_step
    )


def test_training_sees_everything_once_in_every_pass_in_a_new_order(paths):
    order = first_ids(train(paths), 10)
    flat = sum(order, [])
    first, second = flat[:20], flat[20:]
    assert sorted(first) == sorted(second) == list(range(1, 21))
    assert first != second
    assert first_ids(train(paths), 10) == order
    # Another seed has orders of its own, also in later passes.
    other = sum(first_ids(train(paths, seed=2), 10), [])
    assert [first, second] != [other[:20], other[20:]]
    assert second != other[:20]


def test_examples_of_ten_thousand_places_are_mixed(tmp_path):
    """The n-th example is one of the first 10,000 + n of the file, any one."""
    path, total = str(tmp_path / "many.tfrecord"), 12_000
    layout = (layouts.Feature("input_ids", (1,), "int64"),)
    rows = ({"input_ids": [number]} for number in range(total))
    record_files.write(path, rows, layout)
    dataset = inputs.training_dataset([path], layout, 100, seed=1)
    order = np.concatenate(first_ids(dataset, total // 100))
    assert sorted(order) == list(range(total))
    assert (order < 10_000 + np.arange(total)).all()
    # Of 1,000 draws from 10,000, the largest is below 9,900 once in 23,000
    # times, and their mean is 5,000 within 91 (one standard deviation).
    first = order[:1000]
    assert first.max() > 9_900
    assert abs(first.mean() - 5_500) < 500


@pytest.mark.parametrize("first_step", [1, 7])
def test_first_step_leaves_out_exactly_the_batches_before(paths, first_step):
    order = first_ids(train(paths), 12)
    skipped = first_ids(train(paths, first_step=first_step), 12 - first_step)
    assert skipped == order[first_step:]


def test_examples_are_counted_with_and_without_a_manifest(paths):
    assert inputs.count_examples(paths) == 20
    assert inputs.count_examples(paths[:1]) == 7
    manifest = manifests.Manifest(
        shards=tuple(os.path.basename(path) for path in paths),
        shard_bytes=tuple(map(os.path.getsize, paths)),
        num_examples=123,  # Not the number that counting gives.
        max_seq_length=3,
        max_predictions_per_seq=1,
        vocab_size=30,
        vocab_sha256="",
        random_seed=1,
        options={},
        versions={},
    )
    manifests.write(paths, manifest)
    assert inputs.count_examples(paths) == 123
    assert inputs.count_examples(paths[1:]) == 13


def test_last_evaluation_batch_is_filled_up_and_marked(paths):
    dataset = inputs.evaluation_dataset(paths, LAYOUT, 8)
    batches = list(dataset.as_numpy_iterator())
    assert [batch["is_real_example"].sum() for batch in batches] == [8, 8, 4]
    shapes = {"input_ids": [8, 3], "weight": [8], "is_real_example": [8]}
    assert shapes_of(dataset) == shapes
    last = batches[-1]
    assert last["is_real_example"].tolist() == [1] * 4 + [0] * 4
    assert not last["input_ids"][4:].any() and not last["weight"][4:].any()
    first = dict(batches[0])
    (only,) = inputs.evaluation_dataset(paths, LAYOUT, 8, max_batches=1)
    assert all((only[name] == first[name]).numpy().all() for name in first)
    seen = np.concatenate([batch["input_ids"][:, 0] for batch in batches])
    expected = [*range(1, 21, 3), *range(2, 21, 3), *range(3, 21, 3)]
    assert seen.tolist() == expected + [0] * 4


def test_marks_of_the_records_are_kept(tmp_path):
    layout = (*LAYOUT, layouts.Feature("is_real_example", (), "int64"))
    path = str(tmp_path / "x")
    rows = [
        {"input_ids": [1] * 3, "weight": 1, "is_real_example": real}
        for real in (1, 0)
    ]
    record_files.write(path, rows, layout)
    (batch,) = inputs.evaluation_dataset([path], layout, 3).as_numpy_iterator()
    assert batch["is_real_example"].tolist() == [1, 0, 0]


# Masking in training.

MASKED_LAYOUT = layouts.without_masks(layouts.pretraining_layout(12, 4))
MASK_VOCABULARY = masking.Vocabulary(60, 2, 3, 4, np.zeros(0, np.uint8))
MASKER = masking.Masker(
    masking.MaskingOptions(max_predictions_per_seq=4, masked_lm_prob=0.4),
    MASK_VOCABULARY,
)


@pytest.fixture
def unmasked(tmp_path):
    """A file with eight records that hold no masks."""
    path = str(tmp_path / "unmasked.tfrecord")
    generator = np.random.default_rng(3)
    rows = [
        {
            "input_ids": [2, *generator.integers(5, 60, 8), 3, 0, 0],
            "input_mask": [1] * 10 + [0] * 2,
            "segment_ids": [0] * 12,
            "token_boundary": [1, *generator.integers(0, 2, 9), 0, 0],
            "next_sentence_labels": [number % 2],
        }
        for number in range(8)
    ]
    record_files.write(path, rows, MASKED_LAYOUT)
    return path


def masked_batches(path, count, seed=1, first_step=0):
    dataset = inputs.training_dataset(
        [path],
        MASKED_LAYOUT,
        8,
        seed=seed,
        first_step=first_step,
        drawer=drawing.Masks(MASKER, 12),
    )
    return list(itertools.islice(dataset.as_numpy_iterator(), count))


def restored(batch):
    ids = batch["input_ids"].copy()
    rows, columns = np.nonzero(batch["masked_lm_weights"])
    places = batch["masked_lm_positions"][rows, columns]
    ids[rows, places] = batch["masked_lm_ids"][rows, columns]
    return ids


def assert_masked(batches, run, first_step=0):
    """Its keys are of the run, the number of the batch, and the row."""
    for step, batch in enumerate(batches, first_step):
        rows = range(len(batch["input_ids"]))
        keys = [random_streams.derive(run, step, row) for row in rows]
        expected = MASKER.mask(
            restored(batch),
            batch["input_mask"].sum(1),
            np.array(keys, np.uint64),
            batch["token_boundary"],
        )
        weights = np.arange(4) < expected.counts[:, None]
        for name, value in {
            "input_ids": expected.input_ids,
            "masked_lm_positions": expected.positions,
            "masked_lm_ids": expected.labels,
            "masked_lm_weights": weights,
        }.items():
            np.testing.assert_array_equal(batch[name], value, err_msg=name)


def test_masks_are_those_of_the_masker(unmasked):
    batches = masked_batches(unmasked, 4, first_step=3)
    assert_masked(batches, random_streams.derive(0, 0, 1), 3)
    drawer = drawing.Masks(MASKER, 12)
    dataset = inputs.evaluation_dataset(
        [unmasked], MASKED_LAYOUT, 3, drawer=drawer, seed=7
    )
    batches = list(dataset.as_numpy_iterator())
    assert len(batches) == 3
    assert_masked(batches, random_streams.derive(0, 1, 7))
    # The filling of the last batch is not masked.
    assert not batches[2]["masked_lm_weights"][2].any()


def test_a_drawer_knows_the_step_in_training(paths):
    drawer = types.SimpleNamespace(
        makes=(layouts.Feature("step", (), "int64"),),
        drops=("weight",),
        draw=lambda records, keys, step: {
            "step": np.full(len(keys), -1 if step is None else step)
        },
    )
    training = inputs.training_dataset(
        paths, LAYOUT, 4, seed=1, first_step=3, drawer=drawer
    )
    evaluation = inputs.evaluation_dataset(paths, LAYOUT, 4, drawer=drawer)
    for dataset, steps in ((training, [3, 4]), (evaluation, [-1, -1])):
        found = taken(dataset, 2)
        assert [b["step"].tolist() for b in found] == [[n] * 4 for n in steps]
        assert "weight" not in found[0]


# Rows of several instances.

SHORT = 24
ROWS = 4


@pytest.fixture
def short(tmp_path):
    """Three files with records 0 to 23 of 4 to 16 tokens."""
    names = [str(tmp_path / f"short-{number}") for number in range(3)]
    records = short_records.make(SHORT)
    record_files.write(names, short_records.encode(records))
    return names


def packed(paths, seed=1, first_step=0, packing=None):
    packing = packing or packed_rows.Packing(short_records.LAYOUT)
    return inputs.packed_training_dataset(
        paths,
        packing,
        ROWS,
        seed=seed,
        num_rows=inputs.count_rows(paths, packing),
        first_step=first_step,
    )


def numbers(batches):
    """Those of the instances of each batch."""
    return [
        [values["input_ids"][1] for values in short_records.unpack(batch)]
        for batch in batches
    ]


def taken(dataset, count):
    return list(itertools.islice(dataset.as_numpy_iterator(), count))


def test_packed_rows_hold_everything_once_in_every_pass(short):
    rows = inputs.count_rows(short, packed_rows.Packing(short_records.LAYOUT))
    assert SHORT / 4 < rows < SHORT / 1.2
    # So many batches are as many passes as there are rows in a batch.
    found = numbers(taken(packed(short), rows))
    assert numbers(taken(packed(short), 3)) == found[:3]
    assert numbers(taken(packed(short, seed=2), 3)) != found[:3]
    flat = [number for batch in found for number in batch]
    assert sorted(flat) == sorted(list(range(SHORT)) * ROWS)
    assert sorted(flat[:SHORT]) == list(range(SHORT))
    assert flat[:SHORT] != flat[SHORT : 2 * SHORT]
    shapes = shapes_of(packed(short))
    assert None not in sum(shapes.values(), [])
    assert shapes["input_ids"] == [ROWS, short_records.LENGTH]
    assert shapes["cls_positions"] == [ROWS, packed_rows.MAX_INSTANCES]


@pytest.mark.parametrize("first_step", [1, 11])
def test_packed_rows_go_on_at_any_step(short, first_step):
    whole = taken(packed(short), 14)
    rest = taken(packed(short, first_step=first_step), 14 - first_step)
    np.testing.assert_equal(rest, whole[first_step:])


def test_masks_of_packed_rows_are_drawn_for_each_record(tmp_path):
    """Its keys are of the run, the number of the batch, and the place."""
    path = str(tmp_path / "short")
    records = short_records.make(SHORT)
    layout = short_records.UNMASKED
    record_files.write(path, short_records.encode(records, layout))
    masker = masking.Masker(
        masking.MaskingOptions(max_predictions_per_seq=3), MASK_VOCABULARY
    )
    masks = drawing.Masks(masker, short_records.LENGTH)
    packing = packed_rows.Packing(layout, masks)
    run = random_streams.derive(0, 0, 1)
    batches = taken(packed([path], packing=packing, first_step=3), 12)
    for step, batch in enumerate(batches, 3):
        used = np.arange(packed_rows.MAX_INSTANCES) < batch["instance_ids"].max(
            1, keepdims=True
        )
        for place, found in zip(
            np.flatnonzero(used).tolist(),
            short_records.unpack(batch),
            strict=True,
        ):
            (record,) = (r for r in records if same_text(found, r))
            expected = masker.mask(
                record["input_ids"][None],
                record["input_mask"].sum(keepdims=True),
                np.array([random_streams.derive(run, step, place)], np.uint64),
                record["token_boundary"][None],
            )
            assert (found["input_ids"] == expected.input_ids[0]).all()
            assert (found["masked_lm_ids"] == expected.labels[0]).all()
            weights = np.arange(3) < expected.counts[0]
            assert (found["masked_lm_weights"] == weights).all()


def same_text(found, record):
    """Tell whether they are the same but for masks."""
    ids, count = (
        found["input_ids"].copy(),
        int(found["masked_lm_weights"].sum()),
    )
    places = found["masked_lm_positions"][:count]
    ids[places] = found["masked_lm_ids"][:count]
    return (ids == record["input_ids"]).all()


def test_packed_files_are_unpacked(paths, tmp_path):
    packed = []
    for path in paths:
        target = tmp_path / (path + ".gz")
        target.write_bytes(gzip.compress(pathlib.Path(path).read_bytes()))
        packed.append(str(target))
    assert first_ids(train(packed), 10) == first_ids(train(paths), 10)


def spoil(path, place, packed):
    """Change a byte of a file, in its unpacked content if it is packed."""
    content = bytearray(pathlib.Path(path).read_bytes())
    content[place] ^= 0x10
    if packed:
        path += ".gz"
        content = gzip.compress(bytes(content))
    pathlib.Path(path).write_bytes(content)
    return path


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("dataset", [train, inputs.evaluation_dataset])
def test_damaged_record_is_named(paths, dataset, packed):
    size = os.path.getsize(paths[1]) // 7
    paths[1] = spoil(paths[1], 4 * size + 20, packed)
    arguments = (LAYOUT, 4) if dataset is not train else ()
    message = f"{paths[1]} is damaged: record 5 cannot be read .*checksum"
    with (
        refused(message + ".*Remove it"),
        inputs.naming_damage(paths, LAYOUT, "Remove it."),
    ):
        first_ids(dataset(paths, *arguments), 5)


def test_record_of_another_layout_is_named(paths, monkeypatch):
    monkeypatch.setattr(inputs, "_PARSED_AT_ONCE", 3)
    other = (layouts.Feature("input_ids", (4,), "int64"), LAYOUT[1])
    record = record_files.encode(other, {"input_ids": [1] * 4, "weight": 0.5})
    with open(paths[0], "ab") as stream:
        stream.write(tfrecord.frame_batch([record])[0])
    message = (
        f"{paths[0]} cannot be used: record 8 has another layout. "
        "Each record must hold 3 input_ids, 1 weight. Copy"
    )
    with refused(message), inputs.naming_damage(paths, LAYOUT):
        first_ids(train(paths), 6)
    inputs.check_values(paths, LAYOUT, "", 7)
    with refused("record 8"):
        inputs.check_values(paths, LAYOUT, "", 8)
    with (  # No record is damaged.
        pytest.raises(tf.errors.DataLossError, match="a checkpoint"),
        inputs.naming_damage(paths[1:], LAYOUT),
    ):
        raise tf.errors.DataLossError(None, None, "a checkpoint")
