"""Texts that are hard to clean."""

import random
import unicodedata

# Hard to align: what is taken apart, composed, dropped or reordered.
HARD = [
    "",
    " \t ",
    "Caf\u00e9 \u00bd",
    "\ufb01 x  \u3000 y\u00a0",
    "in 2012, we, 1,024,",
    "\u00b4x a\u00adb\u00ad \u200b c\x01",
    "\ud55c\uad6d \u1112\u1161\u11abx\u11ab \u304b\u3099 \uff76",
    "q\u0307\u0323 a\u0301\u0323b \u0301 x",
    "\U0001f600 \U0001f468\u200d\U0001f469 \u0130I \u0391\u03a3 \u03a3.",
    "\ufeffa\0b \u09c7\u09be \u2581a",
]


def random_texts(count):
    """Texts of all scripts, with numbers, spaces and marks mixed in."""
    # TensorFlow's tables are older than Python's: leave out young capitals.
    known = unicodedata.ucd_3_2_0
    letters = [
        c
        for c in map(chr, range(1, 0x30000))
        if known.category(c)[0] in "LMNPSZC"
    ]
    letters = [
        c for c in letters if known.category(c) not in ("Cs", "Cn", "Co")
    ]
    common = " abcXYZ0129,,.\t-()'ΣςΑÉıİ\u0301\xa0\0今天"
    generator = random.Random(7)

    def character():
        return generator.choice(letters if generator.random() < 0.4 else common)

    return [
        "".join(character() for _ in range(generator.randint(0, 30)))
        for _ in range(count)
    ]


def mixed(count):
    """Short texts in which characters meet that act upon each other."""
    generator = random.Random(9)
    pool = sorted(set("".join(HARD) + "  \t\u0301\u0323eE,1"))
    return HARD + [
        "".join(generator.choices(pool, k=generator.randint(1, 15)))
        for _ in range(count)
    ]
