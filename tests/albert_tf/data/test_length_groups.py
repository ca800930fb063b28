"""Batches of similar length: what is in them, their order, their padding."""

import itertools
import random

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data import inputs, layouts, length_groups, lengths
from tests import record_files
from tests.conftest import make_replicas

LAYOUT = layouts.classification_layout(128)
GROUPING = length_groups.Grouping(16)
RECORDS = 150
SIZE = 4


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Records 1 to 150, each with a random length; the label is its number."""
    path = tmp_path_factory.mktemp("records") / "x.tfrecord"
    draws = random.Random(1)
    records = []
    for number in range(1, RECORDS + 1):
        row = np.zeros(128, np.int64)
        row[: draws.randint(3, 128)] = 1
        values = {
            "input_ids": row * number,
            "input_mask": row,
            "segment_ids": 0 * row,
            "label_ids": number,
            "is_real_example": 1,
        }
        records.append(record_files.encode(LAYOUT, values))
    record_files.write(path, records)
    return str(path)


@pytest.fixture(autouse=True)
def small_windows(monkeypatch):
    """Windows of eight batches."""
    monkeypatch.setattr(length_groups, "WINDOW_RECORDS", 1)


def train(path, seed=1, first_step=0):
    return inputs.grouped_training_dataset(
        [path],
        LAYOUT,
        SIZE,
        seed=seed,
        grouping=GROUPING,
        first_step=first_step,
    )


def records_of(path):
    return tf.data.TFRecordDataset(path).as_numpy_iterator()


def take(dataset, count):
    return list(itertools.islice(dataset.as_numpy_iterator(), count))


def labels(batches):
    return [batch["label_ids"].tolist() for batch in batches]


def test_every_pass_sees_all_records_once(path):
    flat = np.concatenate(labels(take(train(path), 2 * RECORDS // SIZE)))
    # Passes end within a window: all windows so far hold whole passes and
    # the beginning of the next one.
    window = 8 * SIZE
    seen = np.bincount(flat[: RECORDS // window * window])
    assert seen.max() == 1
    assert np.bincount(flat, minlength=RECORDS + 1)[1:].min() >= 1


@pytest.mark.parametrize("number", [3, 4, 50, RECORDS])
def test_few_records_are_not_drawn_again_before_all_were(
    path, monkeypatch, number, tmp_path
):
    """A window is not larger than a pass, so no batch gathers copies."""
    monkeypatch.setattr(length_groups, "WINDOW_RECORDS", 4096)
    few = str(tmp_path / "few.tfrecord")
    record_files.write(few, itertools.islice(records_of(path), number))
    dataset = inputs.grouped_training_dataset(
        [few], LAYOUT, SIZE, seed=1, grouping=GROUPING
    )
    passes = 6
    flat = np.concatenate(labels(take(dataset, -(-passes * number // SIZE))))
    seen = np.bincount(flat, minlength=number + 1)[1:]
    assert seen.min() >= passes - 1
    assert seen.max() <= passes + 1
    again = inputs.grouped_training_dataset(
        [few], LAYOUT, SIZE, seed=1, grouping=GROUPING, first_step=7
    )
    assert labels(take(again, 5)) == labels(take(dataset, 12))[7:]


def test_records_of_equal_texts_do_not_gather(path, monkeypatch, tmp_path):
    """Of 30 texts with five records each, padded to at most three lengths."""
    monkeypatch.setattr(length_groups, "WINDOW_RECORDS", 4096)
    texts = itertools.islice(records_of(path), 30)
    copies = str(tmp_path / "copies.tfrecord")
    record_files.write(copies, [r for r in texts for _ in range(5)])

    def repeats(**more):
        grouping = length_groups.Grouping(96, **more)
        dataset = inputs.grouped_training_dataset(
            [copies], LAYOUT, 10, seed=1, grouping=grouping
        )
        batches = labels(take(dataset, 15))
        return sum(len(batch) - len({*batch}) for batch in batches)

    assert repeats(mixes_equal=True) < repeats() / 2


def test_batches_hold_records_of_similar_length(path):
    batches = take(train(path), 40)
    for batch in batches:
        width = batch["input_ids"].shape[1]
        longest = batch["input_mask"].sum(1).max()
        allowed = lengths.allowed(16, 128)
        assert width == min(n for n in allowed if n >= longest)
        assert batch["segment_ids"].shape == (SIZE, width)
        np.testing.assert_array_equal(
            batch["input_ids"],
            batch["input_mask"] * batch["label_ids"][:, None],
        )
    tokens = sum(batch["input_mask"].sum() for batch in batches)
    padded = sum(batch["input_mask"].size for batch in batches)
    assert tokens / padded > 0.75  # In full length it is about a half.
    # Long and short batches come in any order, another in every window.
    sums = np.array([batch["input_mask"].sum() for batch in batches])
    orders = {tuple(window.argsort()) for window in sums.reshape(5, 8)}
    assert len(orders) == 5
    assert not orders & {tuple(range(8)), tuple(range(8))[::-1]}


@pytest.mark.slow
@pytest.mark.parametrize("first_step", [1, 8, 37])
def test_first_step_leaves_out_exactly_the_batches_before(path, first_step):
    order = labels(take(train(path), first_step + 5))
    rest = labels(take(train(path, first_step=first_step), 5))
    assert rest == order[first_step:]
    assert labels(take(train(path, seed=2), 5)) != order[:5]


def test_replicas_share_each_batch(path):
    one, two = make_replicas(1), make_replicas(2)
    found = []
    for strategy in (one, two):
        batches = strategy.experimental_distribute_dataset(train(path))
        found.append(
            [
                strategy.gather(batch["label_ids"], 0).numpy().tolist()
                for batch in itertools.islice(batches, 12)
            ]
        )
    assert found[0] == found[1] == labels(take(train(path), 12))


def test_evaluation_sees_every_record_once_and_numbers_it(path):
    dataset = inputs.grouped_evaluation_dataset([path], LAYOUT, 4, 16)
    batches = list(dataset.as_numpy_iterator())
    assert len(batches) == -(-RECORDS // 4)
    real = np.concatenate([b["is_real_example"] for b in batches]).astype(bool)
    number = np.concatenate([b["record_number"] for b in batches])[real]
    label = np.concatenate([b["label_ids"] for b in batches])[real]
    assert (label == number + 1).all()
    assert sorted(label) == list(range(1, RECORDS + 1))
    widths = [b["input_ids"].shape[1] for b in batches]
    assert widths[:8] == sorted(widths[:8], reverse=True)
    assert widths[0] > widths[7]


def test_options_of_a_question_count_as_the_longest(path):
    mask = np.zeros([2, 4, 64], np.int64)
    mask[0, :, :10] = mask[1, :, :3] = 1
    mask[1, 2, :20] = 1
    layout = tuple(
        layouts.Feature(name, (4, 64), "int64", 0)
        for name in ("input_ids", "input_mask")
    )
    rows = [
        record_files.encode(layout, {"input_ids": row, "input_mask": row})
        for row in mask
    ]
    found = length_groups.record_lengths(layout, tf.constant(rows))
    assert found.numpy().tolist() == [10, 20]
    batch = {
        n: tf.constant(mask, tf.int32) for n in ("input_ids", "input_mask")
    }
    trimmed = length_groups.trim(batch, layout, 16)
    assert trimmed["input_ids"].shape == (2, 4, 20)
