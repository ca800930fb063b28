"""The island: seeded, stationary, and yet in an order that can be known."""

import io
import itertools
import random
import re

import sentencepiece

from data_prep import train_sentencepiece
from data_prep.demo import story_world as world

SEED = 7


def test_same_seed_same_text_other_seed_other_text():
    assert world.make_corpora(1, 20, 5) == world.make_corpora(1, 20, 5)
    assert world.make_corpora(1, 20, 5) != world.make_corpora(2, 20, 5)


def test_held_out_stories_are_new():
    train, dev = (
        set(text.strip().split("\n\n"))
        for text in world.make_corpora(SEED, 2000, 200)
    )
    assert len(train) == 2000 and len(dev) == 200
    assert not train & dev


def test_corpus_layout_and_size():
    train, _ = world.make_corpora(SEED, 360, 1)
    assert train.endswith(".\n") and not train.startswith("\n")
    for story in train.strip().split("\n\n"):
        lines = story.split("\n")
        assert 10 <= len(lines) <= 24
        for line in lines:
            assert re.fullmatch(r"In [a-z]+ at the [A-Za-z ]+\.", line)
            assert 7 <= len(line.split()) <= 10
    assert 2e6 <= 10 * len(train) <= 3.2e6  # Of the default, 3,600 stories.


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


def test_a_story_starts_anywhere_and_stops_anywhere():
    """So one word says nothing about what comes first."""
    rng = random.Random(SEED)
    stories = [*world.tell_different_stories(rng, 600, set())]
    assert {len(story) for story in stories} == {*range(10, 25)}
    for place in (0, -1):
        for slot, ring in (
            ("place", world.PLACES),
            ("weather", world.WEATHERS),
        ):
            found = [story[place].state[slot] for story in stories]
            assert {*found} == {*ring}
            assert max(map(found.count, ring)) < 1.5 * 600 / len(ring)


def test_every_word_has_one_meaning():
    words = [*itertools.chain(*world.POOLS)]
    assert len(words) == len({*words}) > 250


def test_the_glossary_has_every_word_twice():
    text, _ = world.make_corpora(SEED, 3600, 1)
    lines = world.make_glossary().splitlines()
    assert lines == sorted(lines)
    words = {line.split()[0] for line in lines}
    assert {*re.findall("[A-Za-z]+", text)} <= words
    assert lines == [f"{word} {word}." for word in sorted(words)]


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


def test_cola_layout():
    rows = [("In spring it rained.", 1), ("In rained it spring.", 0)]
    labelled = world.format_cola(rows, labelled=True)
    assert labelled == (
        "isle\t1\t\tIn spring it rained.\nisle\t0\t*\tIn rained it spring.\n"
    )
    assert world.format_cola(rows, labelled=False) == (
        "index\tsentence\n0\tIn spring it rained.\n1\tIn rained it spring.\n"
    )


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
