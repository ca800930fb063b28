import numpy as np
import pytest

from albert_tf.data import layouts
from data_prep.inspection import record_statistics
from data_prep.writer import statistics
from tests import record_files
from tests.conftest import FIXTURES, refused
from tests.data_prep.one_record import LAYOUT, VALUES, changed_at, features

ORIGINAL = FIXTURES / "original_tfrecord" / "original.tfrecord.gz"
SPECIAL = record_statistics.SpecialIds(cls_id=2, sep_id=3, mask_id=4)


def describe(records):
    counts = record_statistics.count(records, SPECIAL)
    return record_statistics.summarize(counts)


# [CLS] 11 [MASK] 13 21 22 23 [SEP]
SINGLE_SEGMENT = {
    "input_ids": [2, 11, 4, 13, 21, 22, 23, 3, 0, 0],
    "input_mask": [1] * 8 + [0] * 2,
    "segment_ids": [0] * 10,
    "masked_lm_positions": [2, 3, 5, 0],
    "next_sentence_labels": [layouts.NO_LABEL],
}


def test_record_without_a_sentence_order_label_is_well_formed():
    records = features({}, SINGLE_SEGMENT)
    result = describe(records)
    assert result["well_formed"] == 1.0
    assert result["label_1"] == 1.0  # Of the record that has a label.
    assert result["unlabelled"] == 0.5
    assert "without one: 50.0%" in "\n".join(record_statistics.to_lines(result))


def test_statistics_of_one_record():
    assert describe(features({})) == {
        "examples": 1,
        "well_formed": 1.0,
        "label_1": 1.0,
        "unlabelled": 0.0,
        "length": [9.0] * 5,
        "mean_length": 9.0,
        "segment_a": [5.0] * 5,
        "padding": 0.1,
        "masked_share": [0.333] * 5,
        "masking_rate": 0.3333,
        "predictions": [3.0] * 5,
        "mean_predictions": 3.0,
        "mask_keep_random": [0.3333, 0.3333, 0.3333],
        "mean_relative_position": round((2 + 3 + 6) / 3 / 9, 4),
        "unsorted_positions": 0,
        # Words 2 and 3 (places 2, 3) and word 6 (places 6, 7).
        "word_runs": [0.0, 0.5, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0],
    }


@pytest.mark.parametrize(
    "change",
    [
        changed_at("input_ids", 0, 5),
        changed_at("input_ids", 4, 5),
        changed_at("input_ids", 8, 5),
        changed_at("input_ids", 9, 5),
        changed_at("input_mask", 1, 0),
        changed_at("segment_ids", 4, 1),
        changed_at("segment_ids", 9, 1),
        changed_at("masked_lm_positions", 0, 0),
        changed_at("masked_lm_positions", 1, 4),
        changed_at("masked_lm_positions", 2, 8),
        changed_at("masked_lm_positions", 2, 1000),
        changed_at("masked_lm_positions", 0, 3),
        changed_at("masked_lm_positions", 3, 7),
        changed_at("masked_lm_weights", 0, 0.0),
        changed_at("masked_lm_weights", 0, 0.5),
        {"next_sentence_labels": [2]},
        {"next_sentence_labels": [layouts.NO_LABEL]},
        {**SINGLE_SEGMENT, "next_sentence_labels": [0]},
        {"input_mask": [0] * 10},
    ],
)
def test_records_with_a_mistake_are_not_well_formed(change):
    result = describe(features({}, change))
    assert result["well_formed"] == 0.5


@pytest.mark.parametrize("label", [1, 5, layouts.NO_LABEL])
def test_a_mistake_among_records_without_an_objective_counts_once(label):
    none, bad = (
        {**SINGLE_SEGMENT, "next_sentence_labels": [n]} for n in (0, label)
    )
    assert describe(features(none, none, bad, none))["well_formed"] == 0.75


def test_positions_out_of_order_are_counted():
    change = {"masked_lm_positions": [3, 2, 6, 0]}
    result = describe(features({}, change, change))
    assert result["unsorted_positions"] == 2


def test_long_runs_are_counted_as_the_longest():
    words = 9
    values = features({})
    values |= {
        "input_ids": np.array([[2] + [4] * words + [3, 11, 3]]),
        "input_mask": np.ones((1, words + 4), int),
        "segment_ids": np.array([[0] * (words + 2) + [1, 1]]),
        "token_boundary": np.ones((1, words + 4), int),
        "masked_lm_positions": np.arange(1, words + 1)[None],
        "masked_lm_ids": np.full((1, words), 11),
        "masked_lm_weights": np.ones((1, words)),
    }
    result = describe(values)
    assert result["word_runs"] == [0.0] * record_statistics.LONGEST_RUN + [1.0]


def test_runs_end_with_their_record():
    # The last word of a record and the first of the next are no neighbours.
    values = features({}, {})
    values["masked_lm_positions"] = np.array([[7, 0], [0, 0]])
    values["masked_lm_weights"] = np.array([[1.0, 0.0], [1.0, 0.0]])
    values["masked_lm_ids"] = np.array([[23, 0], [2, 0]])
    assert describe(values)["word_runs"][1:3] == [1.0, 0.0]


def test_counts_of_batches_add_up():
    changes = [{}, changed_at("masked_lm_weights", 2, 0.0), VALUES]
    whole = record_statistics.count(features(*changes), SPECIAL)
    total = {}
    for change in changes:
        total = statistics.add(
            total, record_statistics.count(features(change), SPECIAL)
        )
    assert record_statistics.summarize(total) == record_statistics.summarize(
        whole
    )


def test_a_file_of_the_original():
    (batch,) = record_statistics.read_batches(str(ORIGINAL))
    assert len(batch) == 353
    example = record_statistics.parse_example(batch[0], "path")
    layout = record_statistics.find_layout(example)
    shapes = {feature.name: feature.shape for feature in layout}
    assert shapes["input_ids"] == (128,)
    assert shapes["masked_lm_ids"] == (20,)
    features = record_statistics.parse_batch(layout, batch, "path")
    assert features["input_ids"].shape == (353, 128)


def test_records_without_masks_have_a_layout_without_them():
    kept = layouts.without_masks(LAYOUT)
    example = {feature.name: VALUES[feature.name] for feature in kept}
    found = {f.name for f in record_statistics.find_layout(example)}
    assert "input_ids" in found
    assert "masked_lm_ids" not in found


def test_other_records_have_no_layout():
    assert record_statistics.find_layout({"input_ids": [1, 2]}) is None


def test_records_that_cannot_be_read_are_refused(tmp_path):
    path, example = str(tmp_path / "a"), record_files.encode(LAYOUT, VALUES)
    record_files.write(path, [])
    with refused("holds no record"):
        list(record_statistics.read_batches(path))
    with refused(r"not a tf\.train\.Example"):
        record_statistics.parse_example(b"\xff\xff", "path")
    record_files.write(path, [example])
    layout = tuple(
        f if f.name != "input_ids" else type(f)(f.name, (3,), f.dtype)
        for f in LAYOUT
    )
    with refused("record 1 cannot be used: .*layout of the first one"):
        record_statistics.parse_batch(layout, [example], path)
