"""RACE features against the original's from the same files."""

import tarfile

import pytest

from albert_tf.tasks.race import task as race

# The recorded real articles in their order, see fixtures/README.md.
MIDDLE = (13, 73, 93, 148, 163, 175, 217, 299, 364, 401, 487, 495)
HIGH = (63, 107, 202, 247, 309, 318, 353, 394, 554, 598, 667, 677)
# The text set, tokens of a sequence, of question and answer, and questions.
CASES = [
    ("own_text", 160, 40, 24),
    ("real_text", 512, 128, 91),
    ("real_text", 200, 40, 91),
]


@pytest.fixture
def dev_folder(text_set, tmp_path):
    if (text_set.data / "race/dev").is_dir():
        return str(text_set.data / "race/dev")
    with tarfile.open(text_set.data / "race/RACE.tar.xz") as archive:
        members = [
            archive.getmember(f"RACE/dev/{level}/{number}.txt")
            for level, numbers in (("middle", MIDDLE), ("high", HIGH))
            for number in numbers
        ]
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(tmp_path, members)
    return str(tmp_path / "RACE/dev")


@pytest.mark.parametrize(
    ("text_set", "max_seq_length", "max_qa_length", "count"),
    CASES,
    indirect=["text_set"],
)
def test_features_equal_the_original(
    text_set, dev_folder, max_seq_length, max_qa_length, count
):
    name = f"dev_{max_seq_length}_{max_qa_length}.jsonl.gz"
    recorded = text_set.read_rows(f"original_race/{name}")
    options = race.RaceOptions(max_qa_length=max_qa_length)
    task = race.RaceTask(text_set.tokenizer(), max_seq_length, options)
    examples = task.read(dev_folder, "dev")
    assert len(examples) == len(recorded) == count
    assert_equal(task, examples, recorded)


def test_gap_is_searched_after_cleaning(own_text):
    """The gap may be a full-width low line; options add no spaces."""
    options = race.RaceOptions(max_qa_length=40, middle_only=True)
    task = race.RaceTask(own_text.tokenizer(), 160, options)
    examples = task.read(str(own_text.data / "race_gap/dev"), "dev")
    recorded = own_text.read_rows("original_race/gap_160_40.jsonl.gz")
    assert len(examples) == len(recorded) == 3
    assert_equal(task, examples, recorded)


def assert_equal(task, examples, recorded):
    rows = [
        dict(zip(batch, values, strict=True))
        for batch in task.featurize(examples, "dev")
        for values in zip(*batch.values(), strict=True)
    ]
    for example, row, line in zip(examples, rows, recorded, strict=True):
        assert example.guid.rsplit("-", 1)[0] == line["id"]
        assert row["label_ids"] == line["label"]
        for choice in range(4):
            ids = line["input_ids"][choice]
            rest = [0] * (task.max_seq_length - len(ids))
            assert row["input_ids"][choice].tolist() == ids + rest
            assert row["input_mask"][choice].tolist() == [1] * len(ids) + rest
            assert (
                row["segment_ids"][choice].tolist()
                == line["segment_ids"][choice] + rest
            )
