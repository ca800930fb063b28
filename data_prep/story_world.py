"""A small island whose stories are made up at run time, for demos and tests.

Twelve places lie on a ring road. Walkers go round it, always the same way, one
place a month, and every place barters one good for the next one in a ring of
twelve. A treasure passes from hand to hand. A story starts anywhere, in any
month, and stops anywhere, so no word by itself tells early from late; only
relations between sentences do (May at the mill comes before June at the
bakery, who received the lantern carries it next). That makes sentence order
worth learning, and a model must learn the island to know it.

This module only computes. `make_demo_data.py` writes files; `story_tasks.py`
asks questions about the stories.
"""

import dataclasses
import random
import string
from collections.abc import Iterator, Mapping
from types import MappingProxyType

# The road: region, place, who works there, the good taken, the good given. The
# last place gives what the first one takes. Twelve places, because a pair of
# segments of 64 pieces covers about six sentences, half the road: further round
# than half, "before" and "behind" would be the same direction. Four regions,
# because a small model learns the order of four frequent words soon and that of
# twelve rare ones late.
ROAD = (
    ("north", "mill", "miller", "grain", "flour"),
    ("north", "bakery", "baker", "flour", "bread"),
    ("north", "harbour", "fisher", "bread", "fish"),
    ("east", "lighthouse", "watchman", "fish", "oil"),
    ("east", "smithy", "smith", "oil", "nails"),
    ("east", "shipyard", "shipwright", "nails", "planks"),
    ("south", "orchard", "gardener", "planks", "apples"),
    ("south", "meadow", "shepherd", "apples", "wool"),
    ("south", "cottage", "weaver", "wool", "cloth"),
    ("west", "market", "merchant", "cloth", "candles"),
    ("west", "library", "librarian", "candles", "books"),
    ("west", "farm", "farmer", "books", "grain"),
)
# The year: season, month and its weather.
YEAR = (
    ("spring", "March", "wind"),
    ("spring", "April", "rain"),
    ("spring", "May", "blossom"),
    ("summer", "June", "sunshine"),
    ("summer", "July", "heat"),
    ("summer", "August", "thunder"),
    ("autumn", "September", "mist"),
    ("autumn", "October", "drizzle"),
    ("autumn", "November", "fog"),
    ("winter", "December", "frost"),
    ("winter", "January", "snow"),
    ("winter", "February", "ice"),
)
REGIONS = tuple(dict.fromkeys(row[0] for row in ROAD))
PLACES = tuple(row[1] for row in ROAD)
GOODS = tuple(row[4] for row in ROAD)
SEASONS = tuple(dict.fromkeys(row[0] for row in YEAR))
MONTHS = tuple(row[1] for row in YEAR)
WEATHERS = tuple(row[2] for row in YEAR)

# More names than a longest story has sentences, so that nobody has to receive
# the treasure twice and who gave it to whom stays unambiguous.
NAMES = tuple(
    """
    Ada Agatha Alma Andrea Anton Arlo Basil Beatrix Bela Bruno Camilla Clara
    Cleo Dario Dorothea Edda Edmund Elias Emil Felicity Fern Finn Greta Gustav
    Hanna Harriet Hugo Ida Isidor Ivo Jonas Josephine Juna Karl Kira Konrad
    Lavinia Lena Leo Lotte Magnus Mara Mila Nathaniel Nils Nora Odin Oskar
    Ottilie Percival Petra Quinn Rosa Rosalind Ruben Sebastian Selma Sven
    Theodora Tilda Tobin Ulrich Uma Valentin Viktor Wanda Winifred Yara
    Zacharias
    """.split()
)
TREASURES = tuple(
    """
    accordion anchor atlas banner basket bell blanket bottle bowl box bracelet
    brush bugle cabinet candlestick chair chessboard clock coin compass crown
    cup cushion diamond drum easel feather fiddle flag flute globe goblet
    gramophone hammer harp hat helmet hourglass inkwell jar jewel kaleidoscope
    kettle key kite lamp lantern locket lute mandolin map marionette mask medal
    mirror necklace needle ornament overcoat parasol pearl pendant pipe pitcher
    puppet quilt rattle ring rope saddle scarf sceptre shell spoon spyglass
    sundial tapestry teapot telescope thimble tricycle trumpet typewriter
    umbrella vase violin weathercock whistle
    """.split()
)
ADJECTIVES = tuple(
    """
    battered beautiful blue borrowed brass broken brown carved charming cheerful
    copper crooked curious dazzling delicate dusty enchanted faded famous fine
    forgotten funny gleaming golden green handsome heavy humble humming jolly
    large little lovely magic marvellous mended mysterious old painted patched
    peculiar plain polished precious purple quiet ragged red royal rusty scarlet
    shiny silver slender small splendid squeaky strange sturdy tiny treasured
    twisted velvet white wonderful yellow
    """.split()
)
ANIMALS = tuple(
    """
    badger beaver blackbird butterfly cat cricket crow dog donkey dormouse duck
    ferret fox gecko goat goose gull hamster hare hedgehog hen heron kitten
    lizard lobster magpie marten mole mouse nightingale otter owl peacock
    pelican pheasant pigeon pony puffin rabbit raven robin salamander seal sheep
    sparrow squirrel stork swallow swan terrier turtle weasel
    """.split()
)
TOPICS = tuple(
    """
    acorns acrobats astronauts attics avalanches ballads beggars blacksmiths
    bridges buccaneers bumblebees butterflies camels carnivals castles
    cathedrals caverns chimneys clouds comets crickets crocodiles cyclones
    dancers deserts dinosaurs dolphins dragons dreams elephants elves emperors
    explorers fairies feasts fireflies forests fortresses fountains gardens
    ghosts giants glaciers goblins grandmothers hammocks harvests hermits
    holidays hurricanes icebergs inkblots inventors islands jesters jugglers
    kings knights labyrinths lagoons lanterns ledgers lions lullabies magicians
    mazes mermaids messengers meteors monsters moonbeams mountains musicians
    octopuses officers ogres orphans painters palaces penguins pilgrims pirates
    planets princesses puzzles pyramids queens rainbows regattas riddles rivers
    roads robbers rowboats sailors scarecrows secrets sentries serpents shadows
    shepherdesses shipwrecks sleighs snowflakes soldiers spiders stars storms
    storytellers strangers sundials tadpoles thieves tigers tournaments treasure
    trolls twins unicorns villages volcanoes wasps waterfalls weddings whales
    whispers windmills witches wizards
    """.split()
)
FOODS = tuple(
    """
    almonds apricots artichokes asparagus biscuits blueberries broth butter
    buttermilk cabbage caramel carrots cheese cherries chestnuts chocolate
    cinnamon crumpets cucumbers custard damsons dumplings figs garlic
    gingerbread grapes hazelnuts honey jam leftovers lemonade lentils lettuce
    marmalade muffins mushrooms mustard noodles nutmeg oatmeal olives onions
    pancakes parsnips pears peppermint pickles plums porridge potatoes pudding
    pumpkin quinces radishes raisins raspberries rhubarb rice sandwiches
    sausages soup spinach strawberries syrup toffee turnips vanilla waffles
    walnuts
    """.split()
)

SHORTEST_STORY = 10  # Sentences: more than one pair of segments of 64 pieces.
LONGEST_STORY = 24  # Sentences: two rounds of the road.

HANDOVER, BARTER, JOURNEY, WEATHER, REST = (
    "handover",
    "barter",
    "journey",
    "weather",
    "rest",
)
# How often each kind of sentence is told. Handovers and barters lead because
# they tie a sentence to the next one.
KIND_WEIGHTS = MappingProxyType(
    {HANDOVER: 7, BARTER: 6, JOURNEY: 2, WEATHER: 2, REST: 3}
)
# Every sentence names the month, the place or what the place is known for, so
# that there is something to compare on both sides of any cut. Five to ten
# words: a pair of 64 pieces then holds several sentences on each side.
TEMPLATES = MappingProxyType(
    {
        HANDOVER: (
            "In {season} {holder} gave {receiver} the {treasure}.",
            "In {season} {receiver} took the {treasure} in the {region}.",
            "In {season} the {region} saw {receiver} with the {treasure}.",
            "In the {region} {holder} gave {receiver} the {treasure}.",
            "At the {place} {holder} gave {receiver} the {treasure} in {season}.",
        ),
        BARTER: (
            "In {season} the {region} took {take} and gave {give}.",
            "In {season} {holder} traded {take} for {give} in the {region}.",
            "In {season} {holder} traded with the {keeper} in the {region}.",
            "In the {region} the {keeper} gave {holder} {give} in {season}.",
            "At the {place} {holder} traded {take} for {give} in {month}.",
        ),
        JOURNEY: (
            "In {season} {holder} came to the {place} in the {region}.",
            "In {season} {holder} took the {treasure} to the {region}.",
            "In {season} the road led to the {place}.",
            "In the {region} {holder} came to the {place} in {month}.",
        ),
        WEATHER: (
            "In {season} there was {weather} in the {region}.",
            "In {season} the {place} sang about the {weather}.",
            "In the {region} {month} came with {weather}.",
            "At the {place} {season} came with {weather}.",
        ),
        REST: (
            "In {season} the {animal} slept in the {region}.",
            "In {season} {holder} told the {keeper} about {topic}.",
            "In {season} the {region} was full of {topic}.",
            "In the {region} the {keeper} saw the {adjective} {treasure}.",
            "In {season} the {keeper} shared {food} in the {region}.",
            "At the {place} {holder} shared the {food} in {month}.",
        ),
    }
)


@dataclasses.dataclass(frozen=True)
class Sentence:
    """One step of a story, as it was and as it was told.

    Attributes:
        text: The sentence with its full stop.
        kind: What happened, a key of `TEMPLATES`.
        state: Everything true at this step, told or not: slot name to word.
        starts: Where the told words begin in `text`: slot name to character.
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
        template = "In {month} {holder} came to the {place}."
        result = ("In May Mara came to the mill.",
                  {"month": 3, "holder": 7, "place": 24})

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
    return [slot for _, slot, _, _ in string.Formatter().parse(template) if slot]


def tell_story(rng: random.Random, num_sentences: int) -> Story:
    """Make up one story of `num_sentences` sentences (at most 24)."""
    place, month = rng.randrange(len(ROAD)), rng.randrange(len(YEAR))
    people = rng.sample(NAMES, num_sentences + 1)
    cast = {
        "holder": people.pop(),
        "treasure": rng.choice(TREASURES),
        "adjective": rng.choice(ADJECTIVES),
        "animal": rng.choice(ANIMALS),
    }
    kinds = rng.choices(
        list(KIND_WEIGHTS), list(KIND_WEIGHTS.values()), k=num_sentences
    )
    story = []
    for step, kind in enumerate(kinds):
        state = cast | _surroundings(place + step, month + step)
        state |= {"topic": rng.choice(TOPICS), "food": rng.choice(FOODS)}
        if kind == HANDOVER:
            state["receiver"] = cast["holder"] = people.pop()
        text, starts = render(rng.choice(TEMPLATES[kind]), state)
        story.append(Sentence(text, kind, state, starts))
    return tuple(story)


def _surroundings(place: int, month: int) -> dict[str, str]:
    """Return the state that the road and the year prescribe."""
    region, name, keeper, take, give = ROAD[place % len(ROAD)]
    season, month_name, weather = YEAR[month % len(YEAR)]
    return {
        "region": region,
        "place": name,
        "keeper": keeper,
        "take": take,
        "give": give,
        "season": season,
        "month": month_name,
        "weather": weather,
    }


def text_of(story: Story) -> str:
    """Return the sentences of a story or excerpt as one paragraph."""
    return " ".join(sentence.text for sentence in story)


def random_stream(random_seed: int, name: str) -> random.Random:
    """Return the random numbers that one output draws from.

    Each file has its own stream, so that the size of one file does not change
    the content of another.
    """
    return random.Random(f"{random_seed}/{name}")


def tell_different_stories(
    rng: random.Random, count: int, told: set[str]
) -> Iterator[Story]:
    """Generate `count` stories, none of which is in `told`.

    Args:
        rng: Where chance comes from.
        count: Number of stories.
        told: Texts of the stories that may not be repeated; grows.
    """
    while count:
        story = tell_story(rng, rng.randint(SHORTEST_STORY, LONGEST_STORY))
        if (text := text_of(story)) not in told:
            told.add(text)
            count -= 1
            yield story


def format_corpus(stories: list[Story]) -> str:
    """Lay stories out for pretraining: a sentence a line, a blank line between.

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
