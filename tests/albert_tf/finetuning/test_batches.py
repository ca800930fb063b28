"""Batches of a fixed size from records, and the outputs for them."""

import numpy as np
import pytest

from albert_tf.data import layouts
from albert_tf.finetuning import base, batches

LAYOUT = (
    layouts.Feature("ids", (2,), "int64"),
    layouts.Feature("value", (), "float32"),
)


class Doubles(base.Task):
    """An example is a number of records, all with that number."""

    name = "doubles"

    def layout(self, split):
        assert split == base.PREDICT
        return LAYOUT

    def featurize(self, examples, split):
        for example in examples:
            yield {
                "ids": np.full((example, 2), example, np.int64),
                "value": np.full(example, example / 2, np.float64),
            }


Doubles.__abstractmethods__ = frozenset()
TASK = Doubles(None, 2)


class Sequences(base.Task):
    """An example is the length of its sequence of at most 64 tokens."""

    name = "sequences"
    output_widths = {"logits": 64}

    def layout(self, split):
        names = "input_ids", "input_mask"
        return tuple(layouts.Feature(name, (64,), "int64", 0) for name in names)

    def featurize(self, examples, split):
        for length in examples:
            mask = (np.arange(64) < length).astype(np.int64)[None]
            yield {"input_ids": mask * length, "input_mask": mask}


Sequences.__abstractmethods__ = frozenset()


def test_the_last_batch_is_filled_with_zeros():
    found = list(batches.featurize(TASK, [1, 3, 2], 4))
    assert [rows.tolist() for _, rows in found] == [[0, 1, 2, 3], [4, 5]]
    assert [b["ids"][:, 0].tolist() for b, _ in found] == [
        [1, 3, 3, 3],
        [2, 2, 0, 0],
    ]
    assert found[1][0]["value"].tolist() == [1, 1, 0, 0]
    for batch, _ in found:
        assert (batch["ids"].dtype, batch["value"].dtype) == (
            np.int32,
            np.float32,
        )


@pytest.mark.parametrize("examples", [[1, 3, 2], [4], [0, 0], []])
@pytest.mark.parametrize("size", [1, 4, 100])
def test_there_is_one_output_for_each_record(examples, size):
    sizes = []

    def model(batch):
        sizes.append(len(batch["ids"]))
        return {"twice": batch["value"] * 2, "ids": batch["ids"]}

    outputs = batches.run_model(model, TASK, examples, size)
    wanted = [float(n) for n in examples for _ in range(n)]
    assert outputs["twice"].tolist() == wanted
    assert outputs["ids"].shape == (len(wanted), 2)
    assert set(sizes) == {size}


def test_batches_are_as_short_as_their_sequences():
    task, widths = Sequences(None, 64), []

    def model(batch):
        ids = batch["input_ids"]
        widths.append(ids.shape[1])
        return {"length": ids[:, 0], "logits": ids}

    outputs = batches.run_model(model, task, [20, 60, 5, 10, 40], 2)
    assert widths == [60, 20, 6]
    assert outputs["length"].tolist() == [20, 60, 5, 10, 40]
    assert outputs["logits"].shape == (5, 64)
    assert (outputs["logits"] > 0).sum(1).tolist() == [20, 60, 5, 10, 40]


def test_all_batches_may_have_one_length():
    widths = [
        batch["input_ids"].shape[1]
        for batch, _ in batches.featurize(Sequences(None, 64), [5, 9], 1, 64)
    ]
    assert widths == [64, 64]
