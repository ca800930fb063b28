"""Generate stories about a small island, for demos and tests.

Six places lie on a ring road. A story visits one place a sentence, always in
the same direction; a season lasts two sentences. Each place trades one good for
the next of six, and a treasure passes from person to person. A story starts and
stops at any place and in any season, so single words do not show whether a
sentence is early or late. Only relations between sentences do: the mill comes
before the bakery, and the person who received the lantern carries it in the
next sentence. So a model must learn these relations to predict sentence order.

This module only computes. `make_demo_data.py` writes files; `story_tasks.py`
asks questions about the stories.
"""

import dataclasses
import random
import string
from collections.abc import Iterator, Mapping
from types import MappingProxyType

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
PLACES = tuple(row[0] for row in ROAD)
KEEPERS = tuple(row[1] for row in ROAD)
GOODS = tuple(row[3] for row in ROAD)
SEASONS = tuple(dict.fromkeys(row[0] for row in YEAR))
WEATHERS = tuple(row[1] for row in YEAR)

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

SHORTEST_STORY = 10  # Sentences: more than one pair of segments of 64 pieces.
LONGEST_STORY = 24  # Sentences: four rounds of the road.

HANDOVER, BARTER, JOURNEY, WEATHER, REST = (
    "handover",
    "barter",
    "journey",
    "weather",
    "rest",
)
# Relative frequencies of the kinds of sentences. Handovers and barters are the
# most frequent because they connect a sentence with the next one.
KIND_WEIGHTS = MappingProxyType(
    {HANDOVER: 7, BARTER: 6, JOURNEY: 2, WEATHER: 2, REST: 3}
)
# Every sentence begins with season and place and has ten words: a tiny model
# learns quickly which words to compare in the two segments only if they are
# always at the same positions. A pair of 64 pieces holds six sentences.
OPENING = "In {season} at the {place} "
ENDINGS = MappingProxyType(
    {
        HANDOVER: (
            "{holder} gave {receiver} the {treasure}.",
            "{receiver} took the {treasure} home.",
            "{receiver} took what {holder} gave.",
        ),
        BARTER: (
            "{holder} traded {take} for {give}.",
            "the {keeper} gave {holder} {give}.",
            "{holder} and the {keeper} traded.",
        ),
        JOURNEY: (
            "{holder} came with the {animal}.",
            "{holder} took the {treasure} along.",
            "the {animal} saw {holder} come.",
        ),
        WEATHER: (
            "there was much {weather} about.",
            "the {keeper} saw the {weather}.",
        ),
        REST: (
            "the {keeper} shared the {food}.",
            "{holder} and the {animal} slept.",
            "{holder} talked about the {topic}.",
            "the {keeper} gave {holder} {food}.",
        ),
    }
)
TEMPLATES = MappingProxyType(
    {
        kind: tuple(OPENING + ending for ending in endings)
        for kind, endings in ENDINGS.items()
    }
)


@dataclasses.dataclass(frozen=True)
class Sentence:
    """One step of a story: its sentence, and everything true at this step.

    Attributes:
        text: The sentence with its full stop.
        kind: What happened, a key of `TEMPLATES`.
        state: Everything true at this step, in the sentence or not: slot name
            to word.
        starts: Where the words of slots begin in `text`: slot name to
            character.
    """

    text: str
    kind: str
    state: Mapping[str, str]
    starts: Mapping[str, int]


Story = tuple[Sentence, ...]


def render(
    template: str, state: Mapping[str, str]
) -> tuple[str, dict[str, int]]:
    """Fill the slots of a template.

    Example:
        template = "In {season} {holder} came to the {place}."
        result = ("In winter Mara came to the mill.",
                  {"season": 3, "holder": 10, "place": 27})

    Returns:
        The text, and the character at which each slot's word begins.
    """
    text, starts = "", {}
    for literal, slot, _, _ in string.Formatter().parse(template):
        text += literal
        if slot is not None:
            starts[slot] = len(text)
            text += state[slot]
    return text, starts


def slots_of(template: str) -> list[str]:
    """List the slots of a template in their order."""
    return [
        slot for _, slot, _, _ in string.Formatter().parse(template) if slot
    ]


def tell_story(rng: random.Random, num_sentences: int) -> Story:
    """Make up one story of `num_sentences` sentences (at most 24)."""
    place, time = rng.randrange(len(ROAD)), rng.randrange(len(YEAR))
    people = rng.sample(NAMES, num_sentences + 1)
    cast = {
        "holder": people.pop(),
        "treasure": rng.choice(TREASURES),
        "animal": rng.choice(ANIMALS),
    }
    kinds = rng.choices(
        list(KIND_WEIGHTS), list(KIND_WEIGHTS.values()), k=num_sentences
    )
    story = []
    for step, kind in enumerate(kinds):
        state = cast | _surroundings(place + step, time + step)
        state |= {"topic": rng.choice(TOPICS), "food": rng.choice(FOODS)}
        if kind == HANDOVER:
            state["receiver"] = cast["holder"] = people.pop()
        text, starts = render(rng.choice(TEMPLATES[kind]), state)
        story.append(Sentence(text, kind, state, starts))
    return tuple(story)


def _surroundings(place: int, time: int) -> dict[str, str]:
    """Return the part of the state that follows from road and year."""
    name, keeper, take, give = ROAD[place % len(ROAD)]
    season, weather = YEAR[time % len(YEAR)]
    return {
        "place": name,
        "keeper": keeper,
        "take": take,
        "give": give,
        "season": season,
        "weather": weather,
    }


def text_of(story: Story) -> str:
    """Return the sentences of a story or excerpt as one paragraph."""
    return " ".join(sentence.text for sentence in story)


def random_stream(random_seed: int, name: str) -> random.Random:
    """Return the random numbers for one output.

    Each file has its own stream, so that the size of one file does not change
    the content of another.
    """
    return random.Random(f"{random_seed}/{name}")


def tell_different_stories(
    rng: random.Random, count: int, told: set[str]
) -> Iterator[Story]:
    """Generate `count` stories, none of which is in `told`.

    Args:
        rng: Random numbers.
        count: Number of stories.
        told: Texts of stories that must not be repeated; new ones are added.
    """
    while count:
        story = tell_story(rng, rng.randint(SHORTEST_STORY, LONGEST_STORY))
        if (text := text_of(story)) not in told:
            told.add(text)
            count -= 1
            yield story


def format_corpus(stories: list[Story]) -> str:
    """Format stories for pretraining: one sentence a line, blank lines between.

    This is the input layout of `create_pretraining_data.py`.
    """
    return "\n".join(
        "".join(f"{sentence.text}\n" for sentence in story) for story in stories
    )


def make_corpora(
    random_seed: int, num_train: int, num_dev: int
) -> tuple[str, str]:
    """Return the training text and the held-out text.

    No story of the held-out text is in the training text.
    """
    told: set[str] = set()
    train = tell_different_stories(
        random_stream(random_seed, "corpus/train"), num_train, told
    )
    train_text = format_corpus(list(train))
    dev = tell_different_stories(
        random_stream(random_seed, "corpus/dev"), num_dev, told
    )
    return train_text, format_corpus(list(dev))
