"""Words of texts."""

import pytest

from albert_tf.text import words

ALONE = (
    "\u0e01\u0eff\u1000\u109f\u1780\u17ff\u3040\u30ff\u31f0\u31ff\uff66\uff9f"
)
OUTSIDE = "\u0e00\u0f00\u0fff\u10a0\u177f\u3100\uffa0"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(U.S. 東京)", ["(", "U.S", ".", "東", "京", ")"]),
        ("", []),
        (" \t\u3000", []),
        ("don't -- Jean-Luc!", ["don", "'", "t", "-", "-", "Jean-Luc", "!"]),
        ("Moore's, l’été", ["Moore", "'", "s", ",", "l", "’", "été"]),
        ("NHKのニュース", ["NHK", *"のニュース"]),
        ("नमस्ते दुनिया।", ["नमस्ते", "दुनिया", "।"]),
        ("a\u00a0b", ["a", "b"]),
        ("$5 a+b €x 2€", ["$", "5", "a+b", "€", "x", "2", "€"]),
        # The ends of blocks without spaces, and their neighbours.
        ("a".join(ALONE), [*"a".join(ALONE)]),
        ("a".join(OUTSIDE), ["a".join(OUTSIDE)]),
    ],
)
def test_words_are_found(text, expected):
    starts, ends = words.ranges(text)
    pairs = zip(starts, ends, strict=True)
    assert [text[start:end] for start, end in pairs] == expected


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("He saw 東 京A .", "He saw 東京A."),
        ("Globex Ltd. 's profit , it fell !", "Globex Ltd.'s profit, it fell!"),
        ("He did n't ( or wo n’t ) ...", "He didn't (or won’t)..."),
        ("L' eau qu' il a , d’ un", "L'eau qu'il a, d’un"),
        ('He said : " Go " ; " Why ? "', 'He said: "Go"; "Why?"'),
        ("„ Gut “ , “ No ” , « Oui » , » Ja «", "„Gut“, “No”, «Oui», »Ja«"),
        ("the workers ' union 's `` plan ''", "the workers' union's ``plan''"),
        ("¿ Por qué ? $ 5 [ a ]", "¿Por qué? $5 [a]"),
        ("goin' home :) at 5 - 6", "goin' home :) at 5 - 6"),
        ("科 技 2 0 1 4 年 ， i P 好 。", "科技2014年，iP好。"),
        ("NHK の ニュース", "NHKのニュース"),
        ("यह है ।", "यह है।"),
        ("I 'm a fan of 宇多田ヒカル .", "I'm a fan of 宇多田ヒカル."),
        ("我 在 Steve Jobs 的 公司", "我在Steve Jobs的公司"),
        ("I saw 東 京 大 学", "I saw東京大学"),
        ("we visited กรุงเทพ today", "we visited กรุงเทพ today"),
        ("", ""),
    ],
)
def test_words_are_joined_as_texts_are_written(written, text):
    found, starts = words.join(written.split())
    assert found == text
    parts = zip(starts.tolist(), written.split(), strict=True)
    assert all(text[i:].startswith(word) for i, word in parts)
