"""Which examples are held out."""

import numpy as np
import pytest

from albert_tf.finetuning import base
from albert_tf.finetuning.packing import TextExample
from albert_tf.tasks.table import data, held_out, labels
from tests import row_files
from tests.albert_tf.tasks.glue.small_tasks import Markers
from tests.conftest import refused

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


def pairs_task(folder, rows, **values):
    given = {"text_columns": "question,answer", "label_column": "label"}
    path = row_files.write(folder / "pairs.jsonl", rows)
    options = data.TableOptions(
        labels="no,yes", dev_share=0.25, **{**given, **values}
    )
    return labels.LabelTask(Markers(), 16, options), path


def questions(count, answers=4):
    """Rows of questions with several answers each, one of them right."""
    for number in range(count):
        for answer in range(answers):
            yield {
                "question": f"q{number}",
                "answer": f"a{number}.{answer}",
                "label": "no" if answer else "yes",
                "page": number // 2,
            }


def parts(task, path):
    found = [task.read(path, s) for s in (base.TRAIN, base.HELD_OUT)]
    task.warn_of_overlap(*found, path)
    return [[example.texts[0] for example in part] for part in found]


@pytest.mark.parametrize(("column", "together"), [("question", 1), ("page", 2)])
@pytest.mark.parametrize("seed", range(3))
def test_rows_of_one_value_stay_together(
    tmp_path, caplog, column, together, seed
):
    task, path = pairs_task(
        tmp_path, questions(40), split_by=column, split_seed=seed
    )
    learnt, kept = parts(task, path)
    assert (len(learnt), len(kept)) == (120, 40)
    numbers = [{int(q[1:]) // together for q in x} for x in (learnt, kept)]
    assert not numbers[0] & numbers[1]
    assert "of a pair that is learnt" not in caplog.text
    assert column in task.settings["dev_share"]


def test_pairs_that_share_a_text_are_counted(tmp_path, caplog):
    """Those that are wholly there have a warning of their own."""
    task, path = pairs_task(tmp_path, questions(40))
    learnt, kept = parts(task, path)
    shared = sum(question in learnt for question in kept)
    assert 0 < shared <= 40
    assert f"{shared} of 40 pairs have a text of a pair that is" in caplog.text
    assert "training file, too" not in caplog.text
    caplog.clear()
    one = [TextExample(0, ("a", "b"), 0), TextExample(1, ("c", ""), 0)]
    other = [TextExample(2, x, 0) for x in (("a", "b"), ("d", "b"), ("e", ""))]
    task.warn_of_overlap(one, other, "f")
    assert "f: 1 texts are in the training file, too" in caplog.text
    assert "f: 1 of 3 pairs have a text" in caplog.text


@pytest.mark.parametrize("value", [None, ""])
def test_every_row_needs_a_value_to_stay_with(tmp_path, value):
    rows = [*questions(4), {**next(questions(1)), "page": value}]
    task, path = pairs_task(tmp_path, rows, split_by="page")
    with refused("line 17 has no value in the column `split_by=page`"):
        task.read(path, base.TRAIN)
    task, path = pairs_task(tmp_path, questions(4), split_by="other")
    with refused("line 1 has no value"):
        task.read(path, base.TRAIN)
