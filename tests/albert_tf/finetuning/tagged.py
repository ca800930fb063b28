"""Texts with tags that a tiny model can learn, and texts that are hard."""

import json

NAMES = {"Mara": "PER", "Ivo": "PER", "Lina": "PER", "Nord": "LOC"}
PLACES = ["the mill", "Nord Farm", "the old harbour", "Nord Mill"]


def sentences():
    """Yield words and tags of 36 sentences."""
    for name in ("Mara", "Ivo", "Lina"):
        for verb in ("went to", "stayed at", "saw"):
            for place in PLACES:
                words = [name, *verb.split(), *place.split(), "."]
                tags = ["O"] * len(words)
                tags[0] = "B-PER"
                if place.startswith("Nord"):
                    tags[-3:-1] = "B-LOC", "I-LOC"
                yield words, tags


def texts():
    """Yield the same as texts with spans."""
    for words, tags in sentences():
        text = " ".join(words)
        spans = [{"start": 0, "end": len(words[0]), "label": "PER"}]
        if "B-LOC" in tags:
            start = text.index("Nord")
            spans.append({"start": start, "end": len(text) - 2, "label": "LOC"})
        yield {"text": text, "spans": spans}


def write(path):
    """Write the sentences in columns."""
    lines = []
    for words, tags in sentences():
        lines += ["\t".join(row) for row in zip(words, tags, strict=True)]
        lines.append("")
    path.write_text("\n".join(lines) + "\n")
    return str(path)


HARD = [
    "",
    "   ",
    "Mara",
    " (Mara,  Ivo)… ",
    "Nord-Mill's Ivo; \u200bLina\u0301\u00a0x",
    "½ Ⅻ ﬁn 2012, 3,5 №",
    "東京タワーに行く。北京Ivo大学",
    "e\u0301cole Straße İI",
    "नमस्ते दुनिया 🙂👩‍👩‍👧 \ufffd\x07 a",
    "ヴァイオリン ﾊﾟｲﾌﾟ ไทย한국어",
    " ".join(["Mara went to Nord Farm and Ivo stayed."] * 12),
    "x" * 300,
]


def line(text):
    """Return a text as a line of JSON."""
    return json.dumps({"text": text}) + "\n"
