"""Tasks that vectors of texts solve without finetuning, and their scores.

Nothing is learned but a logistic regression on the vectors, as in MTEB
(Muennighoff et al., arXiv 2210.07316, section 3.2).
"""

import dataclasses
import json
import pathlib
import statistics
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.common import errors, imports, scores
from albert_tf.finetuning import metrics
from albert_tf.tasks.embedding import retrieval
from lab.measure import real_tasks
from lab.measure.text_models import Vectors

linear_model = imports.later("sklearn.linear_model")
threadpoolctl = imports.later("threadpoolctl")

_SEED = 2019
_DRAWS = 10
_STEPS = 100  # Of the logistic regression at most, as in MTEB.
_HELD_OUT = 5  # One example in so many, where there is no second part.
_TIMED = 256
_TIMED_BATCH = 64
_JSTS = {"text": "sentence1", "text_pair": "sentence2", "score": "label"}
Columns = Mapping[str, Sequence[str]]


@dataclasses.dataclass(frozen=True)
class Task:
    """What is measured, in one part of the data.

    Attributes:
        group: A name for several tasks of a kind.
        part: Of the data set, as its authors call it.
        files: In the folder of the data; they may end in `.xz`.
        shots: Training examples of each class; 0 means all.
    """

    group: str
    part: str
    files: tuple[str, ...]
    shots: int = 0

    @property
    def is_test(self) -> bool:
        return self.part.startswith("test")

    def measure(
        self, vectors: Vectors, contents: Sequence[bytes]
    ) -> dict[str, Any]:
        """Return `examples`, what was counted, and `scores` by name.

        A score is a list of one value, or of one for each draw.
        """
        if self.group == "cost":
            return _cost(vectors, _columns(self.files[0], contents[0]))
        if self.group == "retrieval":
            return _retrieval(vectors, *_queries(self.files[0], contents[0]))
        tables = [*map(_columns, self.files, contents)]
        if self.group == "sts":
            return _similarity(vectors, tables[0])
        return _few_shot(vectors, tables, self.shots)


def _tsv(*names: str) -> tuple[str, ...]:
    return tuple(f"sentences/{name}.tsv" for name in names)


_LANGUAGES = ("en", "de", "ja", "zh")
_LABELED = {
    "banking77": ("a fifth of train", _tsv("banking77_train")),
    "clinc150": ("val", _tsv("clinc150_train", "clinc150_val")),
    "trec": ("a fifth of train", _tsv("trec_train")),
    "subj": ("a fifth of every second one", _tsv("subj_even")),
}
TASKS = {
    **{
        f"stsb_{language}_{part}": Task(
            "sts", part, _tsv(f"stsb_{language}_{part}")
        )
        for part in ("dev", "test")
        for language in _LANGUAGES
    },
    "jsts_dev": Task("sts", "first half of dev", ("ja/jsts_dev.jsonl",)),
    "sick": Task("sts", "train and trial", _tsv("sick_train_trial")),
    "sts12": Task("sts", "test without MSRvid", _tsv("sts12")),
    "sts13": Task("sts", "test without SMT", _tsv("sts13")),
    **{
        f"{name}_{count or 'all'}": Task(
            f"few_shot_{count or 'all'}", part, files, count
        )
        for count in (8, 64, 0)
        for name, (part, files) in _LABELED.items()
    },
    "squad": Task("retrieval", "first half of dev", ("squad/dev-v1.1.json",)),
    **{
        f"tatoeba_{language}": Task(
            "retrieval", "every second one", _tsv(f"tatoeba_{language}_en")
        )
        for language in _LANGUAGES[1:]
    },
    "cost": Task("cost", "dev", _tsv("stsb_en_dev")),
}
GROUPS = tuple(dict.fromkeys(task.group for task in TASKS.values()))


def choose(names: Sequence[str], *, with_tests: bool) -> list[str]:
    """Return the tasks with these names, or in these groups.

    Args:
        with_tests: Whether a group has its test parts, too.
    """
    errors.require_known("name for `tasks`", names, [*TASKS, *GROUPS])
    return [
        name
        for name, task in TASKS.items()
        if name in names
        or (task.group in names and (with_tests or not task.is_test))
    ]


def read(task: Task, data_dir: str) -> list[bytes]:
    return [
        real_tasks.read_file(pathlib.Path(data_dir, name))
        for name in task.files
    ]


def _columns(path: str, content: bytes) -> dict[str, list[str]]:
    """Return the cells of a table by column; quotes are text."""
    if path.endswith(".jsonl"):
        entries = [json.loads(line) for line in content.splitlines()]
        return {
            name: [entry[key] for entry in entries]
            for name, key in _JSTS.items()
        }
    head, *rows = [
        line.split("\t") for line in content.decode().rstrip("\n").split("\n")
    ]
    if not rows or {len(row) for row in rows} != {len(head)}:
        raise errors.UserError(
            f"{path} is no table: its rows have not as many cells as the "
            "first. Copy it again."
        )
    return dict(zip(head, map(list, zip(*rows, strict=True)), strict=True))


def _similarity(vectors: Vectors, table: Columns) -> dict[str, Any]:
    first, second = (vectors(table[name]) for name in ("text", "text_pair"))
    cosines = (first * second).sum(-1)
    found = metrics.score(
        ["spearmanr"], cosines, np.array(table["score"], float)
    )
    return {
        "examples": f"{len(cosines):,} pairs",
        "scores": {"Spearman": [100 * found["spearmanr"]]},
    }


def _few_shot(
    vectors: Vectors, tables: Sequence[Columns], shots: int
) -> dict[str, Any]:
    """Score a logistic regression that has seen some examples of each class."""
    parts = [(vectors(t["text"]), np.array(t["label"])) for t in tables]
    if len(parts) == 1:  # The held-out texts are the same for every model.
        ((x, y),) = parts
        order = np.random.default_rng(_SEED).permutation(len(y))
        held_out = order[: len(y) // _HELD_OUT]
        rest = order[len(held_out) :]
        parts = [(x[rest], y[rest]), (x[held_out], y[held_out])]
    (x, y), (dev_x, dev_y) = parts
    accuracies = []
    for draw in range(_DRAWS if shots else 1):
        rows = np.random.default_rng([_SEED, draw]).permutation(len(y))
        if shots:
            chosen = [rows[y[rows] == label][:shots] for label in np.unique(y)]
            rows = np.concatenate(chosen)
        classifier = linear_model.LogisticRegression(max_iter=_STEPS)
        # One thread: several spend most of their time waiting for each other.
        with warnings.catch_warnings(), threadpoolctl.threadpool_limits(1):
            warnings.simplefilter("ignore")  # That there are more steps to do.
            classifier.fit(x[rows], y[rows])
        accuracies.append(100 * float(classifier.score(dev_x, dev_y)))
    return {
        "examples": f"{len(dev_y):,} texts, {len(np.unique(y))} classes",
        "scores": {"accuracy": accuracies},
    }


def _queries(path: str, content: bytes) -> tuple[list[str], list[str], Any]:
    """Return queries, texts, and the number of each query's text."""
    if not path.endswith(".json"):
        table = _columns(path, content)
        return table["text"], table["text_en"], range(len(table["text"]))
    queries, texts, right = [], [], []
    for article in json.loads(content)["data"]:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                queries.append(question["question"])
                right.append(len(texts))
            texts.append(paragraph["context"])
    return queries, texts, right


def _retrieval(
    vectors: Vectors,
    queries: Sequence[str],
    texts: Sequence[str],
    right: Sequence[int],
) -> dict[str, Any]:
    found = _search(vectors(queries), vectors(texts), right)
    examples = f"{len(queries):,} questions, {len(texts):,} paragraphs"
    if len(queries) == len(texts):  # Of translations either finds the other.
        back = _search(vectors(texts), vectors(queries), right)
        values = found["accuracy"], back["accuracy"]
        found = {"accuracy to English": values[0], "from English": values[1]}
        examples = f"{len(queries):,} pairs"
    return {
        "examples": examples,
        "scores": {name: [100 * value] for name, value in found.items()},
    }


def _search(
    queries: np.ndarray, texts: np.ndarray, right: Sequence[int]
) -> dict[str, float]:
    ranks = [
        retrieval.places(row, [number])
        for row, number in zip(
            retrieval.cosines(queries, texts), right, strict=True
        )
    ]
    found = retrieval.of_ranks(ranks)
    return {"accuracy": found["recall_at_1"], "MRR": found["mrr"]}


def _cost(vectors: Vectors, table: Columns) -> dict[str, Any]:
    """Time texts one by one, and some at a time, after one untimed round.

    It is processor time, which other work on the machine hardly changes.
    """
    encode, texts = vectors.encode(), table["text"][:_TIMED]
    spent: dict[str, float] = {}
    for name, size in {
        "processor ms, a text alone": 1,
        f"processor ms a text, {_TIMED_BATCH} at a time": _TIMED_BATCH,
    }.items():
        groups = [texts[i : i + size] for i in range(0, len(texts), size)]
        for seconds in ([], []):  # type: list[float]
            for group in groups:
                start = time.process_time()
                encode(group)
                seconds.append((time.process_time() - start) / len(group))
        spent[name] = 1000 * statistics.median(seconds)
    return {
        "examples": f"{len(texts)} texts",
        "scores": {name: [value] for name, value in spent.items()},
    }


def describe(values: Sequence[float]) -> str:
    """Return the mean and, of several values, their standard deviation."""
    text = f"{statistics.fmean(values):.2f}"
    if len(values) > 1:
        text += f" ± {scores.sample_deviation(values):.2f}"
    return text
