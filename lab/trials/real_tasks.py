r"""Finetune on real tasks from pretrained and from random weights.

    python -m lab.trials.real_tasks --data_dir=DATA \
        --init_checkpoint=RUN --output_dir=OUTPUT

DATA holds glue/{CoLA,SST-2,MRPC,RTE,STS-B}/{train,dev}.tsv, SQuAD 2.0 as
squad/{train,dev}-v2.0.json, RACE as race/RACE.tar.xz (each file but the last
plain or compressed as .xz) and, without --spm_model_file,
vocab/30k-clean.model. RUN is the folder of a `run_pretraining` with its
albert_config.json, or of a release, which needs --learning_rate=3e-5.

Each task uses a random subset of the training and development data, the same
for all runs. Only the last checkpoint is evaluated. Every finished run is a
line of OUTPUT/results.jsonl; a restart skips finished runs. At the end the
table is printed and written to OUTPUT/table.md.

Without --init_checkpoint only random weights are used.
"""

import collections
import dataclasses
import hashlib
import io
import json
import lzma
import os
import pathlib
import random
import shutil
import statistics
import tarfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from absl import logging

from albert_tf import run_classifier, run_race, run_squad
from albert_tf.common import (
    errors,
    files,
    options,
    ranges,
    scores,
)
from albert_tf.common.options import checked, option
from albert_tf.finetuning import base, registry
from albert_tf.model import model_options
from albert_tf.model.checkpoints import checkpoint_files
from albert_tf.model.config import POOLINGS, PRECISIONS
from albert_tf.text import tokenization
from albert_tf.training import run_folder

_DIGEST_NAME = "sources.sha256"
RESULTS_NAME = "results.jsonl"
TABLE_NAME = "table.md"
# For the subsets of the data, which are the same for all runs.
_SEED = 2019
_RANDOM, _PRETRAINED = "random", "pretrained"


@dataclasses.dataclass(frozen=True)
class Rates:
    """Learning rates.

    Attributes:
        encoder: Of the encoder; None means that of the head.
    """

    head: float = 1e-3
    encoder: float | None = None


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How a task is finetuned.

    Attributes:
        dev_examples: Development examples; 0 means all.
    """

    examples: int
    dev_examples: int
    epochs: int
    options: Mapping[str, Any]
    random: Rates = Rates()
    pretrained: Rates = Rates()


# One run of every task takes 12 minutes on one CPU core, five of them for RACE.
# Its sequences are short on purpose: a logistic regression on the words of
# 5,000 questions' options, without any article, gets 36 % of dev/middle right;
# so does the option that shares most words with the article. Where rates and
# pooling come from is in docs/recipes.md.
RECIPES = {
    "cola": Recipe(4000, 0, 2, {"max_seq_length": 32}),
    "sst-2": Recipe(8000, 0, 2, {"max_seq_length": 48}),
    "mrpc": Recipe(
        3668,
        0,
        4,
        {"max_seq_length": 64, "pooling": "pair"},
        random=Rates(3e-4),
        pretrained=Rates(1e-3, encoder=1e-4),
    ),
    "rte": Recipe(2490, 0, 2, {"max_seq_length": 64}, random=Rates(3e-4)),
    "sts-b": Recipe(
        3000,
        0,
        6,
        {"max_seq_length": 48, "pooling": "pair"},
        random=Rates(1e-3, encoder=1e-4),
        pretrained=Rates(1e-3, encoder=1e-4),
    ),
    "squad": Recipe(
        600,
        600,
        2,
        {
            "max_seq_length": 160,
            "doc_stride": 80,
            "max_query_length": 32,
            "squad_version": "2.0",
        },
    ),
    "race": Recipe(
        6000,
        0,
        2,
        {
            "max_seq_length": 48,
            "max_qa_length": 32,
            "middle_only": True,
            "train_batch_size": 16,
        },
    ),
}
_COMMON = {
    "train_batch_size": 32,
    "warmup_proportion": 0.1,
    "iterations_per_loop": 25,
    "eval_batch_size": 64,
    "keep_checkpoint_max": 1,
    "do_train": True,
    "do_eval": True,
}
# Options that name files and folders.
_PATHS = (
    *("albert_config_file", "spm_model_file", "init_checkpoint"),
    *("data_dir", "train_file", "predict_file", "cached_dir"),
)
_SCRIPTS: Mapping[str, tuple[type, Callable[[Any], None]]] = {
    "squad": (run_squad.RunSquadOptions, run_squad.run),
    "race": (run_race.RunRaceOptions, run_race.run),
}
_GLUE = (run_classifier.ClassifierOptions, run_classifier.run)
_FOLDERS = {
    "cola": "CoLA",
    "sst-2": "SST-2",
    "mrpc": "MRPC",
    "rte": "RTE",
    "sts-b": "STS-B",
}
_NAMES = {"squad": "SQuAD 2.0", "race": "RACE (middle)", **_FOLDERS}


@dataclasses.dataclass(frozen=True)
@checked
class RunOptions:
    """Options of the runs, wherever they are started from."""

    tasks: str = option(
        ",".join(RECIPES), "Tasks of finetuning, separated by commas."
    )
    seeds: int = option(
        3,
        "Finetuning runs of each kind, with the seeds 1, 2 and so on.",
        within=ranges.RUNS,
    )
    epochs: str = option(
        "",
        "Other numbers of passes over the training examples, such as "
        "'sts-b=6,rte=4'.",
    )
    train_step: int | None = option(
        None,
        "Steps of every finetuning run, to try it. Default: by epochs.",
        within=ranges.STEPS,
    )
    learning_rate: float | None = option(
        None,
        "Of all finetuning runs, for encoder and head. Default: by task, for "
        "small models that were pretrained for an hour; see RECIPES in "
        "lab/trials/real_tasks.py.",
        within=ranges.LEARNING_RATE,
    )
    random_learning_rate: float | None = option(
        None,
        "Of the runs from random weights. Default: --learning_rate, or by "
        "task.",
        within=ranges.LEARNING_RATE,
    )
    encoder_learning_rate: float | None = option(
        None,
        "Of the encoder in the runs from pretrained weights; see "
        "run_classifier. Default: --learning_rate, or by task.",
        within=ranges.Range(0, 10),
    )
    optimizer: str = option(
        "adamw",
        "Of finetuning; see run_classifier.",
        choices=model_options.OPTIMIZERS,
    )
    bias_correction: bool = option(True, "Of finetuning; see run_classifier.")
    pooling: str | None = option(
        None,
        "Of all tasks but SQuAD; see run_classifier. Default: by task.",
        choices=POOLINGS,
    )
    precision: str = option(
        "bfloat16",
        "Of finetuning; see run_classifier.",
        choices=PRECISIONS,
    )

    def __post_init__(self) -> None:
        unknown = [name for name in self.chosen if name not in RECIPES]
        if unknown:
            raise errors.UserError(
                f"has {unknown[0]!r}. Known are {', '.join(RECIPES)}.",
                "tasks",
                self.tasks,
            )
        _by_task("epochs", self.epochs, "passes, such as sts-b=6")

    @property
    def chosen(self) -> list[str]:
        """The tasks in their order."""
        return [name.strip().lower() for name in self.tasks.split(",")]

    def rates(self, name: str, start: str) -> Rates:
        """Return the learning rates from random or pretrained weights."""
        recipe = RECIPES[name]
        rates = recipe.random if start == _RANDOM else recipe.pretrained
        if self.learning_rate is not None:
            rates = Rates(self.learning_rate)
        if start == _RANDOM and self.random_learning_rate is not None:
            rates = Rates(self.random_learning_rate)
        if start == _PRETRAINED and self.encoder_learning_rate is not None:
            rates = Rates(rates.head, self.encoder_learning_rate)
        return rates


@dataclasses.dataclass(frozen=True)
@checked
class ToolOptions:
    """Options of real_tasks."""

    data_dir: str = option(help="Folder of the real files, see above.")
    output_dir: str = option(help="Folder for data, runs, results and table.")
    init_checkpoint: str | None = option(
        None, "Folder of the pretrained model."
    )
    albert_config_file: str | None = option(
        None,
        "Its architecture. Default: the albert_config.json beside it; without "
        "--init_checkpoint configs/models/albert_small.json.",
    )
    spm_model_file: str | None = option(
        None, "Its vocabulary. Default: vocab/30k-clean.model in --data_dir."
    )
    budget: str = option(
        "",
        "Other numbers of training examples, such as 'race=8000,cola=500'.",
    )
    runs: RunOptions = dataclasses.field(default_factory=RunOptions)

    def __post_init__(self) -> None:
        _by_task("budget", self.budget, "examples, such as race=8000")

    @property
    def config_file(self) -> str:
        """The architecture of all runs."""
        if self.albert_config_file:
            return self.albert_config_file
        if self.init_checkpoint:
            folder = run_folder.folder_of(self.init_checkpoint)
            return os.path.join(folder, run_folder.CONFIG_NAME)
        return "configs/models/albert_small.json"

    @property
    def vocabulary(self) -> str:
        """The vocabulary of all runs."""
        known = os.path.join(self.data_dir, "vocab/30k-clean.model")
        return self.spm_model_file or known

    def recipe(self, name: str) -> Recipe:
        """Return the recipe of a task, with the wanted examples and passes."""
        recipe = RECIPES[name]
        return dataclasses.replace(
            recipe,
            examples=_by_task("budget", self.budget).get(name, recipe.examples),
            epochs=_by_task("epochs", self.runs.epochs).get(
                name, recipe.epochs
            ),
        )


def _by_task(option_name: str, text: str, what: str = "") -> dict[str, int]:
    """Return the number of each task in a text such as "race=8000,cola=500"."""
    numbers = {}
    for part in filter(None, text.split(",")):
        name, _, count = part.partition("=")
        if name not in RECIPES or not count.isdecimal() or not int(count):
            raise errors.UserError(
                f"--{option_name}={text}: {part!r} is not a known task with a "
                f"number of {what}."
            )
        numbers[name] = int(count)
    return numbers


def run(settings: ToolOptions) -> None:
    """Do the runs that are not done yet, then write and print the table."""
    table = to_markdown(finish(settings))
    files.write_text(os.path.join(settings.output_dir, TABLE_NAME), table)
    print(table, end="", flush=True)


def finish(settings: ToolOptions) -> list[dict[str, Any]]:
    """Do the runs that are not done yet; return the results of all."""
    output = pathlib.Path(settings.output_dir)
    identity = _identity(settings)
    files.make_folder(settings.output_dir, "output_dir")
    starts = [_RANDOM] + [_PRETRAINED] * (settings.init_checkpoint is not None)
    wanted = []
    for name in settings.runs.chosen:
        data = _prepare(settings, name, output)
        baseline = _baseline(settings, name, data)
        # The first seed of all tasks comes first, for an early table.
        wanted += [
            (seed, name, start, data, baseline)
            for start in starts
            for seed in range(1, settings.runs.seeds + 1)
        ]
    keys = []
    for seed, name, start, data, baseline in sorted(wanted, key=lambda w: w[0]):
        values = _values(settings, name, data, (start, seed))
        key = _key(values, {**identity, "data": digest_of(data)})
        keys.append(key)
        if key in _read_results(output):
            continue
        result = {
            "key": key,
            "task": name,
            "start": start,
            "seed": seed,
            "baseline": baseline,
            **_finetune(name, values, output / "runs" / key),
        }
        lines = [*_read_results(output).values(), result]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        files.write_text(str(output / RESULTS_NAME), text)
    results = _read_results(output)
    return [results[key] for key in keys]


# Parts of the real data.


def prepare(settings: ToolOptions) -> dict[str, str]:
    """Write the subsets of all tasks, so that a missing file shows early.

    Returns:
        A hash of each.
    """
    output = pathlib.Path(settings.output_dir)
    return {
        name: digest_of(_prepare(settings, name, output))
        for name in settings.runs.chosen
    }


def _prepare(
    settings: ToolOptions, name: str, output: pathlib.Path
) -> pathlib.Path:
    """Write the subsets of a task's data, in the official layout."""
    recipe = settings.recipe(name)
    counts = {"train": recipe.examples, "dev": recipe.dev_examples}
    place = output / "data" / f"{name}_{recipe.examples}"
    source = _Source.read(pathlib.Path(settings.data_dir), name)
    digest = source.digest(counts)
    if place.exists():
        if digest_of(place) != digest:
            raise errors.UserError(
                f"{place} was not drawn from the {_NAMES[name]} files in "
                f"`data_dir={settings.data_dir}`, or by an earlier version. "
                "Delete it, or choose another folder for the runs."
            )
        return place
    with files.replace_folder(str(place)) as partial:
        for split, count in counts.items():
            source.draw(pathlib.Path(partial), split, count)
        (pathlib.Path(partial) / _DIGEST_NAME).write_text(digest)
    return place


def digest_of(place: pathlib.Path) -> str:
    """Return the hash that tells subsets apart, of their folder."""
    path = place / _DIGEST_NAME
    return path.read_text() if path.exists() else ""


@dataclasses.dataclass(frozen=True)
class _Source:
    """The files that a task's subsets are drawn from."""

    name: str
    contents: Mapping[str, bytes]

    @classmethod
    def read(cls, folder: pathlib.Path, name: str) -> "_Source":
        """Read the files."""
        if name == "race":
            path = str(folder / "race/RACE.tar.xz")
            files.require_file(path, "data_dir")
            return cls(name, {"": files.read_bytes(path)})
        pattern = "squad/{}-v2.0.json"
        if name != "squad":
            pattern = f"glue/{_FOLDERS[name]}/{{}}.tsv"
        splits = "train", "dev"
        return cls(name, {s: _read(folder / pattern.format(s)) for s in splits})

    def digest(self, counts: Mapping[str, int]) -> str:
        """Return a hash of all that the subsets follow from."""
        hashes = [hashlib.sha256(c).hexdigest() for c in self.contents.values()]
        text = json.dumps([self.name, hashes, counts, _SEED])
        return hashlib.sha256(text.encode()).hexdigest()

    def draw(self, folder: pathlib.Path, split: str, count: int) -> None:
        """Write the subset of a split."""
        if self.name == "race":
            _draw_race(self.contents[""], folder, (split, count))
            return
        text = self.contents[split].decode("utf-8-sig")
        if self.name == "squad":
            part = json.dumps(draw_squad(json.loads(text), count))
            (folder / f"{split}.json").write_text(part)
            return
        target = folder / _FOLDERS[self.name] / f"{split}.tsv"
        target.parent.mkdir(exist_ok=True)
        target.write_text(draw_rows(text, count, header=self.name != "cola"))


def _read(path: pathlib.Path) -> bytes:
    """Read a file, or unpack the same compressed as .xz."""
    packed = path.with_name(f"{path.name}.xz")
    if path.exists():
        return path.read_bytes()
    if packed.exists():
        return lzma.decompress(packed.read_bytes())
    raise errors.UserError(
        f"--data_dir has no {path.name} (looked for {path} and {packed})."
    )


def _draw(items: Sequence[Any], count: int) -> list[Any]:
    """Return `count` of the items in their order; 0 means all."""
    if not count or count >= len(items):
        return list(items)
    chosen = random.Random(_SEED).sample(range(len(items)), count)
    return [items[index] for index in sorted(chosen)]


def draw_rows(text: str, count: int, *, header: bool) -> str:
    """Return some rows of a table, and its header."""
    rows = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    chosen = rows[: int(header)] + _draw(rows[int(header) :], count)
    return "".join(f"{row}\n" for row in chosen)


def draw_squad(content: Any, count: int) -> Any:
    """Return whole paragraphs with about `count` questions, of all articles."""
    places = [
        (article, paragraph)
        for article in content["data"]
        for paragraph in article["paragraphs"]
    ]
    total = sum(len(paragraph["qas"]) for _, paragraph in places)
    share = min(1.0, count / total) if count else 1.0
    chosen = _draw(places, round(share * len(places)))
    articles: dict[int, Any] = {}
    for article, paragraph in chosen:
        new = {**article, "paragraphs": []}
        articles.setdefault(id(article), new)["paragraphs"].append(paragraph)
    return {**content, "data": list(articles.values())}


def _draw_race(
    archive: bytes, target: pathlib.Path, part: tuple[str, int]
) -> None:
    """Extract passages of `middle` with about so many questions."""
    split, count = part
    prefix = f"RACE/{split}/middle/"
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        texts = {
            os.path.basename(member.name): packed.extractfile(member).read()  # type: ignore[union-attr]
            for member in packed
            if member.name.startswith(prefix) and member.isfile()
        }
    names = sorted(texts)
    total = sum(len(json.loads(text)["questions"]) for text in texts.values())
    share = min(1.0, count / total) if count else 1.0
    folder = target / split / "middle"
    folder.mkdir(parents=True)
    for name in _draw(names, round(share * len(names))):
        (folder / name).write_bytes(texts[name])


# One run.


def _values(
    settings: ToolOptions,
    name: str,
    data: pathlib.Path,
    run_of: tuple[str, int],
) -> dict[str, Any]:
    """Return the options of a run without its folder."""
    start, seed = run_of
    recipe = settings.recipe(name)
    rates = settings.runs.rates(name, start)
    values: dict[str, Any] = {
        **_COMMON,
        "learning_rate": rates.head,
        "encoder_learning_rate": rates.encoder,
        "num_train_epochs": float(recipe.epochs),
        "task_name": name,
        "albert_config_file": settings.config_file,
        "spm_model_file": settings.vocabulary,
        "precision": settings.runs.precision,
        "optimizer": settings.runs.optimizer,
        "bias_correction": settings.runs.bias_correction,
        "train_step": settings.runs.train_step,
        "seed": seed,
        "save_checkpoints_steps": 1_000_000,  # The last step is saved anyway.
        "cached_dir": str(data / "features"),
        **recipe.options,
    }
    if settings.runs.pooling and name != "squad":
        values["pooling"] = settings.runs.pooling
    if name == "squad":
        values["train_file"] = str(data / "train.json")
        values["predict_file"] = str(data / "dev.json")
    else:
        values["data_dir"] = str(data)
    if start == _PRETRAINED:
        values["init_checkpoint"] = settings.init_checkpoint
        values["new_head"] = True
    return values


def _identity(settings: ToolOptions) -> dict[str, str]:
    """Return hashes of the files that the runs read, data aside."""
    config = files.require_file(settings.config_file, "albert_config_file")
    vocabulary = files.require_file(settings.vocabulary, "spm_model_file")
    found = {
        "config": files.sha256(config),
        "vocabulary": files.sha256(vocabulary),
    }
    if settings.init_checkpoint:
        found["weights"] = checkpoint_files.fingerprint(
            settings.init_checkpoint
        )
    return found


def _key(values: Mapping[str, Any], identity: Mapping[str, str]) -> str:
    """Return a name for a run, with a hash of all that it follows from.

    Args:
        values: Its options. Those that are paths do not count.
        identity: Hashes of the files; `weights` count only if it reads them.
    """
    is_pretrained = "init_checkpoint" in values
    start = _PRETRAINED if is_pretrained else _RANDOM
    chosen = {k: v for k, v in values.items() if k not in _PATHS}
    read = identity if is_pretrained else {**identity, "weights": ""}
    text = json.dumps([chosen, read], sort_keys=True)
    ending = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{values['task_name']}-{start}-{values['seed']}-{ending}"


def _finetune(
    name: str, values: Mapping[str, Any], folder: pathlib.Path
) -> dict[str, Any]:
    """Train and evaluate once; return what the table needs."""
    logging.info("%s", folder.name)
    begun = time.monotonic()
    options_class, script = _SCRIPTS.get(name, _GLUE)
    given = {**values, "output_dir": str(folder)}
    _forget_moved(str(folder), given)
    script(options.from_dict(options_class, given))
    seconds = time.monotonic() - begun
    summary = scores.read(str(folder))
    for path in folder.glob("model.ckpt*"):
        path.unlink()  # 42 runs would take gigabytes.
    found = summary.best.scores
    return {
        "metric": summary.key_metric,
        "value": found[summary.key_metric],
        "scores": found,
        "steps": summary.best.step,
        "train_examples": len(_examples(values, base.TRAIN)),
        "seconds": round(seconds, 1),
    }


def _forget_moved(folder: str, given: Mapping[str, Any]) -> None:
    """Remove an unfinished run whose files have other places now."""
    if run_folder.is_run(folder):
        before = run_folder.read(folder).options
        if any(before.get(name) != given.get(name) for name in _PATHS):
            shutil.rmtree(folder)


def _task(values: Mapping[str, Any]) -> base.Task:
    vocabulary = tokenization.VocabularyOptions(values["spm_model_file"])
    return registry.make(values, tokenization.load(vocabulary))


def _examples(values: Mapping[str, Any], split: str) -> Sequence[Any]:
    """Return the examples of a split, as the script reads them."""
    task = _task(values)
    if "data_dir" in values:
        source = task.sources(values["data_dir"])[split]  # type: ignore[attr-defined]
    else:
        option_of = {base.TRAIN: "train_file", base.DEV: "predict_file"}
        source = values[option_of[split]]
    return task.read(source, split)


def _baseline(settings: ToolOptions, name: str, data: pathlib.Path) -> float:
    """Return the score of always giving the most frequent training answer.

    That is 0 for a correlation. For SQuAD 2.0 it is no answer.
    """
    values = _values(settings, name, data, (_RANDOM, 1))
    if _task(values).key_metric in ("matthew_corr", "pearson"):
        return 0.0
    if name == "squad":
        questions = _examples(values, base.DEV)
        return 100 * statistics.fmean(q.is_impossible for q in questions)
    labels = [
        [example.label for example in _examples(values, split)]
        for split in (base.TRAIN, base.DEV)
    ]
    ((most_frequent, _),) = collections.Counter(labels[0]).most_common(1)
    return statistics.fmean(label == most_frequent for label in labels[1])


# Results.


def _read_results(output: pathlib.Path) -> dict[str, dict[str, Any]]:
    """Return the finished runs by their keys."""
    path = output / RESULTS_NAME
    lines = path.read_text().splitlines() if path.exists() else []
    found = {}
    for line in lines:
        try:
            result = json.loads(line)
        except ValueError:
            continue  # Damaged; the run is repeated.
        found[result["key"]] = result
    return found


def to_markdown(results: Sequence[Mapping[str, Any]]) -> str:
    """Return the table: median and deviation over seeds, in percent."""
    lines = [
        "| task | metric | majority | random weights | pretrained | "
        "training examples | steps | seconds a run |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name in dict.fromkeys(result["task"] for result in results):
        rows = [result for result in results if result["task"] == name]
        first = rows[0]
        # SQuAD's scores are percent already.
        scale = 1 if name == "squad" else 100
        cells = []
        for start in (_RANDOM, _PRETRAINED):
            values = [scale * r["value"] for r in rows if r["start"] == start]
            cells.append(
                f"{statistics.median(values):.1f} ± {scores.spread(values):.1f}"
                if values
                else ""
            )
        seconds = statistics.median(row["seconds"] for row in rows)
        lines.append(
            f"| {_NAMES[name]} | {first['metric']} | "
            f"{scale * first['baseline']:.1f} | {' | '.join(cells)} | "
            f"{first['train_examples']:,} | {first['steps']} | {seconds:.0f} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    options.run_script(run, ToolOptions)
