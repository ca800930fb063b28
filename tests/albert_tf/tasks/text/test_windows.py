"""Windows of long texts, and what their outputs become."""

import numpy as np

from albert_tf.finetuning import base, features
from albert_tf.finetuning.packing import TextExample
from albert_tf.tasks.table import data, labels
from albert_tf.tasks.text import task as text
from tests.albert_tf.tasks.glue.small_tasks import Markers
from tests.conftest import refused

EMPTY, SHORT, FULL, LONG = (
    TextExample(n, ("x" * n,), n % 2) for n in (0, 3, 6, 11)
)
EXAMPLES = [EMPTY, SHORT, FULL, LONG]


class Letters(Markers):
    """A piece for each letter, numbered from 10 by its place."""

    settings = {}
    fingerprint = "letters"

    def encode_batch(self, texts):
        return [list(range(10, 10 + len(text))) for text in texts]


def task_of(**values):
    given = {"text_columns": "text", "label_column": "mood", "labels": "a,b"}
    options = data.TableOptions(**given, long=text.WindowOptions(**values))
    return labels.LabelTask(Letters(), 8, options)


def test_every_piece_is_in_a_window():
    found = task_of(windows="mean").windows(EXAMPLES)
    assert found == [
        [[]],
        [[10, 11, 12]],
        [[*range(10, 16)]],
        [[*range(10, 16)], [*range(13, 19)], [*range(16, 21)]],
    ]
    apart = task_of(windows="mean", window_stride=6)
    assert apart.windows([LONG]) == [[[*range(10, 16)], [*range(16, 21)]]]


def test_records_of_windows_have_the_labels_of_their_texts():
    (found,) = task_of(windows="max").featurize(EXAMPLES, base.TRAIN)
    assert found["label_ids"].tolist() == [0, 1, 0, 1, 1, 1]
    assert found["is_real_example"].tolist() == [1] * 6
    assert found["input_ids"].tolist() == [
        [2, 3, 0, 0, 0, 0, 0, 0],
        [2, 10, 11, 12, 3, 0, 0, 0],
        [2, *range(10, 16), 3],
        [2, *range(10, 16), 3],
        [2, *range(13, 19), 3],
        [2, *range(16, 21), 3, 0],
    ]
    assert found["input_mask"].sum(1).tolist() == [2, 5, 8, 8, 8, 7]


def test_outputs_are_pooled():
    logits = np.random.default_rng(1).normal(size=(6, 2)).astype(np.float32)
    last = logits[3:]
    for how, expected in (("mean", last.mean(0)), ("max", last.max(0))):
        task = task_of(windows=how)
        found = task.pool_records({"logits": logits}, EXAMPLES)["logits"]
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found[:3], logits[:3])
        np.testing.assert_allclose(found[3], expected, rtol=1e-6)
        nothing = task.pool_records({"logits": logits[:0]}, [])["logits"]
        assert nothing.shape == (0, 2)
    same = {"logits": logits[:4]}
    assert task_of().pool_records(same, EXAMPLES) is same


def test_records_without_windows_keep_their_key(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("text,mood\nx,a\n")

    def facts(**values):
        task = task_of(**values)
        return features.describe(task, "", base.TRAIN)["options"]

    assert not [name for name in facts() if "window" in name]
    mean, most = facts(windows="mean"), facts(windows="max")
    assert mean == most == {**facts(), "window_stride": 3}
    other = facts(windows="mean", window_stride=2)
    assert other["window_stride"] == 2


def test_wrong_options_are_refused():
    with refused("only used with `windows=mean or max`"):
        text.WindowOptions(window_stride=3)
    long = text.WindowOptions(windows="mean")
    for given, remedy in (
        ({"text_columns": "a,b"}, "name one text column, or leave it out"),
        ({"query_column": "a", "text_columns": "b"}, "of each, leave it out"),
    ):
        with refused(remedy):
            data.TableOptions(**given, label_column="c", long=long)
