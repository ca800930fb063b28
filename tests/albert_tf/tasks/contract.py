"""Every finetuning task on small data, a case each, for contract_suite.py."""

import functools
import importlib
import json
import pathlib
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

from albert_tf import (
    convert_checkpoint,
    distill,
    export,
    run_classifier,
    run_embeddings,
    run_race,
    run_squad,
    run_tagger,
)
from albert_tf.common import options, scores
from albert_tf.finetuning import base
from albert_tf.tasks.glue import specs
from tests import own_tasks, row_files
from tests.albert_tf.finetuning import tagged
from tests.conftest import ROOT

# The same network, written by another compiler, or for other batches.
FLOAT_ATOL = 1e-4
COMMANDS = {
    "classifier": (run_classifier, run_classifier.ClassifierOptions),
    "embeddings": (run_embeddings, run_embeddings.RunEmbeddingsOptions),
    "race": (run_race, run_race.RunRaceOptions),
    "squad": (run_squad, run_squad.RunSquadOptions),
    "tagger": (run_tagger, run_tagger.RunTaggerOptions),
    "distill": (distill, distill.DistillOptions),
}
WORDS = {"rain": "It rains. ", "lamp": "The lamp. ", "we": "We, we. "}
FILLING = "We, we. " * 6  # Longer than the first window of a text.
SENTENCES = ["It rains in the north.", "The ferry waits.", "We stay.", "A boat"]
# Texts of the same number are one topic.
TOPICS = [f"{s} {end}" for s in SENTENCES for end in ("now", "again", "here")]
MOODS = "glad", "cross, very"
HUB = "huggingface"
TITLES = "title\treview\tmood"
Rows = Iterator[dict[str, Any]]


# Rows with labels, of tables; `text` and `text_pair` are what others see.


def of_vectors(kind: str) -> Rows:
    """Pairs of one topic have score 5, others 0."""
    for n, text in enumerate(TOPICS):
        near = TOPICS[n // 3 * 3 + (n + 1) % 3]
        far = TOPICS[(n + 3) % len(TOPICS)]
        if kind == "scored":
            yield {"text": text, "text_pair": near, "score": 5}
            yield {"text": text, "text_pair": far, "score": 0}
        elif kind == "pairs":
            yield {"text": text, "text_pair": near}
        else:
            yield {"text": text, "positive": near, "negative": far}


def of_moods() -> Rows:
    """The second text says which mood it is."""
    for n in range(60):
        body = ("We, we, we", "The lamp. " * 2)[n % 2]
        texts = {"text": f"Letter {n}", "text_pair": body}
        yield {"id": f"n{n}", **texts, "label": MOODS[n % 2]}


def of_topics() -> Rows:
    """The texts say which labels they have: some of three, or none."""
    random = np.random.default_rng(1)
    for n in range(120):
        names = [name for name in WORDS if random.random() < 0.4]
        text = "".join(WORDS[name] for name in names) or "A. "
        yield {"id": f"n{n}", "text": text, "label": names}


def of_years() -> Rows:
    """The more often it rains, the later it is."""
    for n in range(120):
        text = "It rains. " * (n % 4) + f"The lamp {n}."
        yield {"id": f"n{n}", "text": text, "label": 1990 + 10.0 * (n % 4)}


def of_searches() -> Rows:
    """What a text is about says how relevant it is."""
    for n in range(60):
        for times, text in enumerate(WORDS.values()):
            texts = {"text": f"Rain {n}?", "text_pair": text}
            yield {"id": f"n{n}.{times}", **texts, "label": times}


def of_letters(kind: str) -> Rows:
    """Only the end of a long text tells; every fifth text is short."""
    for n in range(40):
        word = list(WORDS)[n % 2]
        text = f"{n}. {FILLING if n % 5 else ''}" + WORDS[word] * 8
        several = [word, *["we"] * bool(n % 5)]
        label = {"label": word, "labels": several, "number": n % 2 * 10 + 1990}
        yield {"id": f"n{n}", "text": text, "label": label[kind]}


class Case(NamedTuple):
    """A task: its command, its options and its data.

    Attributes:
        flags: Words NAME=VALUE; `{here}` has the files, `{world}` others.
        rows: What rows.jsonl holds, for all splits.
        least: Scores that are reached in so many `steps`.
        not_hub: Why transformers has no place for it.
        not_taught: Why there can be no teacher.
        forms: Formats of exports.
        is_slow: Tested by `make test-all` alone.
        is_variant: Differs from another case in data, loss and decoding alone,
            so it is not converted.
    """

    command: str
    flags: str
    rows: Callable[[], Rows] | None = None
    least: str = ""
    steps: int = 2
    not_hub: str = ""
    not_taught: str = ""
    forms: str = "saved_model litert onnx"
    is_slow: bool = True
    is_variant: bool = False


def vectors(kind: str, least: str, flags: str = "", **more) -> Case:
    given = f"train_examples={kind} max_score=5 temperature=0.2 {FAST} {flags}"
    rows = functools.partial(of_vectors, kind)
    return Case("embeddings", given, rows, least, 60, **more)


def table(flags: str, rows: Callable[[], Rows], least: str, **more) -> Case:
    """A task with a table, whose label is in the column of that name."""
    names = "text,text_pair" if "text_pair" in next(rows()) else "text"
    if "query" in flags:
        names = "text_pair"
    given = f"label_column=label id_column=id text_columns={names}"
    given += f" {FAST} dev_share=0.2 {flags}"
    return Case("classifier", given, rows, least, **{"steps": 150, **more})


def windows(kind: str, flags: str, **more) -> Case:
    rows = functools.partial(of_letters, kind)
    return table(flags, rows, "", not_hub="beginning of a long", **OTHER | more)


FAST = "max_seq_length=24 learning_rate=3e-3"
OTHER = {"not_taught": "label of whole texts"}
ONE = {"forms": "saved_model"}  # The others are those of its siblings.
NONE = {"forms": ""}  # Served as its sibling is.
VARIANT = {"is_variant": True, **ONE}
OWN = "data_dir={here} max_seq_length=32 task_module="
GLUE = "data_dir={world}/glue max_seq_length=48 task_name="
RANKS = "query_column=text ndcg_at=2"
NO_EXPORT = "with the head MeanClassifier cannot be exported"
SQUAD = "max_seq_length=56 doc_stride=16 max_query_length=16 dropout_prob=0"
LABELS = "multi_label=True class_weights=balanced label_thresholds="
CASES = {
    "tags": Case("tagger", FAST, tagged.texts, "f1>0.9", 60, is_slow=False),
    "scored": vectors(
        "scored",
        "spearmanr>0.8 pearson>0.9",
        "projection_size=6 text_pooling=max",
        is_slow=False,
    ),
    "pairs": vectors(
        "pairs",
        "mrr>0.6 recall_at_1>0.2 recall_at_10>0.99",
        "dimensions=8",
    ),
    "triplets": vectors("triplets", "accuracy>0.9 mrr>0.5", **VARIANT | NONE),
    "race": Case(
        "race",
        "data_dir={world}/race max_qa_length=24 max_seq_length=64",
        is_slow=False,
    ),
    "squad 2.0": Case("squad", SQUAD, not_hub="SQuAD 2.0", is_slow=False),
    "squad 1.1": Case("squad", f"squad_version=1.1 pad_to_max=True {SQUAD}"),
    "rte": Case("classifier", f"{GLUE}rte", is_slow=False, **ONE),
    "sts-b": Case("classifier", f"{GLUE}sts-b", **VARIANT),
    "own task": Case("classifier", f"{OWN}own_task task_name=own_task", **ONE),
    "own head": Case(
        "classifier",
        f"{OWN}own_head task_name=own_head",
        not_hub=NO_EXPORT,
        **ONE,
    ),
    "label": table(
        "class_weights=balanced best_score=macro_f1",
        of_moods,
        "macro_f1>0.8",
        steps=100,
        is_slow=False,
    ),
    "labels, one": table(f"{LABELS}one", of_topics, "micro_f1>0.8", **OTHER),
    "labels, each": table(
        f"{LABELS}each", of_topics, "micro_f1>0.8", **OTHER, **VARIANT | NONE
    ),
    "number": table("regression=True", of_years, "pearson>0.7", **OTHER),
    "pairwise": table(
        f"{RANKS} learning_rate=5e-3",
        of_searches,
        "ndcg>0.9",
        steps=600,
        **ONE,
    ),
    "pointwise": table(
        f"{RANKS} ranking_loss=pointwise",
        of_searches,
        "ndcg>0.9",
        steps=600,
        **VARIANT | NONE,
    ),
    "windows of a label": windows("label", "windows=mean"),
    "windows of labels": windows(
        "labels",
        "multi_label=True windows=max window_stride=22",
        **VARIANT | NONE,
    ),
    "windows of a number": windows(
        "number", "regression=True windows=max", **VARIANT
    ),
}
# One of each slice: how a run goes on, is scored again, averaged or taught
# depends on nothing that the others have of their own.
FIRST = "tags", "scored", "race", "squad 2.0", "rte", "label", "own head"
# By command: the task of an export from a folder of others, and its class.
HUBS = {
    "tagger": ("tagging", "AlbertForTokenClassification"),
    "embeddings": ("embedding", ""),
    "race": ("race", "AlbertForMultipleChoice"),
    "squad": ("squad", "AlbertForQuestionAnswering"),
    "classifier": ("classifier", "AlbertForSequenceClassification"),
}


class Run:
    """The folder of a task; `asked` are its texts, without labels."""

    def __init__(self, world: Any, name: str, here: pathlib.Path):
        self.name, self.case, self.here = name, CASES[name], here
        self.world = world
        self.folder = here / "run"
        self.labelled = here / "rows.jsonl"  # A file, or a folder.
        self.asked = list(self._write())
        self.answers: list[dict[str, Any]] | None = None  # Of `predict`.
        # As `predict` reads them of a run, and of a SavedModel.
        self.own = row_files.write(here / "own.jsonl", self.asked)
        self.texts = self.own
        if self.case.command == "race":
            self.texts = row_files.write(here / "texts.jsonl", self._choices())

    def _write(self) -> Rows:
        """Write the files with labels; yield what they hold without them."""
        if self.case.rows:
            rows = list(self.case.rows())
            row_files.write(self.labelled, rows)
            for n, row in enumerate(rows):
                names = "id", "text", "text_pair"
                yield {"id": n} | {k: row[k] for k in names if k in row}
        elif self.case.command == "race":
            self.labelled = pathlib.Path(self.world.race) / "dev"
            for path in sorted((self.labelled / "middle").iterdir()):
                (article,) = row_files.read(path)
                yield {k: v for k, v in article.items() if k != "answers"}
        elif self.case.command == "squad":
            yield from self._write_questions()
        else:
            yield from self._write_columns()

    def _choices(self) -> list[dict[str, Any]]:
        return [
            {"article": article["article"], "question": q, "options": choices}
            for article in self.asked
            for q, choices in zip(
                article["questions"], article["options"], strict=True
            )
        ]

    def _write_questions(self) -> Rows:
        content = own_tasks.squad("dev", 1)
        for article in content["data"]:
            for paragraph in article["paragraphs"]:
                paragraph["qas"] = [
                    question
                    for question in paragraph["qas"]
                    if question["answers"] or "1.1" not in self.case.flags
                ]
                for q in paragraph["qas"]:
                    texts = {"id": q["id"], "question": q["question"]}
                    yield {**texts, "context": paragraph["context"]}
        self.labelled.write_text(json.dumps(content))

    def _write_columns(self) -> Rows:
        """Of GLUE, or of the tasks of docs/own_task.md."""
        flags = dict(flag.split("=") for flag in self.case.flags.split())
        name, folder = flags["task_name"], pathlib.Path(self.world.glue)
        if "task_module" in flags:
            folder = self.here
            self._write_own(name)
            importlib.import_module(name)
        splits = specs.TASKS[name].splits
        self.labelled = folder / splits["dev"].file
        test = splits["test"]
        content = (folder / test.file).read_text("utf-8").removesuffix("\n")
        for line in content.split("\n")[1:]:
            cells = line.split("\t")
            texts = {
                "text": cells[test.text_a],
                "text_pair": cells[test.text_b],
            }
            yield {"id": cells[0], **texts}

    def _write_own(self, name: str) -> None:
        page = (ROOT / "docs/own_task.md").read_text()
        task, head = re.findall(r"```python\n(.*?)```", page, re.S)
        code = f"{task}\n{head}" if name == "own_head" else task
        code = code.replace('"reviews"', f'"{name}"')
        (self.here / f"{name}.py").write_text(code)
        (self.here / "reviews").mkdir()
        for split, count in (("train", 24), ("dev", 6), ("test", 5)):
            rows = ["id\ttitle\treview" if split == "test" else TITLES]
            for n in range(count):
                texts = f"The sea {n}\t{'It rains. ' * (n % 3)}"
                mood = ("angry", "content", "neither")[n % 3]
                is_test = split == "test"
                rows.append(f"{n}\t{texts}" if is_test else f"{texts}\t{mood}")
            path = self.here / f"reviews/{split}.tsv"
            path.write_text("\n".join(rows) + "\n")

    @property
    def split(self) -> str:
        """The part of the data that is scored."""
        is_part = "dev_share" in self.case.flags
        return base.HELD_OUT if is_part else base.DEV

    @property
    def own_module(self) -> dict[str, str]:
        """What commands need that load a run of a user's module."""
        words = self.name.split()
        return {"task_module": "_".join(words)} if words[0] == "own" else {}

    def settings(
        self, folder: pathlib.Path, command: str = "", **changes: Any
    ) -> Any:
        """Options of the command for a folder; None leaves one out."""
        steps = self.case.steps
        values = {
            "albert_config_file": self.world.config,
            "spm_model_file": self.world.vocabulary,
            "output_dir": folder,
            **dict.fromkeys(("do_train", "do_eval", "do_predict"), True),
            "train_batch_size": 8,
            "train_step": steps,
            "warmup_step": 1,
            "save_checkpoints_steps": steps,
            "iterations_per_loop": steps,
        }
        if self.case.rows:
            splits = "train_file", "dev_file", "test_file"
            values |= dict.fromkeys(splits, self.labelled)
        if self.split == base.HELD_OUT:
            del values["dev_file"]
        if self.case.command == "squad":
            splits = "train_file", "predict_file"
            values |= dict.fromkeys(splits, self.labelled)
        places = {"world": self.world.folder, "here": self.here}
        for flag in self.case.flags.format(**places).split():
            name, values[name] = flag.split("=", 1)
        values |= changes
        options_class = COMMANDS[command or self.case.command][1]
        return options.parse(
            options_class,
            [f"--{k}={v}" for k, v in values.items() if v is not None],
        )

    def learn(
        self, folder: pathlib.Path, command: str = "", **changes: Any
    ) -> pathlib.Path:
        """Run the command, or another one; return its folder."""
        settings = self.settings(folder, command, **changes)
        COMMANDS[command or self.case.command][0].run(settings)
        return folder

    def score_again(
        self, folder: pathlib.Path, **changes: Any
    ) -> dict[str, float]:
        """Return the scores of a run, or of another model, as it is."""
        given = {"do_train": False, "do_predict": False, **changes}
        if self.case.rows and self.split == base.DEV:
            given["train_file"] = None
        self.learn(folder, **given)
        return scores.read(str(folder)).best.scores

    def export_folder(self, served: pathlib.Path, folder: pathlib.Path) -> None:
        """Export a folder of others, with the options of the run."""
        flags = dict(flag.split("=", 1) for flag in self.case.flags.split())
        given = {"init_checkpoint": folder, "export_dir": served}
        given["format"] = "onnx"
        given["task"] = HUBS[self.case.command][0]
        if "regression" in flags:
            given["task"] = "regression"
        if "text,text_pair" in self.case.flags or "task_name" in flags:
            given["pairs"] = True
        names = (
            "max_seq_length max_qa_length squad_version doc_stride "
            "max_query_length".split()
        )
        given |= {name: flags[name] for name in names if name in flags}
        words = [f"--{name}={value}" for name, value in given.items()]
        export.run(options.parse(export.ExportOptions, words))

    def convert(self, folder: pathlib.Path, form: str = "") -> None:
        """Convert the run; by default for others, as its task is used."""
        is_vectors = self.case.command == "embeddings"
        form = form or ("sentence_transformers" if is_vectors else HUB)
        given = {"from": self.folder, "to": folder, "format": form}
        given |= self.own_module
        flags = [f"--{name}={value}" for name, value in given.items()]
        convert_checkpoint.run(
            options.parse(convert_checkpoint.ConvertOptions, flags)
        )


def each(cases=tuple(CASES), fast=None):
    """Test tasks; those that are not `fast` in `make test-all` alone."""
    if fast is None:
        fast = [name for name, case in CASES.items() if not case.is_slow]
    return pytest.mark.parametrize(
        "run",
        [
            pytest.param(name, marks=[pytest.mark.slow] * (name not in fast))
            for name in cases
        ],
        indirect=True,
    )


def assert_learnt(run, folder):
    best = scores.read(str(folder)).best.scores
    for name, least in (x.split(">") for x in run.case.least.split()):
        assert best[name] > float(least), best


def flat(answer):
    """What an answer says, whoever gives it: words, and numbers."""
    if "embedding" in answer:
        return (), answer["embedding"]
    if "spans" in answer:
        keys = "start", "end", "label", "text"
        words = [[span[key] for key in keys] for span in answer["spans"]]
        return words, [span["score"] for span in answer["spans"]]
    names = "prediction", "label", "predicted", "answer", "score"
    said = next(answer[name] for name in names if name in answer)
    if isinstance(said, float) and "answer" not in answer:
        return (), [said]
    odds = answer.get("probabilities", ())
    if "n_best" in answer:  # Of a run; the other ones are filled up.
        odds = [entry["probability"] for entry in answer["n_best"]]
    odds = answer.get("n_best_probabilities", odds)
    return said, [*filter(None, getattr(odds, "values", odds.__iter__)())]


def assert_alike(found, expected):
    for one, other in zip(found, expected, strict=True):
        (words, numbers), (said, others) = flat(one), flat(other)
        assert words == said, (one, other)
        assert numbers == pytest.approx(others, rel=1e-5, abs=FLOAT_ATOL)
