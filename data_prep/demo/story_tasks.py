"""Tasks about the generated stories: CoLA, RTE, SQuAD 2.0, RACE, with answers.

Every claim or question is about one sentence, whose state determines what is
true. An answerable question is answered by exactly one sentence; a wrong claim
or an unanswerable question fits no sentence. The subject of a claim is drawn
before it is decided whether the claim is true, so the claim alone does not show
its label.

Excerpts are generated as short stories, which look like the middle of a long
one.

This module only computes, in the layouts of the official files.
"""

import dataclasses
import random
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from albert_tf.common import strict_json
from data_prep.demo import story_world as world

# Where the words of a slot come from.
POOLS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "holder": world.NAMES,
        "receiver": world.NAMES,
        "place": world.PLACES,
        "season": world.SEASONS,
        "take": world.GOODS,
        "give": world.GOODS,
        "weather": world.WEATHERS,
        "treasure": world.TREASURES,
        "topic": world.TOPICS,
        "food": world.FOODS,
    }
)
# Slots with an article, which may be part of the answer or not.
WITH_ARTICLE = frozenset({"place", "treasure"})
ARTICLE = "the "

# Share of the wrong claims and unanswerable questions that recombine words of
# the text, so that searching for words outside the text is not enough.
HARD_SHARE = 0.3
PREMISE_SENTENCES = (2, 3)
CONTEXT_SENTENCES = (6, 10)  # 50 to 90 words; SQuAD's have about 120.
ARTICLE_SENTENCES = MappingProxyType({"middle": (8, 10), "high": (14, 18)})

QUESTIONS_PER_CONTEXT = 5  # About as in SQuAD.
CONTEXTS_PER_TITLE = 5
IMPOSSIBLE_SHARE = 1 / 3  # As in the training file of SQuAD 2.0.
NUM_ANNOTATIONS = 3  # Answers to a question of SQuAD's development file.
ID_BITS = 96  # SQuAD's ids are 24 hexadecimal digits.

QUESTIONS_PER_ARTICLE = 4  # About as in RACE.
CLOZE_SHARE = 0.5  # Share of RACE questions with a gap to fill.
NUM_OPTIONS = 4  # RACE
# Wrong options that occur in the article, if there are that many.
NUM_TOLD_OPTIONS = 2
BLANK = "_"

Row = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Query:
    """A claim or question about one kind of sentence.

    Attributes:
        kind: The kind of sentence that it is about.
        wordings: Templates with the same slots; none is used by the stories.
        asked: The slot that is asked for; empty for a claim.
        cloze: The question as a sentence with a gap; empty for a claim.
    """

    kind: str
    wordings: tuple[str, ...]
    asked: str = ""
    cloze: str = ""

    @property
    def keys(self) -> tuple[str, ...]:
        """The slots that the wordings name."""
        return tuple(world.slots_of(self.wordings[0]))


# No claim names two things that the road or the year connect (place and goods,
# season and weather), because it could be judged without the premise.
CLAIMS = (
    Query(
        world.HANDOVER,
        (
            "{holder} handed something to {receiver}.",
            "{receiver} received something from {holder}.",
        ),
    ),
    Query(
        world.HANDOVER,
        (
            "{receiver} received the {treasure}.",
            "The {treasure} went to {receiver}.",
        ),
    ),
    Query(
        world.HANDOVER,
        (
            "{receiver} got a present in {season}.",
            "It was {season} when {receiver} got a present.",
        ),
    ),
    Query(
        world.HANDOVER,
        (
            "The {place} is where {receiver} got a present.",
            "{receiver} got a present at the {place}.",
        ),
    ),
    Query(
        world.BARTER,
        (
            "{holder} obtained some {give}.",
            "Some {give} went to {holder}.",
        ),
    ),
    Query(
        world.BARTER,
        (
            "{holder} made a bargain in {season}.",
            "It was {season} when {holder} made a bargain.",
        ),
    ),
    Query(
        world.BARTER,
        (
            "{holder} made a bargain at the {place}.",
            "The {place} is where {holder} made a bargain.",
        ),
    ),
    Query(
        world.JOURNEY,
        (
            "{holder} was walking in {season}.",
            "It was {season} when {holder} was walking.",
        ),
    ),
    Query(
        world.JOURNEY,
        (
            "{holder} reached the {place}.",
            "The {place} is where {holder} arrived.",
        ),
    ),
    Query(
        world.WEATHER,
        (
            "People at the {place} noticed the {weather}.",
            "The {weather} was noticed at the {place}.",
        ),
    ),
    Query(
        world.REST,
        (
            "People at the {place} talked about {topic}.",
            "The {topic} were seen at the {place}.",
        ),
    ),
)

QUESTIONS = (
    Query(
        world.HANDOVER,
        (
            "Who passed the {treasure} on to {receiver}?",
            "From whom did {receiver} receive the {treasure}?",
        ),
        "holder",
        "It was _ who passed the {treasure} on to {receiver}.",
    ),
    Query(
        world.HANDOVER,
        (
            "Who received the {treasure} from {holder}?",
            "To whom did {holder} pass on the {treasure}?",
        ),
        "receiver",
        "After {holder} the {treasure} belonged to _ .",
    ),
    Query(
        world.HANDOVER,
        (
            "When did {receiver} receive the {treasure}?",
            "In which season was the {treasure} passed on to {receiver}?",
        ),
        "season",
        "It was _ when {receiver} received the {treasure}.",
    ),
    Query(
        world.HANDOVER,
        (
            "Where did {receiver} receive the {treasure}?",
            "At which place was the {treasure} passed on to {receiver}?",
        ),
        "place",
        "{receiver} received the {treasure} at _ .",
    ),
    Query(
        world.HANDOVER,
        (
            "What did {holder} pass on to {receiver}?",
            "What did {receiver} receive from {holder}?",
        ),
        "treasure",
        "{receiver} received _ from {holder}.",
    ),
    Query(
        world.BARTER,
        (
            "What did {holder} get for {take}?",
            "Which goods did {holder} buy with {take}?",
        ),
        "give",
        "{holder} bought some _ with {take}.",
    ),
    Query(
        world.BARTER,
        (
            "Who bought some {give}?",
            "Which of the walkers got some {give}?",
        ),
        "holder",
        "Some {give} was bought by _ .",
    ),
    Query(
        world.BARTER,
        (
            "When did {holder} buy some {give}?",
            "In which season did {holder} get some {give}?",
        ),
        "season",
        "It was _ when {holder} bought some {give}.",
    ),
    Query(
        world.JOURNEY,
        (
            "Which place did {holder} reach in {season}?",
            "Where did {holder} arrive in {season}?",
        ),
        "place",
        "In {season} {holder} arrived at _ .",
    ),
    Query(
        world.JOURNEY,
        (
            "Who reached the {place}?",
            "Which of the walkers arrived at the {place}?",
        ),
        "holder",
        "The walker who arrived at the {place} was _ .",
    ),
    Query(
        world.WEATHER,
        (
            "What was the weather at the {place} in {season}?",
            "Which weather did people at the {place} have in {season}?",
        ),
        "weather",
        "The weather at the {place} in {season} was _ .",
    ),
    Query(
        world.REST,
        (
            "What did {holder} talk about in {season}?",
            "What were the stories of {holder} in {season} about?",
        ),
        "topic",
        "In {season} {holder} talked about _ .",
    ),
    Query(
        world.REST,
        (
            "What food was shared in {season}?",
            "What did people share for a meal in {season}?",
        ),
        "food",
        "In {season} people shared _ for a meal.",
    ),
)


def make_glossary() -> str:
    """Return every word of stories, claims and questions, one a line.

    Each is listed with and without a full stop, because SentencePiece proposes
    a piece only if it occurs in two different words. If it is trained on the
    stories and this glossary, a small vocabulary has a piece for every word.
    """
    templates = [t for group in world.TEMPLATES.values() for t in group]
    for query in CLAIMS + QUESTIONS:
        templates += [*query.wordings, query.cloze]
    pools = [*POOLS.values(), world.KEEPERS, world.ANIMALS]
    text = " ".join(re.sub(r"\{\w+\}", " ", t) for t in templates)
    words = {*re.findall(r"[A-Za-z]+", text)}.union(*pools)
    return "".join(f"{word} {word}.\n" for word in sorted(words))


def fits(sentence: world.Sentence, kind: str, words: Mapping[str, str]) -> bool:
    """Tell whether a step was of this kind and had these words in its state."""
    return sentence.kind == kind and all(
        sentence.state.get(slot) == word for slot, word in words.items()
    )


def words_in_text(story: world.Story, slot: str) -> list[str]:
    """List the words of a slot's pool that occur in the sentences, sorted."""
    told = {
        sentence.state[name]
        for sentence in story
        for name in sentence.starts
        if POOLS.get(name) is POOLS[slot]
    }
    return sorted(told)


def find_sources(
    query: Query, story: world.Story
) -> list[tuple[world.Sentence, dict[str, str]]]:
    """Find the sentences that contain all slots of a query.

    Returns:
        Each sentence with the words of the query's keys, if these words fit no
        other step of the story, so that the answer is unique.
    """
    found = []
    needed = {*query.keys, query.asked} - {""}
    for sentence in story:
        if sentence.kind == query.kind and needed <= sentence.starts.keys():
            words = {slot: sentence.state[slot] for slot in query.keys}
            if sum(fits(step, query.kind, words) for step in story) == 1:
                found.append((sentence, words))
    return found


def list_false_words(
    query: Query, words: Mapping[str, str], story: world.Story, *, hard: bool
) -> list[list[dict[str, str]]]:
    """List the replacements of one word after which no step of the story fits.

    Args:
        query: The claim or question.
        words: Its true words, by slot.
        story: The text.
        hard: Whether the new word comes from the text; otherwise it does not
            occur there.

    Returns:
        The possibilities, grouped by the slot that changes; no empty group.
    """
    groups = []
    for slot in words:
        told = words_in_text(story, slot)
        pool = told if hard else [w for w in POOLS[slot] if w not in told]
        groups.append(
            [
                false
                for false in (dict(words) | {slot: word} for word in pool)
                if len(set(false.values())) == len(false)
                and not any(fits(step, query.kind, false) for step in story)
            ]
        )
    return [group for group in groups if group]


def _tell(rng: random.Random, lengths: tuple[int, int]) -> world.Story:
    return world.tell_story(rng, rng.randint(*lengths))


def _shuffled(rng: random.Random, queries: tuple[Query, ...]) -> list[Query]:
    return rng.sample(queries, len(queries))


def _make_claim(rng: random.Random, label: str) -> tuple[str, str]:
    """Return a premise and a claim that could have been made for each label."""
    while True:
        premise = _tell(rng, PREMISE_SENTENCES)
        query = rng.choice(CLAIMS)
        for _, words in find_sources(query, premise):
            easy = list_false_words(query, words, premise, hard=False)
            hard = list_false_words(query, words, premise, hard=True)
            if not easy or not hard:
                continue
            if label != "entailment":
                groups = hard if rng.random() < HARD_SHARE else easy
                words = rng.choice(rng.choice(groups))
            claim, _ = world.render(rng.choice(query.wordings), words)
            return world.text_of(premise), claim


def make_rte(
    rng: random.Random, num_rows: int, told: set[tuple[str, str]]
) -> list[tuple[str, str, str]]:
    """Make rows for RTE, half of them entailed, in random order.

    Args:
        rng: Random numbers.
        num_rows: Number of rows.
        told: Premises and claims that must not be repeated; new ones are added.

    Returns:
        Premise, claim and label of each row.
    """
    labels = ["entailment", "not_entailment"] * (num_rows // 2 + 1)
    labels = rng.sample(labels[:num_rows], num_rows)
    rows = []
    for label in labels:
        while (pair := _make_claim(rng, label)) in told:
            pass
        told.add(pair)
        rows.append((*pair, label))
    return rows


def format_rte(rows: list[tuple[str, str, str]], *, labelled: bool) -> str:
    """Format rows as GLUE's RTE file; its test file has no labels."""
    header = ("index", "sentence1", "sentence2", "label")
    lines = [header, *((str(i), *row) for i, row in enumerate(rows))]
    width = len(header) if labelled else len(header) - 1
    return "".join("\t".join(line[:width]) + "\n" for line in lines)


def _make_nonsense(rng: random.Random, sentence: world.Sentence) -> str:
    """Exchange the season or the place with another word of a slot.

    Example:
        "In winter at the mill Mara traded." becomes
        "In Mara at the mill winter traded."
    """
    first = rng.choice(["season", "place"])
    second = rng.choice([s for s in sentence.starts if s != first])
    words = {sentence.state[first]: sentence.state[second]}
    words |= {right: left for left, right in words.items()}
    pattern = r"\b(" + "|".join(words) + r")\b"
    return re.sub(pattern, lambda match: words[match[0]], sentence.text)


def make_cola(
    rng: random.Random, num_rows: int, told: set[str]
) -> list[tuple[str, int]]:
    """Make rows for CoLA, half of them acceptable, in random order.

    An unacceptable sentence has the words of an acceptable one, with two of
    them exchanged. So only the order of the words shows the label.

    Args:
        rng: Random numbers.
        num_rows: Number of rows.
        told: Sentences that must not be repeated; new ones are added.

    Returns:
        Sentence and label (1 acceptable) of each row.
    """
    labels = rng.sample([0, 1] * (num_rows // 2 + 1), num_rows)
    rows = []
    for label in labels:
        while True:
            (sentence,) = world.tell_story(rng, 1)
            text = sentence.text if label else _make_nonsense(rng, sentence)
            if text not in told:
                break
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


def _annotate(story: world.Story, source: world.Sentence, slot: str) -> Row:
    before = story[: story.index(source)]
    start = sum(len(sentence.text) + 1 for sentence in before)
    return {
        "text": source.state[slot],
        "answer_start": start + source.starts[slot],
    }


def _with_article(answer: Row, context: str) -> Row:
    """Return the same answer as another annotator could mark it."""
    start = answer["answer_start"] - len(ARTICLE)
    if start < 0 or context[start : start + len(ARTICLE)] != ARTICLE:
        return answer
    return {"text": ARTICLE + answer["text"], "answer_start": start}


def _make_qas(
    rng: random.Random, story: world.Story, num_annotations: int
) -> Iterator[Row]:
    """Generate the questions of a SQuAD paragraph, each of a different kind."""
    context = world.text_of(story)
    for query in _shuffled(rng, QUESTIONS):
        sources = find_sources(query, story)
        if not sources:
            continue
        source, words = rng.choice(sources)
        impossible = rng.random() < IMPOSSIBLE_SHARE
        if impossible:
            hard = rng.random() < HARD_SHARE
            groups = list_false_words(query, words, story, hard=hard)
            if not groups:
                continue
            words = rng.choice(rng.choice(groups))
        answer = _annotate(story, source, query.asked)
        answers = [answer, _with_article(answer, context)]
        answers = [answers[i % 2] for i in range(num_annotations)]
        qa: Row = {
            "question": world.render(rng.choice(query.wordings), words)[0],
            "id": f"{rng.getrandbits(ID_BITS):024x}",
            "answers": [] if impossible else answers,
            "is_impossible": impossible,
        }
        if impossible:
            qa["plausible_answers"] = [answer]
        yield qa


def make_squad(
    rng: random.Random, num_questions: int, num_annotations: int = 1
) -> Row:
    """Make a file of SQuAD 2.0 with about `num_questions` questions.

    Args:
        rng: Random numbers.
        num_questions: Number of questions; there may be more, because the last
            paragraph is kept whole.
        num_annotations: Answers for each question: 1 for training, 3 in the
            development file, where the second one includes the article.
    """
    data: list[Row] = []
    count = 0
    while count < num_questions:
        paragraphs: list[Row] = []
        while len(paragraphs) < CONTEXTS_PER_TITLE and count < num_questions:
            story = _tell(rng, CONTEXT_SENTENCES)
            qas = list(_make_qas(rng, story, num_annotations))
            qas = qas[:QUESTIONS_PER_CONTEXT]
            count += len(qas)
            if qas:
                context = world.text_of(story)
                paragraphs.append({"qas": qas, "context": context})
        data.append({"title": f"Story_{len(data)}", "paragraphs": paragraphs})
    return {"version": "v2.0", "data": data}


def _make_options(
    rng: random.Random, story: world.Story, slot: str, right: str
) -> tuple[list[str], str]:
    """Return four options in random order, and the letter of the right one."""
    told = [w for w in words_in_text(story, slot) if w != right]
    wrong = rng.sample(told, min(NUM_TOLD_OPTIONS, len(told)))
    rest = [w for w in POOLS[slot] if w != right and w not in wrong]
    wrong += rng.sample(rest, NUM_OPTIONS - 1 - len(wrong))
    options = rng.sample([right, *wrong], NUM_OPTIONS)
    letter = "ABCD"[options.index(right)]
    article = ARTICLE if slot in WITH_ARTICLE else ""
    return [article + option for option in options], letter


def make_race_article(rng: random.Random, level: str, number: int) -> Row:
    """Make one article of RACE with its questions.

    Args:
        rng: Random numbers.
        level: "middle" or "high".
        number: Its number, as in the name of its file.
    """
    questions: list[str] = []
    while len(questions) < QUESTIONS_PER_ARTICLE:
        story = _tell(rng, ARTICLE_SENTENCES[level])
        questions = []
        options: list[list[str]] = []
        answers: list[str] = []
        for query in _shuffled(rng, QUESTIONS):
            if sources := find_sources(query, story):
                source, words = rng.choice(sources)
                wording = rng.choice(query.wordings)
                if rng.random() < CLOZE_SHARE:
                    wording = query.cloze
                right = source.state[query.asked]
                choices = _make_options(rng, story, query.asked, right)
                questions.append(world.render(wording, words)[0])
                options.append(choices[0])
                answers.append(choices[1])
    kept = slice(QUESTIONS_PER_ARTICLE)
    return {
        "article": world.text_of(story),
        "questions": questions[kept],
        "options": options[kept],
        "answers": answers[kept],
        "id": f"{level}{number}.txt",
    }


def to_json(value: Row) -> str:
    """Return an object as JSON on one line, as in the official files."""
    return strict_json.dumps(value) + "\n"
