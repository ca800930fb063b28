"""Sentences in many languages."""

import random

import pytest

from data_prep.writer import sentences
from tests.conftest import ROOT

HARD = ROOT / "tests" / "data_prep" / "hard_sentences.txt"


def hard_cases():
    """Yield language, the paragraph with |, and whether it is split right."""
    language = ""
    for line in HARD.read_text("utf-8").splitlines():
        if line.startswith("@"):
            language = line[1:]
        elif line and not line.startswith("#"):
            yield language, line.removeprefix("!"), not line.startswith("!")


CASES = list(hard_cases())


def test_each_language_has_twenty_hard_cases():
    languages = [language for language, _, _ in CASES]
    assert min(languages.count(language) for language in languages) == 20
    wanted = set("en de fr es ru tr ar hi th zh ja ko".split())
    assert set(languages) == wanted <= set(sentences.LANGUAGES)
    assert set(sentences._SCRIPTS) <= set(sentences.LANGUAGES)


@pytest.mark.parametrize("language, marked, is_right", CASES)
def test_hard_cases(language, marked, is_right):
    """A line is marked with "!" in the file as long as it is wrong."""
    found = sentences.split_paragraph(marked.replace("|", ""), language)
    wanted = [part.strip() for part in marked.split("|")]
    assert (found == wanted) == is_right


def test_quotation_marks_and_brackets_stay_with_their_sentence():
    found = sentences.split_paragraph(
        "他说：“好的。”我们走吧！（真的。）他来了。"
    )
    assert found == ["他说：“好的。”", "我们走吧！", "（真的。）", "他来了。"]


@pytest.mark.parametrize("size", [300, 301])
def test_brackets_around_much_are_not_closed(size):
    content = "Rain. " + "Y" * (size - 6)
    text = f"So ({content}) it is. We go."
    cut = ["So (Rain.", f"{content[6:]}) it is."]
    first = cut if size > 300 else [text.removesuffix(" We go.")]
    assert sentences.split_paragraph(text) == [*first, "We go."]


@pytest.mark.parametrize(
    "paragraph, rules",
    [
        ("It rains.", "en"),
        ("Es regnet. Schön!", "en"),
        ("It’s “late” – so", "en"),
        ("Идёт дождь. A", "ru"),
        ("今天天气很好。OK", "zh"),
        ("今日は天気。", "ja"),
        ("오늘 날씨가 좋네요.", "ko"),
        ("هل أنت هنا؟", "ar"),
        ("वह घर गया।", "hi"),
        ("วันนี้อากาศดี", "th"),
        ("Καλημέρα.", "el"),
        ("The word привет is used in a Russian letter as a greeting.", "en"),
        ("Слово computer science", "ru"),  # 5 of 15: more than a quarter.
        ("Слово in computer science", "ru"),
        ("Слово in a computer science", "ru"),
        ("Слово in the computer science", "en"),  # 5 of 20.
        ("a" * 499 + "\u0434" * 900, "en"),  # Only 500 are looked at.
        ("12. 3. !", "en"),
        ("", "en"),
    ],
)
def test_without_a_language_the_script_decides(paragraph, rules):
    assert sentences.detect_language(paragraph) == rules


# A space in Thai divides if it is far from both ends of a sentence.
FAR, NEAR = "ก" * 25, "ก" * 24


@pytest.mark.parametrize(
    "marked",
    [
        f"{FAR} |{FAR}",
        f"{FAR} {NEAR}",
        f"{NEAR} {FAR}",
        f"{FAR} |{FAR} |{FAR} {NEAR}",
        # A mark ends a sentence; its end counts with the mark and its space.
        f"{FAR} {NEAR[2:]}! |{FAR}",
        f"{FAR} |{FAR[2:]}! |{FAR}",
        f"{FAR}! |{NEAR} {FAR}",
        f"{FAR}! |{FAR} |{FAR}",
        f"{FAR} |{FAR}! |{NEAR} {NEAR}! |{FAR} |{FAR}",
    ],
)
def test_spaces_divide_thai_far_from_the_ends_of_a_sentence(marked):
    found = sentences.split_paragraph(marked.replace("|", ""))
    assert found == [part.strip() for part in marked.split("|")]


def test_the_language_makes_a_difference():
    text = "Am 3. Oktober war es kalt."
    assert sentences.split_paragraph(text, "de") == [text]
    assert sentences.split_paragraph(text, "en") != [text]


PIECES = [
    *"a B 12 3. . ! ? … 。 ！ ” “ „ ' \" « » ( ) 「 」 । ؟".split(),
    *"你 ก ไทย Б é 😀 — ...".split(),
]


def test_nothing_is_lost_from_random_text():
    for seed in range(3000):
        generator = random.Random(seed)
        words = generator.choices(PIECES, k=generator.randint(0, 40))
        text = generator.choice(["", " "]).join(words)
        language = generator.choice([None, *sentences.LANGUAGES])
        found = sentences.split_paragraph(text, language)
        assert "".join(found).replace(" ", "") == text.replace(" ", "")
        assert all(part == part.strip() != "" for part in found)


@pytest.mark.parametrize(
    "unit", ["! ", "- . ", "“好！”说", '"a! b." C, ', "(a.) B ", 'अ! " ', "(. "]
)
def test_long_paragraphs_of_marks_are_split(unit):
    """Looking at the whole text for each end would take an hour here."""
    text = (unit * 50_000).strip()
    found = sentences.split_paragraph(text)
    assert "".join(found).replace(" ", "") == text.replace(" ", "")


def test_spaces_of_several_bytes_are_spaces():
    """They let sentencex 1.0.32 panic, in Spanish at least."""
    for space in "\x85\xa0\u2003\u2028\u202f\u3000":
        text = f"Ha. B.{space}C. Я{space}д. 你{space}Dr. A{space}B.{space}"
        for language in sentences.LANGUAGES:
            found = sentences.split_paragraph(text, language)
            assert "".join("".join(found).split()) == "".join(text.split())
