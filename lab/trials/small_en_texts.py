"""Gather and make the sentences that distill_small_en.sh learns from.

    python -m lab.trials.small_en_texts DATA SENTENCES

DATA has en/, corpora/, squad/ and sentences/, of which every text that is read
is CC BY, CC BY-SA or in the public domain. Words and patterns are in
small_en_words.json. Sentences that differ by a word or two are neighbours. No
text of the sets that lab.measure.sentences scores is among them.
"""

import csv
import itertools
import json
import lzma
import os
import pathlib
import random
import re
import sys
import tarfile
import types
from collections.abc import Iterator

Rng = random.Random
_MOST = 8  # Sentences of a group.
_FIRST_LINES = 178_391  # Before the questions; two teachers take their time.
_MEASURED = (
    "stsb_en_dev",
    "stsb_en_test",
    "sick_train_trial",
    "sts12",
    "sts13",
    "banking77_train",
    "clinc150_val",
    "trec_train",
    "subj_even",
)
_WORDS = pathlib.Path(__file__).with_name("small_en_words.json")
words = types.SimpleNamespace(**json.loads(_WORDS.read_text("utf-8")))
_QUOTED = re.compile(r"[\"“]([A-Z][^\"“”]{8,140}[.?!])[\"”]")
_SENTENCE = re.compile(r"[A-Z][^.?!\"“”]{10,150}[.?!](?=\s|$)")

_DEFINED = re.compile(
    r"((?:[A-Z][\w'’.-]+ ?(?:of |the |de |and )?){1,5})(?: \([^()]*\))?,? "
    r"(is|was|are|were) (?:an? |one of the |the )([a-z][\w -]{4,45}?)"
    r"(?= in | of | from | that | who | which | at | on | by | for | born|[.,])"
)
_STATED = re.compile(
    r"((?:The|This|These|A|An|His|Her|My|Their|Our)(?: [a-z]+){1,3}"
    r"|He|She|It|They|We|I|You|There|[A-Z][a-z]{2,12}) "
    r"(is|was|are|were|can|could|will|would|must|should) "
    r"([a-z][^.?!;:\"]{6,80})\.$"
)


def pick(rng: Rng, text: str) -> str:
    return rng.choice(text.split("|"))


def article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def ing(verb: str) -> str:
    if verb.endswith("ie"):
        return verb[:-2] + "ying"
    if verb.endswith("e") and not verb.endswith("ee"):
        return verb[:-1] + "ing"
    if verb in words.DOUBLED.split("|"):
        return verb + verb[-1] + "ing"
    return verb + "ing"


def participle(verb: str) -> str:
    if verb in words.PARTICIPLES:
        return words.PARTICIPLES[verb]
    if verb.endswith("e"):
        return verb + "d"
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return verb[:-1] + "ied"
    return verb + (verb[-1] if verb in words.DOUBLED.split("|") else "") + "ed"


def plural(noun: str) -> str:
    if noun in words.PLURALS:
        return words.PLURALS[noun]
    if noun.endswith(("s", "sh", "ch", "x")):
        return noun + "es"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + "s"


def captions(rng: Rng) -> list[str]:
    """Return sentences about one scene, each changed in another way."""
    who, other = pick(rng, words.PEOPLE), pick(rng, words.PEOPLE)
    if rng.random() < 0.25:
        who = pick(rng, words.ANIMALS)
    adjective, colour = pick(rng, words.LOOKS), pick(rng, words.COLOURS)
    place, place_2 = pick(rng, words.PLACES), pick(rng, words.PLACES)
    wear = f"in a {colour} {pick(rng, words.CLOTHES)}"
    wear_2 = f"in a {pick(rng, words.COLOURS)} {pick(rng, words.CLOTHES)}"
    number, number_2 = pick(rng, words.NUMBERS), pick(rng, words.NUMBERS)
    general = words.KINDS.get(who, "person")
    if who in words.ANIMALS.split("|"):
        general, wear, wear_2 = "animal", "", ""
        other = pick(rng, words.ANIMALS)
        acts = words.ANIMAL_ACTS
    else:
        acts = words.ACTS
    verb, objects = rng.choice(list(acts.items()))
    verb_2, objects_2 = rng.choice(list(acts.items()))
    if rng.random() < 0.3:  # Two that act on one another.
        verb = pick(rng, words.BETWEEN)
        thing, thing_2 = article(other), article(pick(rng, words.ANIMALS))
        mutual = True
    else:
        thing, thing_2 = pick(rng, objects), pick(rng, objects)
        mutual = False
    a, doing, done = article(who), ing(verb), participle(verb)
    object_ = f" {thing}" if thing else ""
    base = f"{a} is {doing}{object_}"
    lines = [
        base,
        f"{base} {place}",
        f"{article(general)} is {doing}{object_}",
        f"{article(other)} is {doing}{object_}",
        f"{a} is {doing} {thing_2}",
        f"{a} is not {doing}{object_}",
        f"there is no {who} {doing}{object_}",
        f"{a} is {ing(verb_2)} {pick(rng, objects_2)}",
        f"{a} is {ing(verb_2)} {pick(rng, objects_2)} {place}",
        f"the {who} is {doing}{object_} {place_2}",
        f"{article(adjective)} {who} is {doing}{object_} {place}",
        f"{article(pick(rng, words.LOOKS))} {who} is {doing}{object_}",
        f"{number} {plural(who)} are {doing}{object_}",
        f"{number_2} {plural(who)} are {doing}{object_} {place}",
        f"{a} {place} {doing}{object_}",
        f"{a} {wear} is {doing}{object_}",
        f"{a} {wear_2} is {doing}{object_} {place}",
        f"{a} and {article(other)} are {doing}{object_}",
        f"{a} is {doing}{object_} and {article(other)} is {ing(verb_2)}"
        f" {pick(rng, objects_2)}",
        f"{article(other)} is {ing(verb_2)} {pick(rng, objects_2)} {place}",
        f"{a} {pick(rng, words.POSTURES)} {place}",
        f"{article(adjective)} {who} {pick(rng, words.POSTURES)} {place_2}",
        f"the {who} {pick(rng, words.PHASES)} {doing}{object_}",
        f"nobody is {doing}{object_} {place}",
    ]
    if thing:
        lines += [f"{thing} is being {done} by {a}"] * 2
        lines += [f"{thing} is being {done} {place}"]
    if mutual:
        lines += [
            f"{thing} is {doing} {a}",
            f"{a} is being {done} by {thing}",
        ] * 2
    return [line for line in rng.sample(lines, 7) if "  " not in line]


def fill(rng: Rng, template: str, slots: dict[str, str]) -> list[str]:
    """Return a template filled several times, each time with one other word."""
    names = re.findall(r"\{(\w+)\}", template)
    values = {name: pick(rng, slots[name]) for name in names}
    lines = [template.format(**values)]
    for name in rng.choices(names, k=3) if names else ():
        values = {**values, name: pick(rng, slots[name])}
        lines.append(template.format(**values))
    return lines


def requests(rng: Rng) -> list[str]:
    """Return one wish said in several ways, and one or two others."""
    wishes = rng.choice(list(words.WISHES.values()))
    action = fill(rng, pick(rng, wishes), words.SLOTS)
    ways = rng.sample(words.WAYS.split("|"), 3)
    lines = [way.format(action[0]) for way in ways]
    lines += [rng.choice(ways).format(line) for line in action[1:2]]
    if rng.random() < 0.6:
        lines += fill(rng, pick(rng, words.PROBLEMS), words.SLOTS)[:2]
    if rng.random() < 0.3:
        lines += fill(rng, pick(rng, words.QUESTIONS), words.SLOTS)[:3]
    return lines


def news(rng: Rng) -> list[str]:
    return fill(rng, pick(rng, words.NEWS), words.SLOTS)


def edits(rng: Rng, line: str) -> list[str]:
    """Return a sentence of a text and what small changes make of it."""
    changed = [line]
    for pattern, replacements in rng.sample(words.EDITS, len(words.EDITS)):
        new, count = re.subn(pattern, pick(rng, replacements), line, count=1)
        if count and new not in changed:
            changed.append(new)
    halves = re.split(r", (?:and|but|so|because) ", line)
    if len(halves) == 2 and min(map(len, halves)) > 12:
        changed.append(halves[0] + ".")
    return changed[:4]


def books(data: str) -> list[str]:
    """Return what is said in books, and short sentences of them."""
    lines = []
    for name in ("corpora/gutenberg", "en/gutenberg_more"):
        with tarfile.open(f"{data}/{name}.tar.xz") as archive:
            for member in sorted(archive.getnames()):
                if not member.endswith(".txt"):
                    continue
                text = archive.extractfile(member).read().decode()
                text = " ".join(text.split()).replace("_", "")
                lines += _QUOTED.findall(text) + _SENTENCE.findall(text)[::4]
    return lines


def texts(data: str, name: str) -> list[str]:
    with lzma.open(f"{data}/{name}.xz", "rt", encoding="utf-8") as lines:
        return [" ".join(line.split("\t")[0].split()) for line in lines]


def passages(rng: Rng, data: str, most: int) -> list[str]:
    """Return two or three sentences each, as they follow one another."""
    lines = texts(data, "en/openstax.txt") + texts(
        data, "en/wikipedia_short.txt"
    )
    starts = rng.sample(range(len(lines) - 3), most)
    return [" ".join(lines[n : n + rng.choice((2, 3))]) for n in starts]


def asked(rng: Rng, line: str) -> list[str]:
    """Return questions about what a sentence of an encyclopedia is about."""
    match = _DEFINED.match(line)
    if not match:
        return []
    name, verb, kind = match.groups()
    person = words.PERSONS if re.search(words.PERSON, kind) else words.THINGS
    lines = [
        template.format(name=name, kind=kind, verb=verb)
        for template in rng.sample(person.split("|"), 3)
    ]
    lines.append(pick(rng, words.OF_A_KIND).format(kind=kind))
    return lines


def inverted(rng: Rng, line: str) -> list[str]:
    """Return a short statement as a question, alone and with a word before."""
    match = _STATED.match(line)
    if not match:
        return []
    subject, verb, predicate = match.groups()
    if subject.split()[0] in words.COMMON.split("|"):
        subject = subject[0].lower() + subject[1:]
    question = f"{verb} {subject} {predicate}?"
    return [
        question[0].upper() + question[1:],
        f"{pick(rng, words.ASKED)} {question}",
    ]


def squad(data: str) -> list[str]:
    """Return the questions of SQuAD's training parts."""
    lines = []
    for name in ("train-v1.1", "train-v2.0"):
        with lzma.open(f"{data}/squad/{name}.json.xz", "rt") as stream:
            articles = json.load(stream)["data"]
        lines += [
            " ".join(question["question"].split())
            for item in articles
            for paragraph in item["paragraphs"]
            for question in paragraph["qas"]
        ]
    return lines


def pairs(data: str, name: str) -> list[str]:
    """Return the texts of a table in sentences/."""
    with lzma.open(
        f"{data}/sentences/{name}.tsv.xz", "rt", encoding="utf-8", newline=""
    ) as stream:
        rows = list(
            csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE)
        )
    return [
        " ".join(row[column].split())
        for row in rows
        for column in ("text", "text_pair")
        if column in row
    ]


def more_groups(rng: Rng, data: str) -> Iterator[list[str]]:
    """Yield questions, captions, headlines, longer articles and passages."""
    short = texts(data, "en/wikipedia_short.txt")
    long = texts(data, "en/wikipedia_articles.txt")
    for lines, make, most in (
        (short, asked, 5_000),
        (long, asked, 3_000),
        (texts(data, "en/openstax.txt"), inverted, 4_000),
        (texts(data, "en/storybooks.txt"), inverted, 3_000),
    ):
        yield from [
            new
            for line in rng.sample(lines, len(lines))
            if (new := make(rng, line))
        ][:most]
    for line in squad(data) + pairs(data, "stsb_en_train"):
        yield [line]
    for line in rng.sample(long, 36_000):
        yield [line]
    for start in rng.sample(range(len(long) - 3), 14_000):
        yield [" ".join(long[start : start + rng.choice((2, 3, 4))])]
    for _ in range(3_000):
        yield requests(rng)


def is_sentence(line: str, most_words: int = 48) -> bool:
    count = len(line.split())
    return 3 <= count <= most_words and not line.startswith(("{", "["))


def text_groups(rng: Rng, data: str) -> Iterator[list[str]]:
    """Yield sentences of the sources, short ones with changed ones."""
    simple, singles = [], []
    for name, most in words.SOURCES:
        lines = books(data) if name == "books" else texts(data, name)
        lines = sorted({line for line in lines if is_sentence(line)})
        rng.shuffle(lines)
        short = [line for line in lines if len(line.split()) <= 14]
        if name not in words.UNEDITED:
            simple += short[: most // 6]
        singles += lines[:most]
    for line in simple:
        yield edits(rng, line)
    for line in singles + passages(rng, data, words.PASSAGES):
        yield [line]


def made_groups(rng: Rng) -> Iterator[list[str]]:
    """Yield sentences made by rule, with capitals and full stops or without."""
    for make, count in ((captions, 9_500), (requests, 5_500), (news, 3_000)):
        for _ in range(count):
            lines = make(rng)
            if make is captions:
                ends = [rng.choice((".", ".", "")) for _ in lines]
                lines = [
                    f"{line[0].upper()}{line[1:]}{end}"
                    for line, end in zip(lines, ends, strict=True)
                ]
            elif make is requests:
                lines = [
                    t[0].upper() + t[1:] if rng.random() < 0.6 else t
                    for t in lines
                ]
            yield lines


def letters(line: str) -> str:
    return "".join(filter(str.isalnum, line.lower()))


def gather(
    rng: Rng,
    sources: Iterator[list[str]],
    measured: set[str],
    seen: set[str],
    most_words: int,
) -> list[str]:
    """Return the new sentences, groups shuffled; `seen` gets them, too."""
    groups = []
    for lines in sources:
        new = [
            line
            for line in lines
            if is_sentence(line, most_words)
            and line not in seen
            and letters(line) not in measured
        ][:_MOST]
        seen.update(new)
        if new:
            groups.append(list(dict.fromkeys(new)))
    rng.shuffle(groups)
    return [line for group in groups for line in group]


def main(data: str, output: str) -> None:
    measured = {
        letters(line) for name in _MEASURED for line in pairs(data, name)
    }
    seen: set[str] = set()
    rng = Rng(1)
    sources = itertools.chain(text_groups(rng, data), made_groups(rng))
    lines = gather(rng, sources, measured, seen, 48)[:_FIRST_LINES]
    rng = Rng(2)
    lines += gather(rng, more_groups(rng, data), measured, seen, 72)
    with open(f"{output}.new", "w", encoding="utf-8") as stream:
        stream.writelines(f"{line}\n" for line in lines)
    os.replace(f"{output}.new", output)


if __name__ == "__main__":
    main(*sys.argv[1:])
