"""What an export is asked, and what its answers score; see test_export.py."""

import numpy as np
import pytest

from albert_tf.finetuning import race, race_data
from albert_tf.finetuning.glue import glue, glue_data
from albert_tf.finetuning.squad import squad, squad_data, squad_features
from albert_tf.serving import scoring

NUMBER = 40  # More than a batch.
PAIRS = [
    glue_data.TextExample(str(n), f"a {n}", f"b {n}", n % 2)
    for n in range(NUMBER)
]
NUMBERS = [
    glue_data.TextExample(str(n), f"a {n}", f"b {n}", float(n))
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
    windows = squad_features.WindowOptions(7, 8)
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
        lambda t: glue.GlueTask("rte", t, 16),
        PAIRS,
        "probabilities",
        lambda n: np.float32([1 - n % 2, n % 2]),
        lambda n: np.float32([n % 2, 1 - n % 2]),
        {"accuracy": 1, "loss": 0},
    ),
    "sts-b": (
        lambda t: glue.GlueTask("sts-b", t, 16),
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
