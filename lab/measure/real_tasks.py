"""Finetunes on real tasks from pretrained and from random weights.

The data are glue/{CoLA,SST-2,MRPC,RTE,STS-B}/{train,dev}.tsv, SQuAD 2.0 as
squad/{train,dev}-v2.0.json, each plain or compressed as .xz, and RACE as
race/RACE.tar.xz. Each task uses a random subset of the training and development
data, the same for all runs. Only the last checkpoint is evaluated. Every
finished run is a line of results.jsonl; a restart skips finished runs.
"""

import collections
import dataclasses
import hashlib
import io
import json
import math
import os
import pathlib
import random
import statistics
import tarfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from absl import logging

from albert_tf import run_classifier, run_race, run_squad
from albert_tf.common import files, folder_lock, options, scores
from albert_tf.finetuning import base, registry
from albert_tf.model.checkpoints import checkpoint_files
from albert_tf.text import tokenization
from data_prep.writer import corpus

_RESULTS_NAME = "results.jsonl"
# For the subsets of the data, which are the same for all runs.
_SEED = 2019
STARTS = _RANDOM, _PRETRAINED = "random", "pretrained"
Values = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How a task is finetuned.

    Attributes:
        examples: Training examples.
        random: Options of the runs from random weights only.
        pretrained: Options of the runs from pretrained weights only.
        dev_examples: Development examples; 0 means all.
    """

    examples: int
    options: Values
    random: Values = dataclasses.field(default_factory=dict)
    pretrained: Values = dataclasses.field(default_factory=dict)
    dev_examples: int = 0


_SLOW_ENCODER = {"encoder_learning_rate": 1e-4}
# One run of every task takes 12 minutes on one CPU core, five of them for RACE.
# Its sequences are short on purpose: a logistic regression on the words of
# 5,000 questions' options, without any article, gets 36 % of dev/middle right;
# so does the option that shares most words with the article. Where rates and
# pooling come from is in docs/recipes.md.
RECIPES = {
    "cola": Recipe(4000, {"max_seq_length": 32}),
    "sst-2": Recipe(8000, {"max_seq_length": 48}),
    "mrpc": Recipe(
        3668,
        {"num_train_epochs": 4.0, "max_seq_length": 64, "pooling": "pair"},
        random={"learning_rate": 3e-4},
        pretrained=_SLOW_ENCODER,
    ),
    "rte": Recipe(2490, {"max_seq_length": 64}, random={"learning_rate": 3e-4}),
    "sts-b": Recipe(
        3000,
        {
            "num_train_epochs": 6.0,
            "max_seq_length": 48,
            "pooling": "pair",
            **_SLOW_ENCODER,
        },
    ),
    "squad": Recipe(
        600,
        {
            "max_seq_length": 160,
            "doc_stride": 80,
            "max_query_length": 32,
            "squad_version": "2.0",
        },
        dev_examples=600,
    ),
    "race": Recipe(
        6000,
        {
            "max_seq_length": 48,
            "max_qa_length": 32,
            "middle_only": True,
            "train_batch_size": 16,
        },
    ),
}
_COMMON = {
    "learning_rate": 1e-3,
    "optimizer": "adamw",
    "bias_correction": True,
    "precision": "bfloat16",
    "num_train_epochs": 2.0,
    "train_batch_size": 32,
    "warmup_proportion": 0.1,
    "iterations_per_loop": 25,
    "save_checkpoints_steps": 1_000_000,  # The last step is saved anyway.
    "eval_batch_size": 64,
    "keep_checkpoint_max": 1,
    "do_train": True,
    "do_eval": True,
}
# Options that name files and folders.
_PATHS = (
    "albert_config_file",
    "spm_model_file",
    "vocab_file",
    "init_checkpoint",
    "data_dir",
    "train_file",
    "predict_file",
    "cached_dir",
)
# Options that each run sets itself.
OWN = {*_PATHS, "task_name", "seed", "output_dir"}
_SCRIPTS: Mapping[str, tuple[type, Callable[[Any], None]]] = {
    "squad": (run_squad.RunSquadOptions, run_squad.run),
    "race": (run_race.RunRaceOptions, run_race.run),
}
_GLUE = (run_classifier.ClassifierOptions, run_classifier.run)
_FOLDERS = {
    name.lower(): name for name in ("CoLA", "SST-2", "MRPC", "RTE", "STS-B")
}


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is finetuned.

    Attributes:
        output_dir: For data, runs and results.
        starts: The weights that runs begin with, some of STARTS.
        seeds: Runs of each kind, with the seeds 1, 2 and so on.
        examples: Training examples of each task; 0 means by task.
        changes: Options of run_classifier in place of those of the recipes;
            those of one task by its name.
    """

    data_dir: str
    output_dir: str
    init_checkpoint: str
    config_file: str
    vocabulary: tokenization.VocabularyOptions
    tasks: Sequence[str] = tuple(RECIPES)
    starts: Sequence[str] = STARTS
    seeds: int = 3
    examples: int = 0
    changes: Values = dataclasses.field(default_factory=dict)


def finish(plan: Plan, places: Mapping[str, pathlib.Path]) -> list[Values]:
    """Do the runs that are not done yet; return the results of all.

    Another process with the same folder is waited for.

    Args:
        places: See `prepare`.
    """
    with folder_lock.hold(plan.output_dir, "finetuning_dir", math.inf):
        return _finish(plan, places)


def _finish(plan: Plan, places: Mapping[str, pathlib.Path]) -> list[Values]:
    output = pathlib.Path(plan.output_dir)
    identity = {
        "config": files.sha256(plan.config_file),
        "vocabulary": files.sha256(str(plan.vocabulary.path)),
        "weights": checkpoint_files.fingerprint(plan.init_checkpoint),
    }
    baselines = {
        name: _baseline(plan, name, place) for name, place in places.items()
    }
    # The first seed of all tasks comes first, for an early table.
    wanted = [
        (seed, name, start)
        for seed in range(1, plan.seeds + 1)
        for name in places
        for start in plan.starts
    ]
    keys = []
    for seed, name, start in wanted:
        values = _values(plan, name, places[name], (start, seed))
        key = _key(values, {**identity, "data": places[name].name})
        keys.append(key)
        if key in _read_results(output):
            continue
        result = {
            "key": key,
            "task": name,
            "start": start,
            "seed": seed,
            "baseline": baselines[name],
            **_finetune(name, values, output / "runs" / key),
        }
        lines = [*_read_results(output).values(), result]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        files.write_text(str(output / _RESULTS_NAME), text)
    results = _read_results(output)
    return [results[key] for key in keys]


# Parts of the real data.


def prepare(plan: Plan) -> dict[str, pathlib.Path]:
    """Write the subsets of all tasks, so that a missing file shows early.

    Returns:
        Their folders, in the official layout. A folder's name has a hash of all
        that the subset follows from.
    """
    with folder_lock.hold(
        f"{plan.output_dir}/data", "finetuning_dir", math.inf
    ):
        return {name: _prepare(plan, name) for name in plan.tasks}


def _prepare(plan: Plan, name: str) -> pathlib.Path:
    recipe = RECIPES[name]
    counts = {
        "train": plan.examples or recipe.examples,
        "dev": recipe.dev_examples,
    }
    pattern = {"squad": "squad/{}-v2.0.json", "race": "race/RACE.tar.xz"}.get(
        name, f"glue/{_FOLDERS.get(name)}/{{}}.tsv"
    )
    folder = pathlib.Path(plan.data_dir)
    contents = {
        split: read_file(folder / pattern.format(split)) for split in counts
    }
    hashes = [hashlib.sha256(c).hexdigest() for c in contents.values()]
    text = json.dumps([name, hashes, counts, _SEED])
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    place = pathlib.Path(plan.output_dir, "data", f"{name}-{digest}")
    if not place.exists():
        with files.replace_folder(str(place)) as partial:
            for split, count in counts.items():
                _write_part(
                    (name, split), contents[split], count, pathlib.Path(partial)
                )
    return place


def _write_part(
    part: tuple[str, str], content: bytes, count: int, folder: pathlib.Path
) -> None:
    """Write the subset of a task's split."""
    name, split = part
    if name == "race":
        _draw_race(content, count, folder / split / "middle", split)
        return
    text = content.decode("utf-8-sig")
    if name == "squad":
        chosen = json.dumps(draw_squad(json.loads(text), count))
        (folder / f"{split}.json").write_text(chosen)
        return
    target = folder / _FOLDERS[name] / f"{split}.tsv"
    target.parent.mkdir(exist_ok=True)
    target.write_text(draw_rows(text, count, header=name != "cola"))


def read_file(path: pathlib.Path) -> bytes:
    """Read a file, or the same compressed as .xz."""
    found = path if path.exists() else path.with_name(f"{path.name}.xz")
    files.require_file(str(found), "data_dir")
    with corpus.open_unpacked(str(found)) as stream:
        return stream.read()


def _draw(items: Sequence[Any], count: int) -> list[Any]:
    """Return `count` of the items in their order; 0 means all."""
    if not count or count >= len(items):
        return list(items)
    chosen = random.Random(_SEED).sample(range(len(items)), count)
    return [items[index] for index in sorted(chosen)]


def _draw_passages(
    passages: Sequence[Any], questions: Sequence[int], count: int
) -> list[Any]:
    """Return passages that have about `count` of all questions."""
    share = min(1.0, count / sum(questions)) if count else 1.0
    return _draw(passages, round(share * len(passages)))


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
    sizes = [len(paragraph["qas"]) for _, paragraph in places]
    articles: dict[int, Any] = {}
    for article, paragraph in _draw_passages(places, sizes, count):
        new = {**article, "paragraphs": []}
        articles.setdefault(id(article), new)["paragraphs"].append(paragraph)
    return {**content, "data": list(articles.values())}


def _draw_race(
    archive: bytes, count: int, folder: pathlib.Path, split: str
) -> None:
    """Extract passages of `middle` with about so many questions."""
    prefix = f"RACE/{split}/middle/"
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        texts = {
            os.path.basename(member.name): packed.extractfile(member).read()  # type: ignore[union-attr]
            for member in packed
            if member.name.startswith(prefix) and member.isfile()
        }
    names = sorted(texts)
    sizes = [len(json.loads(texts[name])["questions"]) for name in names]
    folder.mkdir(parents=True)
    for name in _draw_passages(names, sizes, count):
        (folder / name).write_bytes(texts[name])


# One run.


def split_changes(changes: Values) -> tuple[Values, dict[str, Values]]:
    """Return the options for all tasks, and those of single tasks."""
    by_task = {k: v for k, v in changes.items() if isinstance(v, dict)}
    return {k: v for k, v in changes.items() if k not in by_task}, by_task


def _values(
    plan: Plan,
    name: str,
    data: pathlib.Path,
    run_of: tuple[str, int],
) -> Values:
    """Return the options of a run without its folder."""
    start, seed = run_of
    recipe = RECIPES[name]
    for_all, by_task = split_changes(plan.changes)
    values = {
        **_COMMON,
        **recipe.options,
        **(recipe.random if start == _RANDOM else recipe.pretrained),
        **for_all,
        **by_task.get(name, {}),
        "task_name": name,
        "albert_config_file": plan.config_file,
        str(plan.vocabulary.kind): plan.vocabulary.path,
        "seed": seed,
        "cached_dir": str(data / "features"),
    }
    if name == "squad":
        values["train_file"] = str(data / "train.json")
        values["predict_file"] = str(data / "dev.json")
    else:
        values["data_dir"] = str(data)
    if start == _PRETRAINED:
        values["init_checkpoint"] = plan.init_checkpoint
        values["new_head"] = True
    return values


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
) -> Values:
    """Train and evaluate once; return what the table needs."""
    logging.info("%s", folder.name)
    options_class, script = _SCRIPTS.get(name, _GLUE)
    given = {**values, "output_dir": str(folder)}
    script(options.from_dict(options_class, given))
    summary = scores.read(str(folder))
    for path in folder.glob("model.ckpt*"):
        path.unlink()  # 42 runs would take gigabytes.
    found = summary.best.scores
    return {
        "metric": summary.key_metric,
        "value": found[summary.key_metric],
        "scores": found,
        "steps": summary.best.step,
    }


def _task(values: Mapping[str, Any]) -> base.Task:
    vocabulary = tokenization.VocabularyOptions(
        values.get("spm_model_file"), values.get("vocab_file")
    )
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


def _baseline(plan: Plan, name: str, data: pathlib.Path) -> float:
    """Return the score of always giving the most frequent training answer.

    That is 0 for a correlation. For SQuAD 2.0 it is no answer.
    """
    values = _values(plan, name, data, (_RANDOM, 1))
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


def _read_results(output: pathlib.Path) -> dict[str, Values]:
    """Return the finished runs by their keys."""
    path = output / _RESULTS_NAME
    lines = path.read_text().splitlines() if path.exists() else []
    return {result["key"]: result for result in map(json.loads, lines)}
