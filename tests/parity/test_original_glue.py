"""GLUE features against the original's from the same files."""

import pytest

from tests.albert_tf.tasks.glue import small_tasks

FOLDERS = {task: task.upper() for task in ("mnli", "mrpc", "qnli", "qqp")}
FOLDERS |= {"cola": "CoLA", "rte": "RTE", "sst-2": "SST-2", "sts-b": "STS-B"}
FOLDERS |= {"wnli": "WNLI"}
# The text set, the task, the split, and how many rows are recorded of its file.
# All tasks of own text, some of real text.
CASES = [
    *(
        ("own_text", task, split, 40)
        for task in FOLDERS
        for split in ("train", "dev")
    ),
    ("own_text", "mnli", "dev_mismatched", 40),
    ("real_text", "cola", "dev", 174),
    ("real_text", "mnli", "dev", 246),
    ("real_text", "mrpc", "dev", 68),
    ("real_text", "sts-b", "dev", 250),
]
LENGTHS = {"own_text": 48, "real_text": 64}


@pytest.fixture
def length(request):
    return LENGTHS[request.node.callspec.params["text_set"]]


@pytest.mark.parametrize(
    ("text_set", "name", "split", "count"), CASES, indirect=["text_set"]
)
def test_features_equal_the_original(text_set, name, split, count, length):
    recorded = text_set.read_rows(
        f"original_glue/{name}_{split}_{length}.jsonl.gz"
    )
    assert len(recorded) == count
    if (name, split) == ("mnli", "dev"):
        split = "dev_matched"
    task = small_tasks.make(name, text_set.tokenizer(), length)
    path = text_set.data / "glue" / FOLDERS[name] / f"{split}.tsv"
    examples = task.read(str(path), split)
    chosen = [examples[line["row"]] for line in recorded]
    (batch,) = task.featurize(chosen, split)
    for row, line in enumerate(recorded):
        used = len(line["input_ids"])
        rest = [0] * (length - used)
        assert batch["input_ids"][row].tolist() == line["input_ids"] + rest
        assert batch["input_mask"][row].tolist() == [1] * used + rest
        assert batch["segment_ids"][row].tolist() == line["segment_ids"] + rest
        assert batch["label_ids"][row] == pytest.approx(line["label_id"])
        assert batch["is_real_example"][row] == 1


@pytest.mark.parametrize("name", FOLDERS)
def test_every_row_of_own_text_is_recorded(own_text, name):
    task = small_tasks.make(name, own_text.tokenizer(), LENGTHS["own_text"])
    path = own_text.data / "glue" / FOLDERS[name] / "train.tsv"
    assert len(task.read(str(path), "train")) == 40
