"""Passages as lines of text, and what training draws from them."""

import re

import numpy as np
import pytest

from albert_tf.data import marks
from albert_tf.training import pretraining_options
from data_prep import inspect_records
from data_prep.inspection import record_text
from tests.conftest import refused
from tests.data_prep import writing
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
    assert record_text.is_passage(passage)
    assert not record_text.is_passage({**passage, **changes})
    assert not record_text.is_passage({"tokens": passage["tokens"]})


def test_passages_by_hand():
    """The first sentence began in the passage before."""
    passage = {
        "tokens": np.arange(5, 11),
        "marks": np.array([1, 0, 3, 8, 7, 128]),
        "document": np.array([4]),
    }
    text = record_text.PieceText(None)
    assert record_text.passage_lines(passage, text) == [
        "  document: 4, tokens: 6, sentences: 3",
        *("  - 5 6", "  - 7 8", "  - 9 10"),
    ]
    each = {**passage, "marks": passage["marks"] | 2}
    first, *_ = record_text.passage_lines(each, text)
    assert first.endswith("sentences: 6")
    counts = record_text.count_passage(passage)
    assert (counts["passages"], counts["pieces"]) == (1, 6)
    assert counts["marks"].tolist() == [3, 2, 1, 1, 0, 0, 0, 1]
    shown = record_text.count_lines({**counts, "passages": 4})
    assert shown[0] == "passages: 4 of 1.5 pieces on average"
    assert shown[2] == "  sentences: 2, 33.3% of the pieces"


# What training draws.


def inspect(base, **changes):
    inspect_records.run(
        inspect_records.InspectOptions(
            input_file=in_one(base).output_file,
            vocabulary=base.vocabulary,
            **{"num_examples": 3, "statistics": False, **changes},
        )
    )


def join(shown, name):
    """The text after a name, of all records, in one line."""
    found = re.findall(rf"^  {name}: (.*(?:\n     .*)*)", shown, re.M)
    return [" ".join(text.split()) for text in found]


@pytest.fixture
def pairs(base, capsys):
    """Shows three records; returns what follows one name and another."""

    def show(objective, *names):
        inspect(base, objective=objective)
        shown = capsys.readouterr().out
        found = [join(shown, name) for name in names]
        assert [*map(len, found)] == [3, 3]
        return zip(*found, strict=True)

    return show


def test_what_training_draws_is_shown(pairs):
    for order, text in pairs("plm", "order", "drawn"):
        hidden = re.findall(r"\[([^][]*?)→MASK\]", text)
        assert hidden and sorted(hidden) == sorted(order.split(", "))


def test_spans_are_shown_with_what_they_stand_for(pairs):
    for text, target in pairs("spans", "drawn", "target"):
        ids = re.findall(r"<\d+>", text)
        assert ids and ids == re.findall(r"<\d+>", target)
        assert target.endswith("[SEP]")


def test_a_task_about_sentences_is_shown_with_its_label(base, capsys):
    inspect(base, objective="mlm", sentence_objective="sop,distance")
    shown = capsys.readouterr().out
    found = re.findall(r"^  (sop|distance), label: (0|1|2|none)$", shown, re.M)
    assert len(found) == 3 and "→MASK]" in shown


def test_markers_of_discourse_are_shown_without_them(base, tmp_path, capsys):
    task = writing.markers(tmp_path, "it\nwe\nthe\nand\n")
    inspect(base, objective="mlm", num_examples=9, **task)
    labels = re.findall(
        r"^  discourse, label: ([0-3]|none)$", capsys.readouterr().out, re.M
    )
    assert len(labels) == 9 and set(labels) & {*"0123"}


def test_only_passages_are_drawn_from(base):
    path = writing.run(base).output_file
    with refused("`objective=mlm` is for pass"):
        inspect_records.run(
            inspect_records.InspectOptions(
                path, objective="mlm", vocabulary=base.vocabulary
            )
        )


def draw(tokenizer, lengths, task, max_seq_length=None):
    passages = [
        {
            "tokens": np.full(n, 9),
            "marks": np.full(n, marks.SENTENCE),
            "document": np.array([number]),
        }
        for number, n in enumerate(lengths)
    ]
    recipe = pretraining_options.RecipeOptions(sentence_objective=task)
    return record_text.draw_examples(
        passages, recipe, tokenizer, max_seq_length
    )


@pytest.mark.parametrize("task", ["nsp", "reordering", "dialogue"])
def test_without_a_manifest_no_passage_loses_its_end(tiny_tokenizer, task):
    found = draw(tiny_tokenizer, [1, 1], task)
    assert (found["input_mask"].sum(1) == 3).all()
    found = draw(tiny_tokenizer, [1, 1], task, 32)
    assert found["input_ids"].shape == (2, 32)


def test_examples_are_as_long_as_those_of_training(base, monkeypatch, capsys):
    given = []
    monkeypatch.setattr(
        record_text, "draw_examples", lambda *args: given.append(args[-1])
    )
    inspect(base, objective="mlm")
    assert given == [32]
