"""Cut prose into sentences, in many languages, by rules.

sentencex proposes where sentences end, with the punctuation of all scripts and
abbreviations. This module keeps quotation marks and brackets with their
sentence, drops wrong proposals, and cuts Thai, which has no punctuation.
"""

import bisect
import functools
import re
from collections.abc import Iterator
from typing import Any

from albert_tf.common import packages
from albert_tf.common.options import option

# The default language of a script, and the letters of the script.
_SCRIPTS = {
    "th": "\u0e00-\u0e7f",
    "ja": "\u3040-\u30ff",
    "ko": "\u1100-\u11ff\uac00-\ud7a3",
    "zh": "\u3400-\u9fff",
    "ru": "\u0400-\u04ff",
    "ar": "\u0600-\u06ff",
    "hi": "\u0900-\u097f",
    "bn": "\u0980-\u09ff",
    "pa": "\u0a00-\u0a7f",
    "gu": "\u0a80-\u0aff",
    "ta": "\u0b80-\u0bff",
    "te": "\u0c00-\u0c7f",
    "kn": "\u0c80-\u0cff",
    "ml": "\u0d00-\u0d7f",
    "my": "\u1000-\u109f",
    "am": "\u1200-\u137f",
    "hy": "\u0530-\u058f",
    "el": "\u0370-\u03ff",
}
# All languages with rules.
LANGUAGES = tuple(
    sorted(
        {
            *("en", "bg", "ca", "da", "de", "es", "fi", "fr", "it", "kk"),
            *("mr", "nl", "pl", "pt", "sk", "tr", "uk", *_SCRIPTS),
        }
    )
)
_SAMPLE = 500  # Characters of a paragraph by which its script is found.
# Compiled when they are first used: that takes 12 ms.
_NOT_LATIN = "[\u0370-\u1dff\u2e80-\uffff]"
_LETTERS = {code: f"[{s}]" for code, s in _SCRIPTS.items()}
_ASCII_LETTERS = re.compile("[A-Za-z]")

# sentencex proposes no ends between quotation marks or brackets, so they are
# hidden from it. A number after a mark is hidden, too, because sentencex
# proposes no end before it.
_QUOTES = '"“”„‟«»‹›「」『』《》〈〉‘‚‛'
_BRACKETS = "()[]{}（）［］【】"
# It crashes on spaces of several bytes.
_SPACES = "\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
_HIDDEN = str.maketrans(
    dict.fromkeys(_QUOTES + _BRACKETS + _SPACES, " ") | {"…": "."}
)
_HAS_HIDDEN = re.compile(f"[{re.escape(_QUOTES + _BRACKETS + _SPACES)}…]")
_DIGIT = re.compile(r"(?<=[.!?] )\d(?!\. )")  # "N. " would be an initial.
_CLOSED_BEFORE = re.compile('[)\\]}"”’»](?=[.])')  # "etc)." is not "etc."
_REFERENCES = re.compile(r"(?:\s?\[\d{1,3}\])*")  # At the end of a sentence.
_CLOSERS = frozenset(")]}）］】”’'」』》〉›")
_OPENERS = frozenset('“„‟«»‹「『《〈‘‚‛"')
# Brackets with their content. Longer ones are treated as unclosed.
_LONGEST_QUOTATION = 300
_BRACKETED = re.compile(
    "|".join(
        f"{re.escape(a)}[^{re.escape(a + b)}]{{,{_LONGEST_QUOTATION}}}"
        + re.escape(b)
        for a, b in ("()", "[]", "（）", "［］", "【】")
    )
)
_NO_LETTER = re.compile(r"[\W_]{0,20}")
_CONTINUES = frozenset(",;:.!?…、，；：。！？،؛)]}）］】")
_INITIAL = re.compile(r"(?:(?<![\w'’])[^\W\d_]|(?<![A-Za-z'’])[A-Z])\.$")

# Languages with ordinals such as "3. Mai" and "Ludwig XIV."
_WITH_ORDINALS = frozenset({"de", "da", "fi", "tr", "sk", "pl", "ko"})
_ORDINAL = re.compile(r"(?:^|[^\w.,])(?:\d{1,2}|[IVXLC]+)\.$")
_WORD = re.compile(r"[^\s(\[\"“„«]+\.$")
# Abbreviations that sentencex lacks, without the last full stop.
_ABBREVIATIONS = {
    language: frozenset(words.split())
    for language, words in {
        "en": "ca d inc ltd fig jan mlle mmes cpl pvt cmdr insp supt msgr pres",
        "de": "z.b u.a d.h vgl abb bzw",
        "fr": "p.ex p cf fig art av me dr mme s.a s",
        "es": "p.ej pág art av s ud uds dra fig ee.uu uu sr sra",
        "ru": "т.е т.д т.п г гг ул д кв стр рис см тыс руб проф акад им св",
        "tr": "vb bkz s şek örn ltd şti a.ş m.ö m.s dr prof doç av",
        "ar": "د أ ص ق م",
        "hi": "डॉ श्री प्रो पं ए के रु",
    }.items()
}
# Those that end no sentence before a number or a letter that stands for one.
_BEFORE_NUMBERS = {
    language: frozenset(words.split())
    for language, words in {
        "en": "vol vols ch chs chap eq eqs fig figs tab tbl pp sec secs sect "
        "par para art arts app ref refs thm lem prop cor def ex no nos op pt "
        "pts bk fol ll vv ver approx max min mins avg est deg incl resp temp "
        "lat ft lb lbs oz hr hrs sq cu apt rm ed eds "
        "mon tue tues wed thu thur thurs fri",
        "de": "bd bde kap abs nr nrn s gl tab ca zit max min art",
        "fr": "vol chap éq fig tab p pp n env approx max min t liv sect",
        "es": "vol cap ec ecs fig tab p pp núm aprox máx mín t art",
        "ru": "т гл ур рис табл с стр прибл ок макс мин п ст №",
    }.items()
}
_NUMBER = re.compile(
    r"[([]?[-+−±~≈<>.]?[\d$£€#§№½¼]|[IVXLC]{2,}\b|[B-HJ-Z]\b|Celsius|Fahrenheit"
)
# "5 p.m. Monday" and "Mon. Jan. 5".
_HOUR = re.compile(r"\b(?:[ap]\.m|mon|tues?|wed|thurs?|thu|fri)\.$", re.I)
_DAY = re.compile(
    "(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day|(?:[CEMP][SD]?T|GMT|UTC)\\b|"
    "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\\.? \\d"
)
# "..." she said: in scripts without capital letters.
_SAYS = {
    "zh": re.compile("[^，。！？；“”「」\\s]{0,8}[说說问問道喊叫答想嚷]"),
    "ja": re.compile("と|って|という"),
}
_WITHOUT_CAPITALS = frozenset({"ar", "hi"})
_NO_LOWER = frozenset({"ar", "hi", "zh", "ja", "ko", "th"})

# In Thai a space ends a sentence, and often a clause. Both parts of a cut have
# at least this number of characters. Of 10 to 120, the values from 10 to 25 had
# the best F1 on annotated text, and 25 the best precision of these.
_THAI_PART = 25
_THAI_SPACE = re.compile(
    "(?<=[\u0e01-\u0e45\u0e47-\u0e4e]) +(?=[\u0e01-\u0e44])"
)


def split_paragraph(paragraph: str, language: str | None = None) -> list[str]:
    """Cut a paragraph into sentences; only white space is dropped.

    Example:
        'Mr. Fox left. "Why? I know." He ran.' becomes
        ['Mr. Fox left.', '"Why?', 'I know."', 'He ran.']

    The paragraph is one line. The language is one of `LANGUAGES`; None is the
    default of the script.
    """
    rules = language or detect_language(paragraph)
    bounds = [0, *_find_ends(paragraph, rules), len(paragraph)]
    if rules == "th":
        bounds = [*_thai_bounds(paragraph, bounds)]
    parts = [
        paragraph[begin:end].strip()
        for begin, end in zip(bounds, bounds[1:], strict=False)
    ]
    return [part for part in parts if part]


def detect_language(paragraph: str) -> str:
    """Return the default language of the script of a paragraph.

    It is English for Latin letters. Kana show Japanese, not Chinese.
    """
    sample = paragraph[:_SAMPLE]
    if sample.isascii() or not re.search(_NOT_LATIN, sample):
        return "en"
    counts = {
        code: len(re.findall(letters, sample))
        for code, letters in _LETTERS.items()
    }
    if counts["ja"]:
        counts["ja"] += counts.pop("zh")
    best = max(counts, key=counts.__getitem__)
    # Latin words have more letters than Chinese ones.
    latin = len(_ASCII_LETTERS.findall(sample))
    return best if counts[best] > latin / 4 else "en"


def language_option() -> Any:
    return option(
        None,
        "Language whose rules find the ends of sentences. Default: by the "
        "script of each paragraph, English for Latin letters.",
        choices=LANGUAGES,
        needs="split_sentences",
    )


@functools.cache
def require_sentencex() -> Any:
    return packages.require(
        "sentencex", install="pip install sentencex", argument="split_sentences"
    )


def _find_ends(paragraph: str, rules: str) -> Iterator[int]:
    """Yield where the sentences end, except the last one."""
    masked = paragraph
    if _HAS_HIDDEN.search(masked):
        masked = _CLOSED_BEFORE.sub("N", masked).translate(_HIDDEN)
    masked = _DIGIT.sub("N", masked)
    proposed = require_sentencex().segment(rules, masked)
    if len(proposed) < 2:
        return
    marks = _Marks(paragraph, rules)
    begin = end = 0
    for part in proposed[:-1]:
        end += len(part)
        cut = marks.end_of_sentence(begin, end)
        if cut > begin:
            yield cut
            begin = cut


class _Marks:
    """Quotation marks and brackets of a paragraph, to judge sentence ends."""

    def __init__(self, paragraph: str, rules: str) -> None:
        self._text, self._rules = paragraph, rules
        self._straight = [m.start() for m in re.finditer('"', paragraph)]
        self._brackets = [m.span() for m in _BRACKETED.finditer(paragraph)]
        self._bracket_starts = [start for start, _ in self._brackets]
        self._closers = _CLOSERS | set("“" if "„" in paragraph else "")
        first = re.search("[«»]", paragraph)
        if first:  # «French» or »German«.
            self._closers |= {"»" if first[0] == "«" else "«"}

    def end_of_sentence(self, begin: int, end: int) -> int:
        """Return where a sentence ends that may end at `end`; 0: it continues.

        `end` is after a mark, and any spaces and hidden characters behind it.
        """
        text = self._text
        behind = end  # Becomes the position after the mark.
        while behind > begin and (
            text[behind - 1].isspace() or text[behind - 1] in _ALL_HIDDEN
        ):
            behind -= 1
        closed = self._behind_closers(behind)
        after = _REFERENCES.match(text, closed).end()  # type: ignore[union-attr]
        while after < len(text) and text[after].isspace():
            after += 1
        if after == len(text) or behind == begin:
            return 0
        continues = (
            text[after] in _CONTINUES
            or self._is_lower_next(behind, after)
            or self._is_in_brackets(begin, closed)
            or (
                self._rules in _WITHOUT_CAPITALS
                and text.endswith("..", begin, behind)
            )
            or (
                text[behind - 1] == "." and self._is_short(begin, behind, after)
            )
            or (closed > behind and self._is_said(begin, behind, closed, after))
        )
        return 0 if continues else after

    def _behind_closers(self, index: int) -> int:
        """Return the position behind closing quotation marks, brackets."""
        text = self._text
        while index < len(text):
            char = text[index]
            if char == '"':
                if bisect.bisect_left(self._straight, index) % 2 == 0:
                    break
            elif char in " \u00a0\u202f":  # French.
                if text[index + 1 : index + 2] not in self._closers & {"»"}:
                    break
            elif char not in self._closers:
                break
            index += 1
        return index

    def _is_lower_next(self, behind: int, after: int) -> bool:
        if self._rules in _NO_LOWER or self._text[behind - 1] not in ".!?…":
            return False
        place = _NO_LETTER.match(self._text, after).end()  # type: ignore[union-attr]
        return self._text[place : place + 1].islower()

    def _is_in_brackets(self, begin: int, place: int) -> bool:
        """Tell whether brackets are open, or closed within a sentence."""
        index = bisect.bisect_left(self._bracket_starts, place) - 1
        if index < 0:
            return False
        start, end = self._brackets[index]
        if place < end:
            return True
        return place == end and start > begin

    def _is_short(self, begin: int, behind: int, after: int) -> bool:
        """Tell whether a full stop belongs to a word or a number."""
        head, rules = self._text[max(begin, behind - 24) : behind], self._rules
        if not any(map(str.isalpha, head)) and behind - begin <= 24:
            return True  # The number of a section.
        if rules == "th" or (head[-2:-1].isupper() and _INITIAL.search(head)):
            return True
        is_number = head[-2:-1].isdigit() and self._text[after].isdigit()
        if rules in _WITH_ORDINALS and (is_number or _ORDINAL.search(head)):
            return True
        word = _WORD.search(head)
        if word is None:
            return False
        name, text = word[0][:-1].lower(), self._text
        alone = re.split("['’]", name)[-1]  # French "l'éq."
        if alone in _BEFORE_NUMBERS.get(rules, ()) and _NUMBER.match(
            text, after
        ):
            return True
        if rules == "en" and _HOUR.search(head) and _DAY.match(text, after):
            return True
        return name in _ABBREVIATIONS.get(rules, ()) or (
            rules == "de" and word[0].endswith("str.")
        )

    def _is_said(
        self, begin: int, behind: int, closed: int, after: int
    ) -> bool:
        """Tell whether a phrase such as "she said" follows a quotation."""
        text = self._text
        if self._rules == "ko":
            return after == closed and "가" <= text[after] <= "힣"
        first = max(begin, behind - _LONGEST_QUOTATION)
        opened = max(text.rfind(char, first, behind) for char in _OPENERS)
        if opened > begin:
            return self._rules == "ja" and bool(_SAYS["ja"].match(text, after))
        if self._rules in _SAYS:
            return _SAYS[self._rules].match(text, after) is not None
        is_question = text[behind - 1] in "?!؟"
        return (
            self._rules in _WITHOUT_CAPITALS
            and is_question
            and text[after] not in _OPENERS
        )


_ALL_HIDDEN = frozenset(_QUOTES + _BRACKETS)


def _thai_bounds(paragraph: str, bounds: list[int]) -> Iterator[int]:
    """Yield bounds and, between them, spaces that may end a sentence."""
    begin = 0
    for end in bounds:
        for space in _THAI_SPACE.finditer(paragraph, begin, end):
            far = space.start() - begin >= _THAI_PART
            if far and end - space.end() >= _THAI_PART:
                yield space.end()
                begin = space.end()
        yield end
        begin = end
