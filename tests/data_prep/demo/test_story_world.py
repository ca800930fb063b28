"""The island: seeded, stationary, and yet in an order that can be known."""

import io
import itertools
import random
import re

import numpy as np
import pytest
import sentencepiece

from data_prep import train_sentencepiece
from data_prep.demo import story_world as world

SEED = 7
PAIR_WORDS = 50  # A pair of 64 pieces holds about as many words.
# Chance is 0.5; on 2,000 held-out pairs 0.54 is already 3.5 standard errors.
NEAR_CHANCE = 0.60
KNOWS_THE_ISLAND = 0.95


def make_pairs(text, rng):
    """Return (first segment, second segment, 1 if swapped) of each chunk."""
    pairs = []
    for story in text.strip().split("\n\n"):
        chunk = []
        for line in story.split("\n"):
            chunk.append(line)
            if len(" ".join(chunk).split()) >= PAIR_WORDS:
                cut = rng.randint(1, len(chunk) - 1)
                first, second = chunk[:cut], chunk[cut:]
                swapped = rng.random() < 0.5
                if swapped:
                    first, second = second, first
                pairs.append((first, second, int(swapped)))
                chunk = []
    return pairs


def split_words(lines):
    return re.findall("[a-z]+", " ".join(lines).lower())


def count_words(pairs, apart):
    """Return counts [pairs, words] of both segments, apart or added up."""
    words = {w for a, b, _ in pairs for w in split_words(a + b)}
    index = {word: i for i, word in enumerate(sorted(words))}
    counts = np.zeros((len(pairs), 2 * len(index)), np.float64)
    for row, (first, second, _) in enumerate(pairs):
        for word in split_words(first):
            counts[row, index[word]] += 1
        for word in split_words(second):
            counts[row, index[word] + apart * len(index)] += 1
    return counts


def held_out_accuracy(counts, labels, num_train):
    """Fit a ridge-penalized logistic regression by Newton's method."""
    x = np.hstack([counts, np.ones((len(counts), 1))])
    y = np.asarray(labels, np.float64)
    weights = np.zeros(x.shape[1])
    seen, target = x[:num_train], y[:num_train]
    for _ in range(4):
        p = 1 / (1 + np.exp(-(seen @ weights)))
        hessian = (seen.T * (p * (1 - p))) @ seen + 10 * np.eye(len(weights))
        gradient = seen.T @ (p - target) + 10 * weights
        weights -= np.linalg.solve(hessian, gradient)
    guesses = (x[num_train:] @ weights) > 0
    return float(np.mean(guesses == (y[num_train:] > 0.5)))


@pytest.fixture(scope="module")
def pairs():
    text, _ = world.make_corpora(SEED, 2500, 1)
    return make_pairs(text, random.Random(SEED))


@pytest.mark.parametrize("apart", [True, False])
def test_words_alone_do_not_tell_the_order(pairs, apart):
    counts = count_words(pairs, apart)
    labels = [label for _, _, label in pairs]
    num_train = len(pairs) - 2000
    assert num_train > 3000
    assert held_out_accuracy(counts, labels, num_train) <= NEAR_CHANCE


def end_of(lines, last, ring):
    """Return the position on a ring that the last or first sentence names."""
    words = split_words([lines[-1] if last else lines[0]])
    (position,) = {ring.index(word) for word in words if word in ring}
    return position


def follows(earlier, later):
    """Count the rings on which `later` goes on where `earlier` stops."""
    step = end_of(later, False, world.PLACES) - end_of(
        earlier, True, world.PLACES
    )
    turn = end_of(later, False, world.SEASONS) - end_of(
        earlier, True, world.SEASONS
    )
    return (step % 6 == 1) + (turn % 4 in (0, 1))


def test_who_knows_the_island_knows_the_order(pairs):
    right = 0.0
    for first, second, swapped in pairs:
        kept, exchanged = follows(first, second), follows(second, first)
        if kept == exchanged:  # Nobody can know: half of the guesses are right.
            right += 0.5
        else:
            right += (exchanged > kept) == bool(swapped)
    assert right / len(pairs) >= KNOWS_THE_ISLAND


def test_same_seed_same_text_other_seed_other_text():
    assert world.make_corpora(1, 20, 5) == world.make_corpora(1, 20, 5)
    assert world.make_corpora(1, 20, 5) != world.make_corpora(2, 20, 5)


def test_more_stories_keep_the_first_ones():
    short, _ = world.make_corpora(1, 5, 1)
    long, _ = world.make_corpora(1, 6, 1)
    assert long.startswith(short)


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


def test_every_word_has_one_meaning():
    pools = [
        world.NAMES,
        world.TREASURES,
        world.ANIMALS,
        world.TOPICS,
        world.FOODS,
        world.PLACES,
        world.KEEPERS,
        world.GOODS,
        world.SEASONS,
        world.WEATHERS,
    ]
    words = [word for pool in pools for word in pool]
    assert len(words) == len({*words})


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
