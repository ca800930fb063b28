"""Batches: their order, their shape and what fills them up."""

import itertools

import numpy as np
import pytest

from albert_tf import inputs, records

LAYOUT = (
    records.Feature("input_ids", (3,), "int64"),
    records.Feature("weight", (), "float32"),
)


@pytest.fixture
def paths(tmp_path):
    """Three files with the examples 1 to 20."""
    names = [str(tmp_path / f"{number}.tfrecord") for number in range(3)]
    with records.ShardedWriter(names) as writer:
        for number in range(1, 21):
            values = {"input_ids": [number] * 3, "weight": number / 2}
            writer.write(records.encode(LAYOUT, values))
    return names


def first_ids(dataset, batches):
    taken = itertools.islice(dataset.as_numpy_iterator(), batches)
    return [batch["input_ids"][:, 0].tolist() for batch in taken]


def train(paths, seed=1, first_step=0):
    return inputs.training_dataset(
        paths, LAYOUT, 4, seed=seed, first_step=first_step
    )


def test_training_order_is_a_function_of_the_seed(paths):
    order = first_ids(train(paths), 15)
    assert first_ids(train(paths), 15) == order
    assert first_ids(train(paths, seed=2), 15) != order


def test_training_sees_everything_once_in_every_pass_in_a_new_order(paths):
    flat = sum(first_ids(train(paths), 10), [])
    first, second = flat[:20], flat[20:]
    assert sorted(first) == sorted(second) == list(range(1, 21))
    assert first != second


@pytest.mark.parametrize("first_step", [1, 5, 7])
def test_first_step_leaves_out_exactly_the_batches_before(paths, first_step):
    order = first_ids(train(paths), 12)
    skipped = first_ids(train(paths, first_step=first_step), 12 - first_step)
    assert skipped == order[first_step:]


def test_training_examples_are_all_real(paths):
    for batch in train(paths).take(6).as_numpy_iterator():
        assert batch["is_real_example"].tolist() == [1, 1, 1, 1]


def test_last_evaluation_batch_is_filled_up_and_marked(paths):
    dataset = inputs.evaluation_dataset(paths, LAYOUT, 8)
    batches = list(dataset.as_numpy_iterator())
    assert [batch["is_real_example"].sum() for batch in batches] == [8, 8, 4]
    last = batches[-1]
    assert last["is_real_example"].tolist() == [1] * 4 + [0] * 4
    assert not last["input_ids"][4:].any() and not last["weight"][4:].any()
    seen = np.concatenate([batch["input_ids"][:, 0] for batch in batches])
    expected = [*range(1, 21, 3), *range(2, 21, 3), *range(3, 21, 3)]
    assert seen.tolist() == expected + [0] * 4


def test_evaluation_may_stop_early(paths):
    dataset = inputs.evaluation_dataset(paths, LAYOUT, 8, max_batches=1)
    assert len(list(dataset)) == 1


def test_marks_of_the_records_are_kept(tmp_path):
    layout = (*LAYOUT, records.Feature("is_real_example", (), "int64"))
    path = str(tmp_path / "x")
    with records.ShardedWriter([path]) as writer:
        for real in (1, 0):
            values = {
                "input_ids": [1] * 3,
                "weight": 1,
                "is_real_example": real,
            }
            writer.write(records.encode(layout, values))
    (batch,) = inputs.evaluation_dataset([path], layout, 3).as_numpy_iterator()
    assert batch["is_real_example"].tolist() == [1, 0, 0]


@pytest.mark.parametrize("make", ["train", "evaluate"])
def test_shapes_are_static(paths, make):
    dataset = (
        train(paths)
        if make == "train"
        else inputs.evaluation_dataset(paths, LAYOUT, 4)
    )
    shapes = {k: v.shape.as_list() for k, v in dataset.element_spec.items()}
    assert shapes == {
        "input_ids": [4, 3],
        "weight": [4],
        "is_real_example": [4],
    }
