"""RACE features against those that the original made from the same files."""

import gzip
import json
import tarfile

import pytest

from albert_tf import tokenization
from albert_tf.tasks import race

# The recorded articles in their order, see fixtures/README.md.
MIDDLE = (13, 73, 93, 148, 163, 175, 217, 299, 364, 401, 487, 495)
HIGH = (63, 107, 202, 247, 309, 318, 353, 394, 554, 598, 667, 677)


@pytest.fixture(scope="module")
def dev_folder(shared_dir, tmp_path_factory):
    """The recorded articles, laid out as the official download."""
    folder = tmp_path_factory.mktemp("race")
    with tarfile.open(shared_dir / "data/race/RACE.tar.xz") as archive:
        members = [
            archive.getmember(f"RACE/dev/{level}/{number}.txt")
            for level, numbers in (("middle", MIDDLE), ("high", HIGH))
            for number in numbers
        ]
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder, members)
    return str(folder / "RACE/dev")


@pytest.mark.parametrize("lengths", [(512, 128), (200, 40)])
def test_features_equal_the_original(shared_dir, dev_folder, lengths):
    max_seq_length, max_qa_length = lengths
    name = f"dev_{max_seq_length}_{max_qa_length}.jsonl.gz"
    fixture = shared_dir / "fixtures/original_race" / name
    with gzip.open(fixture, "rt") as stream:
        recorded = [json.loads(line) for line in stream]
    assert len(recorded) == 91
    task = race.RaceTask(
        tokenization.Tokenizer(str(shared_dir / "data/vocab/30k-clean.model")),
        max_seq_length,
        race.RaceOptions(max_qa_length=max_qa_length),
    )
    examples = task.read(dev_folder, "dev")
    assert len(examples) == len(recorded)
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
            rest = [0] * (max_seq_length - len(ids))
            assert row["input_ids"][choice].tolist() == ids + rest
            assert row["input_mask"][choice].tolist() == [1] * len(ids) + rest
            assert (
                row["segment_ids"][choice].tolist()
                == line["segment_ids"][choice] + rest
            )
