"""Phrases and entities that files list, as marks of passages."""

import numpy as np
import pytest

from albert_tf.data import manifests, marks, masking
from data_prep.writer import instances, token_blocks, units
from tests.conftest import refused
from tests.data_prep import writing


@pytest.fixture
def listed(tmp_path):
    """Writes a file and reads it."""

    def read(content):
        path = tmp_path / "units.txt"
        path.write_bytes(
            content if isinstance(content, bytes) else content.encode()
        )
        return units.read(str(path), "phrase_file")

    return read


@pytest.mark.parametrize(
    ("lines", "text", "found"),
    [
        # The longest, whatever the case and the space between words.
        (
            "new york\nNew York City\n\n",
            "In New  York city, new york",
            ["New  York city", "new york"],
        ),
        ("new york", "renew york new yorker", []),
        ("at home\nhome office", "at home office", ["at home"]),
        ("e.g.", "say, E. g. this", ["E. g."]),
        ("\u5317\u4eac", "\u5728\u5317\u4eac\u3002", ["\u5317\u4eac"]),
        ("\ufeffa b\r\nc d\r\n", "a b c d", ["a b", "c d"]),
        # Marks and joiners belong to words; other characters between words,
        # as marks of direction, do not.
        ("\u0939\u093f\u0928", "\u0939\u093f\u0928\u094d\u0926\u0940", []),
        (
            "\u0939\u093f\u0928\u094d\u0926\u0940",
            "\u0939\u093f\u0928\u094d\u0926\u0940 \u092e\u0947\u0902",
            ["\u0939\u093f\u0928\u094d\u0926\u0940"],
        ),
        ("cafe", "cafe\u0301 noir", []),
        ("noir\ne\u0301t", "cafe\u0301t noir", ["noir"]),
        (
            "\u0645\u06cc",
            "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
            [],
        ),
        ("\u0e01", "\u0e01\u0e34\u0e01", ["\u0e01"]),
        ("new york", "\u200fnew york\u200f, \u2764\ufe0f", ["new york"]),
        ("\u2764", "\u2764\ufe0f", []),
    ],
)
def test_the_longest_units_are_found(listed, lines, text, found):
    spans = listed(lines).find(text)
    assert [text[begin:end] for begin, end in spans] == found


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "names nothing. Write one phrase or entity a line"),
        (" \n\t\n", "names nothing"),
        (b"caf\xe9", "is not UTF-8: byte 4 of the file is 0xe9"),
    ],
)
def test_files_that_name_nothing_are_refused(listed, content, message):
    with refused(f"units.txt` {message}"):
        listed(content)


def test_pieces_inside_of_units_are_marked(tiny_tokenizer, listed):
    line = "We stay at home ."
    block = token_blocks.tokenize(
        [line],
        tiny_tokenizer,
        {"lines": 1},
        marking=token_blocks.Marking(
            {"phrases": listed("stay at home"), "entities": listed("we")}
        ),
    )
    assert block.counts["phrases"] == block.counts["entities"] == 1
    _, begins, ends = tiny_tokenizer.encode_with_offsets(line)
    inside = [
        begin + len(line[begin:end]) - len(line[begin:end].lstrip()) > 3
        and end <= 15
        for begin, end in zip(begins, ends, strict=True)
    ]
    assert 0 < sum(inside) < len(inside)
    assert (block.tokens & marks.PHRASE > 0).tolist() == inside
    assert not (block.tokens & marks.ENTITY).any()


@pytest.fixture
def wanted(base, tmp_path):
    """The base with phrases and entities; further options."""
    (tmp_path / "phrases.lst").write_text("at home\nold books\n")
    (tmp_path / "entities.lst").write_text("the fire\n")
    return {
        "records": "passages",
        "dupe_factor": 40,
        "masks": masking.MaskingOptions(),
        "phrase_file": str(tmp_path / "phrases.lst"),
        "entity_file": str(tmp_path / "entities.lst"),
    }


def test_records_have_the_marks_and_nothing_else_changes(base, wanted):
    found = writing.run(base, **wanted)
    arrays = writing.read_arrays(found)
    counts = manifests.find(found.output_file).corpus
    assert counts["phrases"] > 0 and counts["entities"] > 0
    # Each unit of two words has one that continues it.
    words = arrays["marks"] & marks.WORD > 0
    for bit, kind in (
        (marks.PHRASE, "phrases"),
        (marks.ENTITY, "entities"),
    ):
        assert (words & (arrays["marks"] & bit > 0)).sum() == counts[kind]
    wanted.update(phrase_file=None, entity_file=None, overwrite=True)
    plain = writing.read_arrays(writing.run(base, **wanted))
    arrays["marks"] &= ~(marks.PHRASE | marks.ENTITY)
    np.testing.assert_equal(arrays, plain)


def test_a_unit_of_other_words_is_refused(base, wanted, tmp_path):
    (tmp_path / "entities.lst").write_text("London\n")
    with refused("entities.lst` matches nothing in the text"):
        writing.run(base, **wanted)


def test_work_with_another_file_is_not_continued(
    base, wanted, tmp_path, monkeypatch
):
    writing.interrupt(base, monkeypatch, instances, "save", **wanted)
    (tmp_path / "entities.lst").write_text("the fire\nwe stay\n")
    with refused("entities.lst was changed"):
        writing.run(base, **wanted)
