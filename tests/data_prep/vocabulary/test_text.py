"""The text that a vocabulary is trained on, without a training."""

import gzip
import os

import pytest

from albert_tf.common import errors
from albert_tf.text import normalization, wordpiece
from data_prep.vocabulary import letters, text
from tests.conftest import refused


def test_text_is_prepared_from_all_files(tmp_path, monkeypatch, tiny_vocab):
    (tmp_path / "a").write_bytes(b"one\n\ntwo \xc3\xbc")
    (tmp_path / "b.gz").write_bytes(gzip.compress("天天\n天地\n \n".encode()))
    monkeypatch.setattr(text, "REPORT_LINES", 3)
    settings = text.TrainingOptions(
        f"{tmp_path}/a,{tmp_path}/b.gz",
        f"{tmp_path}/new/vocab",
        compare_with=f"{tiny_vocab}, ",
    )
    monkeypatch.setattr(letters, "MANY_CHARACTERS", 0.3)
    found = text.prepare(settings, normalization.WORDPIECE, (".txt",))
    assert found.sample == ["one", "two ü", "天天"]
    lines = [line for line in found.lines if line.strip()]
    assert lines == ["one", "two ü", "天天", "天地"]
    assert found.rule == normalization.Normalization(
        keep_accents=True, kind=normalization.WORDPIECE
    )
    assert found.coverage == 0.9995
    assert [*found.others] == [tiny_vocab]
    assert (tmp_path / "new").is_dir()


def test_a_folder_for_reading_only_is_found_before_the_text(
    tmp_path, monkeypatch
):
    (tmp_path / "a").write_text("one\n")
    monkeypatch.setattr(
        text.os, "access", lambda path, mode: not mode & os.W_OK
    )
    monkeypatch.setattr(text, "read_lines", None)
    settings = text.TrainingOptions(f"{tmp_path}/a", f"{tmp_path}/vocab")
    with refused(f"Permission denied in .{tmp_path}"):
        text.prepare(settings, normalization.WORDPIECE, (".txt",))


@pytest.mark.parametrize("prefix", [".", "new/", "a/.."])
def test_a_folder_begins_no_names(prefix):
    settings = text.TrainingOptions("corpus.txt", prefix)
    with refused("is a folder. Add .*/vocab"):
        text.prepare(settings, normalization.WORDPIECE, (".txt",))


@pytest.mark.parametrize("size, count", [(1, 1), (2, 1), (3, 2), (99, 3)])
def test_sample_is_the_first_lines(monkeypatch, size, count):
    monkeypatch.setattr(text, "SAMPLE_CHARACTERS", size)
    lines = iter(["aü", "bc", "d"])
    found = text.read_sample(lines)
    assert len(found) == count
    assert [*found, *lines] == ["aü", "bc", "d"]


@pytest.mark.parametrize(
    ("english", "german"), [("a", "b"), ("a", "a"), ("b", "a")]
)
def test_all_files_decide_about_accents(tmp_path, monkeypatch, english, german):
    """Also a second one, behind as many characters as are looked at."""
    monkeypatch.setattr(text, "SAMPLE_CHARACTERS", 1000)
    for name, line in (english, "the mill\n"), (german, "schöne Mühlen\n"):
        with open(tmp_path / name, "a") as stream:
            stream.write(line * 200)
    paths = ",".join(str(tmp_path / n) for n in sorted({english, german}))
    settings = text.TrainingOptions(paths, str(tmp_path / "v"))
    found = text.prepare(settings, normalization.SENTENCEPIECE, (".model",))
    # One file is judged by its beginning.
    assert found.rule.keep_accents == (english != german)
    assert len([*found.lines]) == 400  # Each is read once more.


def counts_of(**changes):
    return {**dict.fromkeys(letters.NAMES, 0), "letters": 10_000, **changes}


@pytest.mark.parametrize(
    "marks, wanted, kept",
    [
        (40, None, False),
        (41, None, True),
        (0, True, True),
        (9000, False, False),
    ],
)
@pytest.mark.parametrize("kind", ["sentencepiece", "wordpiece"])
def test_accents_are_kept_where_many_letters_have_marks(
    marks, wanted, kept, kind, caplog
):
    caplog.set_level("INFO", "absl")
    rule = text.choose_normalization(
        counts_of(**{letters.LOST[kind]: marks}),
        kind,
        text.TrainingOptions(
            "a", "b", do_lower_case=False, keep_accents=wanted
        ),
    )
    assert rule == normalization.Normalization(False, kept, kind=kind)
    said = f"--keep_accents={str(kept).lower()}, because {marks / 100:.3f} %"
    assert (said in caplog.text) is (wanted is None)


@pytest.mark.parametrize(
    "kind, lower, accents, expected",
    [
        (normalization.SENTENCEPIECE, True, False, "e 1⁄2天 - a"),
        (normalization.SENTENCEPIECE, False, True, "É 1⁄2天 - a"),
        # WordPiece's rule separates Chinese characters and keeps fractions.
        (normalization.WORDPIECE, True, False, "e ½ 天 - a"),
        (normalization.WORDPIECE, False, True, "É ½ 天 - a"),
    ],
)
def test_text_is_cleaned_as_the_vocabulary_needs(
    kind, lower, accents, expected
):
    rule = normalization.Normalization(lower, accents, kind=kind)
    assert text.make_cleaner(rule)("É ½天 -\t a ").split() == expected.split()


@pytest.mark.parametrize(
    "chinese, given, expected",
    [(5000, None, 0.99995), (5001, None, 0.9995), (10_000, 0.98, 0.98)],
)
def test_coverage_is_lower_where_there_are_many_characters(
    chinese, given, expected, caplog
):
    caplog.set_level("INFO", "absl")
    counts = counts_of(letters_chinese_japanese=chinese)
    assert text.choose_coverage(counts, given) == expected
    is_said = "--character_coverage=0.9995, because 50 %" in caplog.text
    assert is_said == (expected == 0.9995)


def test_sentences_are_cleaned_and_counted():
    kept = ["a", "ü" * 2096, "-", "\u0939\u093f", "\ue000", "\u2586 \u2581"]
    invisible = ["\u2581", "\u200b\ufeff", "\x02 \x03", "\ufffd"]
    others = [" ", "ü" * 2096 + "x", "", "a \u2585 b"]
    lines = ["A", *kept[1:], *others, *invisible]
    found = text.Sentences(lines, lambda line: line.strip().lower())
    assert list(found) == kept
    assert (found.count, found.failure) == (len(kept), None)
    assert list(found.dropped.values()) == [1, 1, len(invisible)]


@pytest.mark.parametrize(
    "error", [errors.UserError("no text."), KeyboardInterrupt()]
)
def test_errors_while_reading_are_kept(error):
    def lines():
        yield "a"
        raise error

    found = text.Sentences(lines(), str)
    assert list(found) == ["a"]
    assert found.failure is error


@pytest.fixture
def vocab(tmp_path):
    pieces = [*wordpiece.SPECIAL_PIECES, "it", "rain", "##s", "é"]
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(pieces), encoding="utf-8")
    rule = normalization.Normalization(keep_accents=True, kind="wordpiece")
    normalization.write(str(path), rule)
    return str(path)


def test_numbers_of_a_text(vocab, tiny_vocab, caplog):
    tokenizer, _ = text.load([vocab, tiny_vocab]).values()
    lines = ["It rains", " it ☃ its it é"]
    found = text.measure(lines, tokenizer)
    whole = text.Text(iter(lines), tokenizer.normalization, 1.0, lines, {})
    with caplog.at_level("INFO", "absl"):
        whole.report(vocab)
    assert caplog.messages == [
        f"{vocab}: 9 pieces. In the first 2 lines 1.29 pieces a word, 1.78 "
        "characters a piece, 11.11 % unknown pieces, 57.1 % of the words in "
        "one piece"
    ]
    assert found == {
        "pieces a word": 9 / 7,
        "characters a piece": 16 / 9,
        "unknown pieces": 1 / 9,
        "words in one piece": 4 / 7,  # Neither ☃, nor "rains" and "its".
    }
