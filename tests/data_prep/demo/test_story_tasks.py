"""RTE, SQuAD and RACE about the island: right answers in official layouts.

Answers are checked against the text, read back by the stories' templates.
"""

import json
import math
import random
import re

import pytest

from data_prep.demo import story_tasks as tasks
from data_prep.demo import story_world as world

SEED = 7
CLAIM_ALONE = 0.56  # Chance is 0.5, its standard error here 0.011.


def to_pattern(template):
    pattern, seen = "", set()
    for part in re.split(r"(\{\w+\})", template):
        if not part.startswith("{"):
            pattern += re.escape(part)
            continue
        slot = part[1:-1]
        pattern += f"(?P={slot})" if slot in seen else f"(?P<{slot}>\\w+)"
        seen.add(slot)
    return re.compile(pattern)


STORY_PATTERNS = [
    (kind, to_pattern(template))
    for kind, templates in world.TEMPLATES.items()
    for template in templates
]


def read_sentence(text):
    """Return kind and words of a sentence, as far as it says them."""
    found = []
    for kind, pattern in STORY_PATTERNS:
        if match := pattern.fullmatch(text):
            words = match.groupdict()
            if all(
                word in tasks.POOLS[slot]
                for slot, word in words.items()
                if slot in tasks.POOLS
            ):
                found.append((kind, words))
    assert len(found) == 1, text
    return found[0]


def read_story(text):
    return [
        read_sentence(line)
        for line in re.findall(r"[^.]+\.", text)
        for line in [line.strip()]
    ]


def read_query(text, queries, wordings):
    for query in queries:
        for wording in wordings(query):
            match = to_pattern(wording).fullmatch(text)
            if match and all(
                word in tasks.POOLS[slot]
                for slot, word in match.groupdict().items()
            ):
                return query, match.groupdict()
    raise AssertionError(text)


def says(sentence, query, words):
    """Tell whether a sentence says all of `words`."""
    kind, told = sentence
    return kind == query.kind and words.items() <= told.items()


@pytest.fixture(scope="module")
def rte():
    rng = random.Random(SEED)
    return tasks.make_rte(rng, 4000, set())


def test_rte_is_balanced_and_not_sorted(rte):
    labels = [label for *_, label in rte]
    assert labels.count("entailment") == 2000
    assert 900 < labels[:2000].count("entailment") < 1100


def test_rte_premises_say_what_is_entailed(rte):
    for premise, claim, label in rte:
        query, words = read_query(
            claim, tasks.CLAIMS, lambda query: query.wordings
        )
        story = read_story(premise)
        assert 2 <= len(story) <= 3
        said = any(says(sentence, query, words) for sentence in story)
        assert said == (label == "entailment"), (premise, claim)


def test_rte_some_wrong_claims_only_use_words_of_the_premise(rte):
    wrong = [row for row in rte if row[2] == "not_entailment"]
    hard = 0
    for premise, claim, _ in wrong:
        _, words = read_query(claim, tasks.CLAIMS, lambda query: query.wordings)
        hard += all(word in premise for word in words.values())
    assert 0.25 < hard / len(wrong) < 0.35


def test_rte_claims_alone_tell_nothing(rte):
    seen, held_out = rte[:2000], rte[2000:]
    scores = {}
    for label, sign in (("entailment", 1), ("not_entailment", -1)):
        counts = {}
        for _, claim, its_label in seen:
            if its_label == label:
                for word in {*claim.split()}:
                    counts[word] = counts.get(word, 0) + 1
        for word, count in counts.items():
            scores[word] = scores.get(word, 0) + sign * math.log(1 + count)
    guesses = [
        sum(scores.get(word, 0) for word in {*claim.split()}) > 0
        for _, claim, _ in held_out
    ]
    right = sum(
        guess == (label == "entailment")
        for guess, (*_, label) in zip(guesses, held_out, strict=True)
    )
    assert 1 - CLAIM_ALONE <= right / len(held_out) <= CLAIM_ALONE


def test_rte_rows_are_not_repeated():
    told = set()
    rows = tasks.make_rte(random.Random(1), 50, told)
    rows += tasks.make_rte(random.Random(1), 50, told)
    assert len({row[:2] for row in rows}) == 100


def test_rte_layout():
    rows = [("A b.", "C d.", "entailment"), ("E.", "F.", "not_entailment")]
    assert tasks.format_rte(rows, labelled=True) == (
        "index\tsentence1\tsentence2\tlabel\n"
        "0\tA b.\tC d.\tentailment\n"
        "1\tE.\tF.\tnot_entailment\n"
    )
    assert tasks.format_rte(rows, labelled=False) == (
        "index\tsentence1\tsentence2\n0\tA b.\tC d.\n1\tE.\tF.\n"
    )


@pytest.fixture(scope="module")
def squad():
    return tasks.make_squad(random.Random(SEED), 1500, 3)


def list_questions(squad):
    return [
        (paragraph["context"], qa)
        for article in squad["data"]
        for paragraph in article["paragraphs"]
        for qa in paragraph["qas"]
    ]


def test_squad_layout(squad):
    assert squad["version"] == "v2.0"
    for article in squad["data"]:
        assert set(article) == {"title", "paragraphs"}
        for paragraph in article["paragraphs"]:
            assert set(paragraph) == {"qas", "context"}
            assert 1 <= len(paragraph["qas"]) <= 5
    questions = list_questions(squad)
    assert 1500 <= len(questions) <= 1504
    keys = {"question", "id", "answers", "is_impossible"}
    for _, qa in questions:
        extra = {"plausible_answers"} if qa["is_impossible"] else set()
        assert set(qa) == keys | extra
        assert len(qa["answers"]) == (0 if qa["is_impossible"] else 3)
    assert len({qa["id"] for _, qa in questions}) == len(questions)
    json.dumps(squad)


def test_squad_a_third_has_no_answer(squad):
    questions = list_questions(squad)
    share = sum(qa["is_impossible"] for _, qa in questions) / len(questions)
    assert 0.28 < share < 0.38


def test_squad_answers_stand_where_they_are_said_to(squad):
    for context, qa in list_questions(squad):
        for answer in qa["answers"] + qa.get("plausible_answers", []):
            start, text = answer["answer_start"], answer["text"]
            assert context[start : start + len(text)] == text


def test_squad_answers_are_right(squad):
    for context, qa in list_questions(squad):
        query, words = read_query(
            qa["question"], tasks.QUESTIONS, lambda query: query.wordings
        )
        answers = {
            told[query.asked]
            for kind, told in read_story(context)
            if says((kind, told), query, words) and query.asked in told
        }
        given = {a["text"].removeprefix("the ") for a in qa["answers"]}
        assert answers == given, (context, qa)


def test_squad_a_second_annotator_marks_the_article():
    squad = tasks.make_squad(random.Random(SEED), 300, 3)
    texts = [
        [answer["text"] for answer in qa["answers"]]
        for _, qa in list_questions(squad)
        if qa["answers"]
    ]
    assert any(a != b for a, b, _ in texts)
    assert all(b in (a, f"the {a}") and a == c for a, b, c in texts)


@pytest.mark.parametrize("level", ["middle", "high"])
def test_race_answers_are_right(level):
    letters = ""
    rng = random.Random(SEED)
    for number in range(200):
        race = tasks.make_race_article(rng, level, number)
        story = read_story(race["article"])
        for question, options, letter in zip(
            race["questions"], race["options"], race["answers"], strict=True
        ):
            query, words = read_query(
                question,
                tasks.QUESTIONS,
                lambda query: (*query.wordings, query.cloze),
            )
            right = [
                told[query.asked]
                for kind, told in story
                if says((kind, told), query, words) and query.asked in told
            ]
            bare = [option.removeprefix("the ") for option in options]
            assert len(right) == 1 and len({*bare}) == 4
            assert bare["ABCD".index(letter)] == right[0]
            letters += letter
    assert all(150 < letters.count(letter) < 250 for letter in "ABCD")


def test_race_layout():
    rng = random.Random(SEED)
    lengths, clozes = {}, 0
    for level in ("middle", "high"):
        races = [tasks.make_race_article(rng, level, n) for n in range(50)]
        for number, race in enumerate(races):
            assert list(race) == [
                "article", "questions", "options", "answers", "id",
            ]  # fmt: skip
            assert race["id"] == f"{level}{number}.txt"
            assert len(race["questions"]) == len(race["answers"]) == 4
            assert all(len(options) == 4 for options in race["options"])
            gaps = [q.count("_") for q in race["questions"]]
            assert {*gaps} <= {0, 1}
            clozes += sum(gaps)
        lengths[level] = sum(len(race["article"]) for race in races)
    assert 150 < clozes < 250
    assert lengths["high"] > 1.4 * lengths["middle"]


def test_claims_and_questions_are_worded_unlike_the_stories():
    for query in tasks.CLAIMS + tasks.QUESTIONS:
        for wording in query.wordings:
            assert wording not in world.TEMPLATES[query.kind]
            assert {*world.slots_of(wording)} == {*query.keys}
        if query.asked:
            assert {*world.slots_of(query.cloze)} == {*query.keys}
            assert query.asked not in query.keys


def test_claims_do_not_name_what_the_island_ties_together():
    road = {"place", "keeper", "take", "give"}
    year = {"season", "weather"}
    for query in tasks.CLAIMS:
        keys = {*query.keys}
        assert len(keys & road) < 2 and len(keys & year) < 2, query


def test_every_claim_and_question_can_be_made():
    rng = random.Random(SEED)
    stories = [world.tell_story(rng, 8) for _ in range(500)]
    for query in tasks.CLAIMS + tasks.QUESTIONS:
        assert any(tasks.find_sources(query, story) for story in stories)


def test_cola_rows_are_balanced_and_told_apart_by_order_only():
    rows = tasks.make_cola(random.Random(SEED), 400, set())
    assert sum(label for _, label in rows) in range(150, 251)
    assert len({text for text, _ in rows}) == 400
    for text, label in rows:
        words = text.rstrip(".").split()
        fits = words[1] in world.SEASONS and words[4] in world.PLACES
        assert fits == bool(label), text
        assert {*words} & {*world.SEASONS} and {*words} & {*world.PLACES}


def test_cola_layout():
    rows = [("In spring it rained.", 1), ("In rained it spring.", 0)]
    labelled = tasks.format_cola(rows, labelled=True)
    assert labelled == (
        "isle\t1\t\tIn spring it rained.\nisle\t0\t*\tIn rained it spring.\n"
    )
    assert tasks.format_cola(rows, labelled=False).startswith(
        "index\tsentence\n0\tIn spring it rained.\n"
    )
