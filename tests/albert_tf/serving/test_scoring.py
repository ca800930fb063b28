"""What an export is asked, and what its answers score; see test_export.py."""

import numpy as np
import pytest

from albert_tf.finetuning import base, packing
from albert_tf.serving import scoring
from albert_tf.tasks.embedding import task as embedding
from albert_tf.tasks.race import data as race_data
from albert_tf.tasks.race import task as race
from albert_tf.tasks.squad import data as squad_data
from albert_tf.tasks.squad import features as squad_features
from albert_tf.tasks.squad import task as squad
from albert_tf.tasks.tagging import data as tagging_data
from albert_tf.tasks.tagging import task as tagging
from tests.albert_tf.tasks.glue import small_tasks

NUMBER = 40  # More than a batch.
PAIRS = [
    packing.TextExample(str(n), (f"a {n}", f"b {n}"), n % 2)
    for n in range(NUMBER)
]
NUMBERS = [
    packing.TextExample(str(n), (f"a {n}", f"b {n}"), float(n))
    for n in range(NUMBER)
]
CHOICES = [
    race_data.RaceQuestion(str(n), "", f"a {n}", "q", ("x", "", "z"), 2)
    for n in range(NUMBER)
]
ANSWER = squad_data.Answer("rain", 4)
QUESTIONS = [
    squad_data.Question(str(n), f"q {n}", f"the rain {n}", answers, not answers)
    for n in range(NUMBER)
    for answers in [(ANSWER,) if n % 2 else ()]
]
ANSWERED = [question for question in QUESTIONS if question.answers]


def make_squad(tokenizer, version):
    windows = squad_features.PassageWindows(7, 8)
    options = squad.SquadOptions(version, windows=windows)
    return squad.SquadTask(tokenizer, 32, options)


def answer(asked, name, values):
    """Answers by the numbers at the ends of the first texts."""

    def ask(inputs):
        asked.append(inputs)
        first = next(iter(inputs.values()))
        numbers = [int(text.split()[-1]) for text in first]
        return {name: np.array([values(n) for n in numbers]), "other": None}

    return ask


# Of each kind: its task, examples, an output, right and wrong values of it, and
# what right ones score.
KINDS = {
    "rte": (
        lambda t: small_tasks.make("rte", t, 16),
        PAIRS,
        "probabilities",
        lambda n: np.float32([1 - n % 2, n % 2]),
        lambda n: np.float32([n % 2, 1 - n % 2]),
        {"accuracy": 1, "loss": 0},
    ),
    "sts-b": (
        lambda t: small_tasks.make("sts-b", t, 16),
        NUMBERS,
        "score",
        np.float32,
        lambda n: np.float32(-n),
        {"pearson": 1},
    ),
    "race": (
        lambda t: race.RaceTask(t, 16, race.RaceOptions(8, 4)),
        CHOICES,
        "probabilities",
        lambda n: np.float32([0, 0, 1, 0]),
        lambda n: np.float32([0, 0, 0, 1]),
        {"accuracy": 1, "loss": 0},
    ),
    "squad 1.1": (
        lambda t: make_squad(t, "1.1"),
        ANSWERED,
        "answer",
        lambda n: b"rain",
        lambda n: b"the",
        {"exact_match": 100, "f1": 100},
    ),
    "squad 2.0": (
        lambda t: make_squad(t, "2.0"),
        QUESTIONS,
        "answer",
        lambda n: b"rain" if n % 2 else b"",
        lambda n: b"" if n % 2 else b"rain",
        {"exact": 100, "f1": 100, "NoAns_f1": 100},
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_texts_of_examples_are_asked_and_answers_scored(tiny_tokenizer, kind):
    make, examples, name, right, wrong, perfect = KINDS[kind]
    task, asked = make(tiny_tokenizer), []
    found = scoring.by_texts(answer(asked, name, right), task, examples)
    assert (
        found.items()
        >= {key: pytest.approx(value) for key, value in perfect.items()}.items()
    )
    found = scoring.by_texts(answer([], name, wrong), task, examples)
    assert all(found[key] != perfect[key] for key in perfect)
    sizes = [len(next(iter(inputs.values()))) for inputs in asked]
    assert sum(sizes) == len(examples) and max(sizes) <= 32
    texts = [
        row for inputs in asked for row in zip(*inputs.values(), strict=True)
    ]
    if task.name == "race":
        assert texts[1] == ("a 1", "q", ["x", "", "z", ""])
    elif task.name == "squad":
        assert texts[0] == (examples[0].text, examples[0].context)
    else:
        assert texts[1] == ("a 1", "b 1")


def test_ids_are_asked_at_full_length(tiny_tokenizer):
    task = small_tasks.make("rte", tiny_tokenizer, 16)
    names = "segment_ids", "input_ids"

    def says(inputs):
        """Whether the ids of the first text have an odd sum."""
        return (inputs["input_ids"] * (1 - inputs["segment_ids"])).sum(-1) % 2

    def ask(inputs):
        assert [*inputs] == [*names]
        assert inputs["input_ids"].shape == (32, 16)
        odd = says(inputs)
        logits = np.stack([1 - odd, odd], -1)
        return {"logits": logits, "pooled_output": None}

    found = scoring.by_ids(ask, names, task, PAIRS)
    (values,) = task.featurize(PAIRS, base.DEV)
    labels = np.array([example.label for example in PAIRS])
    assert found["accuracy"] == (says(values) == labels).mean()
    assert 0 < found["accuracy"] < 1
    alone = scoring.to_inputs(names, task, PAIRS[:2])
    for inputs, ids in zip(alone, values["input_ids"], strict=False):
        assert [*inputs] == [*names]
        assert inputs["input_ids"].tolist() == [ids[ids > 0].tolist()]


def test_vectors_are_asked_text_by_text(tiny_tokenizer):
    options = embedding.EmbeddingOptions("triplets")
    task = embedding.EmbeddingTask(tiny_tokenizer, 16, options)
    examples = [
        packing.TextExample(n, (f"a {n}", f"b {n}", f"c {n}"))
        for n in range(NUMBER)
    ]
    vectors = {"a": [1.0, 0.0], "b": [0.6, 0.8], "c": [0.0, 1.0]}

    def ask(inputs):
        rows = [vectors[text[0]] for text in inputs["text"]]
        return {"embedding": np.array(rows)}

    assert scoring.by_texts(ask, task, examples)["accuracy"] == 1
    texts = scoring.to_inputs(["input_ids"], task, examples[:1])
    assert len(texts) == 3


@pytest.mark.parametrize("tags", ["O B-x I-x", "N V P"])
def test_spans_become_tags_again(tiny_tokenizer, tags):
    """Of forty texts; those with an even number have no span."""
    outside, *inside = labels = tags.split()
    options = tagging.TaggingOptions("\t".join(labels))
    task = tagging.TaggingTask(tiny_tokenizer, 16, options)
    places = (0, 3), (4, 8), (9, 12)
    examples = [
        tagging_data.TaggedText(n, "Ivo Nord saw", places, (*inside, outside))
        for n in range(NUMBER)
    ]
    entities = [(0, 8, b"x")]
    if not task.has_entities:
        entities = [(0, 3, b"V"), (4, 8, b"P"), (9, 12, b"N")]
    asked = []

    def ask(inputs):
        numbers = len(asked) + np.arange(len(inputs["text"]))
        asked.extend(inputs["text"])
        start, end, label = (
            np.array([[*row, row[0]]] * len(numbers), "O")
            for row in zip(*entities, strict=True)
        )
        for places in (start, end):
            places[numbers % 2 == 0] = 0  # They fill up.
        return {
            "num_spans": numbers % 2 * len(entities),
            "span_start": start,
            "span_end": end,
            "span_label": label,
        }

    found = scoring.by_texts(ask, task, examples)
    assert len(asked) == NUMBER
    right = 4 / 6 if task.has_entities else 1 / 2
    assert found["accuracy"] == pytest.approx(right)
