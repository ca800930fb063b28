"""Generate stories about a small island, and CoLA about them, for the demo.

Six places lie on a ring road. A story visits one place a sentence, always in
the same direction; a season lasts two sentences. Each place trades one good for
the next of six, and a treasure passes from person to person. A story starts and
stops at any place and in any season, so single words do not show whether a
sentence is early or late. Only relations between sentences do: the mill comes
before the bakery, and the person who received the lantern carries it in the
next sentence. So a model must learn these relations to predict sentence order.

This module only computes; `make_demo_data.py` writes files.
"""

import dataclasses
import itertools
import random
import re
import string
from collections.abc import Iterator, Mapping

# The road: place, who works there, the good taken, the good given. The last
# place gives what the first one takes. There are only six places and four
# seasons because a model of 300,000 parameters must see each word often: it
# learns the order of ten frequent words in a minute, but not that of twelve
# rarer ones in ten minutes.
ROAD = (
    ("mill", "miller", "grain", "flour"),
    ("bakery", "baker", "flour", "bread"),
    ("harbour", "fisher", "bread", "fish"),
    ("market", "merchant", "fish", "wool"),
    ("cottage", "weaver", "wool", "cloth"),
    ("farm", "farmer", "cloth", "grain"),
)
# The year: season and weather, one row a sentence.
YEAR = (
    ("spring", "rain"),
    ("spring", "wind"),
    ("summer", "sunshine"),
    ("summer", "thunder"),
    ("autumn", "mist"),
    ("autumn", "fog"),
    ("winter", "frost"),
    ("winter", "snow"),
)
PLACES, KEEPERS, _, GOODS = zip(*ROAD, strict=True)
_, WEATHERS = zip(*YEAR, strict=True)
SEASONS = tuple(dict(YEAR))

# More names than a story has sentences. So nobody receives the treasure twice,
# and it is unambiguous who gave it to whom.
NAMES = tuple(
    """
    Ada Adele Alma Anton Arlo Basil Bela Benno Bruno Clara Cleo Dario Dora Edda
    Elena Elias Emil Fern Finn Greta Hanna Helga Hugo Ida Ivo Jonas Juna Karl
    Kira Laura Lena Leo Linus Lotte Mara Mila Nils Nora Odin Oskar Rosa Sven Uma
    Yara
    """.split()
)
TREASURES = tuple(
    """
    abacus amulet anchor atlas bell bowl box brush bugle canoe cello chair cloak
    clock coin crown cup diary doll drum easel fan flag flute globe gong harp
    hat ivory jar jewel jug key kite lamp lute lyre map mask medal oboe pearl
    pipe purse quill quilt raft ring rope ruby scarf shell sled sofa spoon sword
    tiara tuba vase wand
    """.split()
)
ANIMALS = tuple(
    """
    ant bat bear bee bull cat crab crane crow deer dog duck eagle eel elk finch
    fox frog gecko goat goose gull hare hawk hen lamb lark lynx mare mole moth
    mule newt owl ox pony ram rat seal swan toad wolf worm wren
    """.split()
)
TOPICS = tuple(
    """
    acorns actors angels attics bards barons camels clouds clowns comets dames
    dreams duels dwarfs echoes elves fables feasts floods forges ghosts giants
    gnomes gulfs heroes hikers imps inns jokes judges kings lakes lions mazes
    monks moons nomads oaks oceans ogres omens owners pets pilots poems poets
    queens quests races rebels reefs relics rivers roads ruins spies stars tides
    twins wasps
    """.split()
)
FOODS = tuple(
    """
    bacon barley beans beef broth butter cake candy capers celery cereal chard
    cheese chips cider clams cocoa cod corn cream curry dates dill eggs figs
    fudge gravy ham herbs honey jam jelly juice kale leeks maple melon milk mint
    nuts pasta pears peas pies pizza plums rice sage salad salt soup stew sugar
    syrup tarts tea thyme toast tuna wheat
    """.split()
)
# All words that fill slots; no word is in two of them.
POOLS = (
    *(PLACES, KEEPERS, GOODS, SEASONS, WEATHERS),
    *(NAMES, TREASURES, ANIMALS, TOPICS, FOODS),
)

# Words to ask about stories with. No story says them, but the vocabulary has
# them, to be as large as that of configs/models/albert_tiny.json.
QUESTION_WORDS = tuple(
    """
    After At From It People Some The To What When Where Which Who a arrive
    arrived bargain belonged bought buy by did food from get goods got handed
    have in is made meal noticed obtained of on pass passed people place present
    reach reached receive received season seen share some something stories talk
    to walker walkers walking weather went were when where which who whom
    """.split()
)

SHORTEST_STORY = 10  # Sentences: more than one pair of segments of 64 pieces.
LONGEST_STORY = 24  # Sentences: four rounds of the road.

# Every sentence begins with season and place and has ten words: a tiny model
# learns quickly which words to compare in the two segments only if they are
# always at the same positions. A pair of 64 pieces holds six sentences.
OPENING = "In {season} at the {place} "
ENDINGS = {  # By kind.
    "handover": (
        "{holder} gave {receiver} the {treasure}.",
        "{receiver} took the {treasure} home.",
        "{receiver} took what {holder} gave.",
    ),
    "barter": (
        "{holder} traded {take} for {give}.",
        "the {keeper} gave {holder} {give}.",
        "{holder} and the {keeper} traded.",
    ),
    "journey": (
        "{holder} came with the {animal}.",
        "{holder} took the {treasure} along.",
        "the {animal} saw {holder} come.",
    ),
    "weather": (
        "there was much {weather} about.",
        "the {keeper} saw the {weather}.",
    ),
    "rest": (
        "the {keeper} shared the {food}.",
        "{holder} and the {animal} slept.",
        "{holder} talked about the {topic}.",
        "the {keeper} gave {holder} {food}.",
    ),
}
# Relative frequencies of the kinds. Handovers and barters are the most frequent
# because they connect a sentence with the next one.
WEIGHTS = 7, 6, 2, 2, 3


@dataclasses.dataclass(frozen=True)
class Sentence:
    """One step of a story."""

    text: str  # With its full stop.
    slots: tuple[str, ...]  # Names of the words that it says, in their order.
    # Everything true at this step, in the sentence or not: slot name to word.
    state: Mapping[str, str]


Story = tuple[Sentence, ...]


def tell_story(rng: random.Random, num_sentences: int) -> Story:
    """Make up one story of `num_sentences` sentences (at most 24)."""
    place, time = rng.randrange(len(ROAD)), rng.randrange(len(YEAR))
    people = rng.sample(NAMES, num_sentences + 1)
    cast = {
        "holder": people.pop(),
        "treasure": rng.choice(TREASURES),
        "animal": rng.choice(ANIMALS),
    }
    kinds = rng.choices([*ENDINGS], WEIGHTS, k=num_sentences)
    story = []
    for step, kind in enumerate(kinds):
        name, keeper, take, give = ROAD[(place + step) % len(ROAD)]
        season, weather = YEAR[(time + step) % len(YEAR)]
        state = cast | {
            "place": name,
            "keeper": keeper,
            "take": take,
            "give": give,
            "season": season,
            "weather": weather,
            "topic": rng.choice(TOPICS),
            "food": rng.choice(FOODS),
        }
        if kind == "handover":
            state["receiver"] = cast["holder"] = people.pop()
        template = OPENING + rng.choice(ENDINGS[kind])
        slots = [s for _, s, _, _ in string.Formatter().parse(template) if s]
        text = template.format(**state)
        story.append(Sentence(text, tuple(slots), state))
    return tuple(story)


def random_stream(random_seed: int, name: str) -> random.Random:
    """Return the random numbers for one output.

    Each file has its own stream, so that the size of one file does not change
    the content of another.
    """
    return random.Random(f"{random_seed}/{name}")


def tell_different_stories(
    rng: random.Random, count: int, used: set[str]
) -> Iterator[Story]:
    """Generate `count` stories, none of which is in `used`; add their texts."""
    while count:
        story = tell_story(rng, rng.randint(SHORTEST_STORY, LONGEST_STORY))
        text = " ".join(sentence.text for sentence in story)
        if text not in used:
            used.add(text)
            count -= 1
            yield story


def make_corpora(
    random_seed: int, num_train: int, num_dev: int
) -> tuple[str, str]:
    """Return the training text and the held-out text.

    They have one sentence a line and blank lines between stories. No story of
    the held-out text is in the training text.
    """
    used: set[str] = set()
    texts = []
    for name, count in (("train", num_train), ("dev", num_dev)):
        rng = random_stream(random_seed, f"corpus/{name}")
        stories = [
            "".join(f"{sentence.text}\n" for sentence in story)
            for story in tell_different_stories(rng, count, used)
        ]
        texts.append("\n".join(stories))
    return texts[0], texts[1]


def make_glossary() -> str:
    """Return every word of the stories and `QUESTION_WORDS`, one a line.

    Each is listed with and without a full stop, because SentencePiece proposes
    a piece only if it occurs in two different words. If it is trained on the
    stories and this glossary, a small vocabulary has a piece for every word.
    """
    templates = " ".join([OPENING, *itertools.chain(*ENDINGS.values())])
    text = re.sub(r"\{\w+\}", " ", templates)
    words = {*re.findall(r"[A-Za-z]+", text)}.union(*POOLS, QUESTION_WORDS)
    return "".join(f"{word} {word}.\n" for word in sorted(words))


def _make_nonsense(rng: random.Random, sentence: Sentence) -> str:
    """Exchange the season or the place with another word of a slot.

    Example:
        "In winter at the mill Mara traded." becomes
        "In Mara at the mill winter traded."
    """
    first = rng.choice(["season", "place"])
    second = rng.choice([s for s in sentence.slots if s != first])
    words = {sentence.state[first]: sentence.state[second]}
    words |= {right: left for left, right in words.items()}
    pattern = r"\b(" + "|".join(words) + r")\b"
    return re.sub(pattern, lambda match: words[match[0]], sentence.text)


def make_cola(
    rng: random.Random, num_rows: int, told: set[str]
) -> list[tuple[str, int]]:
    """Make rows for CoLA, half of them acceptable, in random order.

    An unacceptable sentence has the words of an acceptable one, with two of
    them exchanged. So only the order of the words shows the label. Sentences
    that were `told` are not repeated, and new ones are added to them. Returned
    are sentence and label (1 acceptable) of each row.
    """
    rows: list[tuple[str, int]] = []
    for label in rng.sample([0, 1] * (num_rows // 2 + 1), num_rows):
        text = ""
        while not text or text in told:
            (sentence,) = tell_story(rng, 1)
            text = sentence.text if label else _make_nonsense(rng, sentence)
        told.add(text)
        rows.append((text, label))
    return rows


def format_cola(rows: list[tuple[str, int]], *, labelled: bool) -> str:
    """Format rows as GLUE's CoLA file; only the test file has a header."""
    if not labelled:
        lines = [f"{index}\t{text}\n" for index, (text, _) in enumerate(rows)]
        return "index\tsentence\n" + "".join(lines)
    return "".join(
        f"isle\t{label}\t{'' if label else '*'}\t{text}\n"
        for text, label in rows
    )
