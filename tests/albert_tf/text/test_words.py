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


@pytest.mark.parametrize(
    ("written", "spans", "snapped"),
    [
        ("the U.S. won", [(4, 7), (7, 8)], [(4, 8)]),  # "U.S" and ".".
        ("J. Clark 's", [(0, 1), (3, 8), (8, 9)], [(0, 2), (3, 8), (8, 10)]),
        ("(Obama left", [(1, 6)], []),  # Its first part decides.
        ("do n't go", [(0, 3), (3, 4), (4, 5), (6, 8)], [(0, 5), (6, 8)]),
        ("Zoë 東京 é.", [(4, 5), (5, 6), (7, 8)], [(4, 6), (7, 9)]),
        ("", [], []),
    ],
)
def test_spans_are_snapped_to_the_words_that_were_written(
    written, spans, snapped
):
    written = written.split()
    text, _ = words.join(written)
    found = words.snap(
        [
            {"start": a, "end": b, "start_byte": 0, "end_byte": 0, "score": a}
            for a, b in spans
        ],
        written,
    )
    assert [(one["start"], one["end"]) for one in found] == snapped
    for one in found:
        part = text.encode()[one["start_byte"] : one["end_byte"]].decode()
        assert part == one["text"] == text[one["start"] : one["end"]]
