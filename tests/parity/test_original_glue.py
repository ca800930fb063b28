"""GLUE features against those that the original made from the same files."""

import gzip
import json

import pytest

from albert_tf import tokenization
from albert_tf.tasks import glue

MAX_SEQ_LENGTH = 64
# How many rows are recorded of each task, and the file they are from.
RECORDED = {
    "cola": (174, "CoLA/dev.tsv", "dev"),
    "mnli": (246, "MNLI/dev_matched.tsv", "dev_matched"),
    "mrpc": (68, "MRPC/dev.tsv", "dev"),
    "sts-b": (250, "STS-B/dev.tsv", "dev"),
}


@pytest.mark.parametrize("name", RECORDED)
def test_features_equal_the_original(shared_dir, name):
    fixture = shared_dir / "fixtures/original_glue" / f"{name}_dev_64.jsonl.gz"
    with gzip.open(fixture, "rt") as stream:
        recorded = [json.loads(line) for line in stream]
    count, path, split = RECORDED[name]
    assert len(recorded) == count
    tokenizer = tokenization.Tokenizer(
        str(shared_dir / "data/vocab/30k-clean.model")
    )
    task = glue.GlueTask(name, tokenizer, MAX_SEQ_LENGTH)
    examples = task.read(str(shared_dir / "data/glue" / path), split)
    chosen = [examples[line["row"]] for line in recorded]
    (batch,) = task.featurize(chosen, split)
    for row, line in enumerate(recorded):
        used = len(line["input_ids"])
        rest = [0] * (MAX_SEQ_LENGTH - used)
        assert batch["input_ids"][row].tolist() == line["input_ids"] + rest
        assert batch["input_mask"][row].tolist() == [1] * used + rest
        assert batch["segment_ids"][row].tolist() == line["segment_ids"] + rest
        assert batch["label_ids"][row] == pytest.approx(line["label_id"])
        assert batch["is_real_example"][row] == 1
