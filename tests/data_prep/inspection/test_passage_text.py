"""Passages as lines of text."""

from data_prep import inspect_records
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
