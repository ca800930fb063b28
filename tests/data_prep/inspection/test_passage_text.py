"""Passages as lines of text."""

import numpy as np
import pytest

from data_prep import inspect_records
from data_prep.inspection import passage_text, record_text
from tests.data_prep.writer.test_passages import in_one


def test_passages_are_shown_by_sentences_and_counted(base, capsys):
    path = in_one(base).output_file
    inspect_records.run(
        inspect_records.InspectOptions(
            input_file=path, num_examples=2, vocabulary=base.vocabulary
        )
    )
    shown = capsys.readouterr().out
    assert shown.count("  document: ") == 2 and "record 3" not in shown
    assert "  - " in shown and " .\n" in shown
    assert "passages: " in shown and "  documents: 24, " in shown
    assert "upper-case letters: 0, 0.0% of the pieces" in shown
    assert "pieces that continue a phrase: 0, 0.0% of" in shown


@pytest.mark.parametrize(
    "changes",
    [
        {"marks": np.array([1])},
        {"marks": np.array([1.0, 0.0], np.float32)},
        {"document": np.zeros(0, int)},
        {"document": [b"7"]},
        {"tokens": np.zeros(0, int), "marks": np.zeros(0, int)},
    ],
)
def test_damaged_passages_are_other_records(changes):
    passage = {
        "tokens": np.array([7, 8]),
        "marks": np.array([3, 0]),
        "document": np.array([5]),
    }
    assert passage_text.is_passage(passage)
    assert not passage_text.is_passage({**passage, **changes})
    assert not passage_text.is_passage({"tokens": passage["tokens"]})


def test_passages_by_hand():
    """The first sentence began in the passage before."""
    passage = {
        "tokens": np.arange(5, 11),
        "marks": np.array([1, 0, 3, 8, 7, 128]),
        "document": np.array([4]),
    }
    text = record_text.PieceText(None)
    assert passage_text.passage_lines(passage, text) == [
        "  document: 4, tokens: 6, sentences: 3",
        *("  - 5 6", "  - 7 8", "  - 9 10"),
    ]
    each = {**passage, "marks": passage["marks"] | 2}
    first, *_ = passage_text.passage_lines(each, text)
    assert first.endswith("sentences: 6")
    counts = passage_text.count(passage)
    assert (counts["passages"], counts["pieces"]) == (1, 6)
    assert counts["marks"].tolist() == [3, 2, 1, 1, 0, 0, 0, 1]
    shown = passage_text.lines({**counts, "passages": 4})
    assert shown[0] == "passages: 4 of 1.5 pieces on average"
    assert shown[2] == "  sentences: 2, 33.3% of the pieces"
