"""Which examples are held out."""

import numpy as np
import pytest

from albert_tf.finetuning.packing import TextExample
from albert_tf.tasks.table import data, held_out

EXAMPLES = [
    TextExample(n, (f"text {n // 2}",), n // 2 % 20 // 15) for n in range(80)
] + [TextExample(99, ("alone",), 2)]


def choose(share, seed):
    numbers = [data.numbers_of(example) for example in EXAMPLES]
    keys = [example.texts for example in EXAMPLES]
    return np.array(held_out.choose(keys, numbers, share, seed))


@pytest.mark.parametrize("seed", range(5))
def test_of_several_labels_the_rare_ones_come_first(seed):
    """Forty texts have label 0, some of them 1 or 2 beside; twelve none."""
    labels = [(0, *[1] * (n % 5 == 0), *[2] * (n % 2 == 0)) for n in range(40)]
    labels += [()] * 12
    keys = [(str(n),) for n in range(52)]
    chosen = held_out.choose(keys, labels, 0.25, seed)
    counts = [
        sum(
            is_chosen and label in own
            for is_chosen, own in zip(chosen, labels, strict=True)
        )
        for label in range(3)
    ]
    assert counts == [10, 2, 5]
    assert sum(chosen[40:]) == 3


def test_a_share_of_each_label_is_held_out():
    """Of label 1 a quarter of the examples; every text is there twice."""
    chosen = choose(0.25, seed=3)
    labels = np.array([e.label for e in EXAMPLES])
    assert [chosen[labels == n].sum() for n in (0, 1, 2)] == [16, 4, 0]
    assert (chosen[:80:2] == chosen[1:80:2]).all()
    again = choose(0.25, seed=3)
    other = choose(0.25, seed=4)
    assert (again == chosen).all()
    assert (other != chosen).any()
    least = choose(0.001, seed=3)
    assert [least[labels == n].sum() for n in (0, 1, 2)] == [2, 2, 0]
