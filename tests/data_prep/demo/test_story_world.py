"""The island: seeded, stationary, and yet in an order that can be known."""

import io
import itertools
import random
import re

import sentencepiece

from data_prep import train_sentencepiece
from data_prep.demo import story_world as world
from tests.conftest import digest

SEED = 7


def test_texts_follow_from_their_seeds():
    """Golden values: the demo's numbers depend on these texts."""
    assert world.make_corpora(1, 20, 5) != world.make_corpora(2, 20, 5)
    rows = world.make_cola(random.Random(SEED), 50, set())
    texts = [world.format_cola(rows, labelled=value) for value in (True, False)]
    assert digest(*world.make_corpora(SEED, 99, 5)) == "b3603d2d5a78"
    assert digest(world.make_glossary()) == "9e931be23569"
    assert digest(*texts) == "1d478a0fe3fc"


def test_held_out_stories_are_new():
    train, dev = (
        set(text.strip().split("\n\n"))
        for text in world.make_corpora(SEED, 2000, 200)
    )
    assert len(train) == 2000 and len(dev) == 200
    assert not train & dev


def test_a_story_goes_round_the_road_and_the_year():
    """A place a sentence, a season two; who got the treasure holds it next."""
    story = world.tell_story(random.Random(SEED), 24)
    for before, after in itertools.pairwise(story):
        for slot, ring in (
            ("place", world.PLACES),
            ("weather", world.WEATHERS),
        ):
            here = ring.index(before.state[slot])
            assert after.state[slot] == ring[(here + 1) % len(ring)]
        holder = before.state.get("receiver", before.state["holder"])
        assert after.state["holder"] == holder
        assert {before.state[slot] for slot in before.slots} <= {
            *re.findall(r"\w+", before.text)
        }
    seasons = [sentence.state["season"] for sentence in story]
    changes = [a != b for a, b in itertools.pairwise(seasons)]
    assert sum(changes) in (11, 12)
    takes = [row[2] for row in world.ROAD]
    assert takes[1:] + takes[:1] == list(world.GOODS)


def test_cola_rows_are_balanced_and_told_apart_by_order_only():
    told = set()
    rows = world.make_cola(random.Random(SEED), 400, told)
    assert sum(label for _, label in rows) in range(150, 251)
    assert {text for text, _ in rows} == told
    assert len(told) == 400
    labels = [label for _, label in rows]
    assert 60 < sum(labels[:200]) < 140  # In random order.
    for text, label in rows:
        words = text.rstrip(".").split()
        fits = words[1] in world.SEASONS and words[4] in world.PLACES
        assert fits == bool(label), text
        assert {*words} & {*world.SEASONS} and {*words} & {*world.PLACES}


def test_default_size_gives_a_vocabulary_of_whole_words():
    text, _ = world.make_corpora(SEED, 3600, 1)
    text += world.make_glossary()
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text.lower().split("\n")),
        model_writer=model,
        vocab_size=400,
        minloglevel=2,
        **train_sentencepiece.RELEASED_SETTINGS,
    )
    tokenizer = sentencepiece.SentencePieceProcessor(
        model_proto=model.getvalue()
    )
    for word in (*world.SEASONS, *world.PLACES, *world.GOODS):
        assert tokenizer.encode(word, out_type=str) == [f"\u2581{word}"]
