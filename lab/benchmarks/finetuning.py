"""Time finetuning of this project and of Hugging Face.

    python -m lab.benchmarks.finetuning --task_name=sst-2 --data_dir=DATA/glue \
        --spm_model_file=DATA/vocab/30k-clean.model \
        --torch_python=venv/bin/python

Real examples of a task, with their real lengths, go through the loop of each
implementation: batches from data, forward, backward, clipping and update. They
take turns, each with --steps batches, for several rounds. All have the same
examples, model, batch size and maximal length, and no dropout. The batches of
a turn differ between implementations, so what counts is the real tokens per
second; examples per second are these, divided by the tokens of an average
example. albert_tf compiles the lengths of its batches before it is timed.

albert_tf: the batches that its commands use by default.
hugging_face_dynamic: each batch padded to its longest example.
hugging_face_grouped: the same, batches by its LengthGroupedSampler.
_padded: every example padded to the maximal length.
_bfloat16: mixed precision. AdamW in both.

With --task_name=squad, --data_dir is the JSON file, plain.
"""

import argparse
import itertools
import json
import pathlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from lab.benchmarks import side_by_side
from lab.benchmarks.side_by_side import Config

LEARNING_RATE = 1e-4
WARM_UP_STEPS = 12
SQUAD = "squad"
NAMES = [
    f"{implementation}_{precision}"
    for precision in side_by_side.PRECISIONS
    for implementation in (
        "albert_tf",
        "albert_tf_padded",
        "hugging_face_grouped",
        "hugging_face_dynamic",
        "hugging_face_padded",
    )
]
RECORDS, ARRAYS, FACTS = "records", "arrays.npz", "facts.json"

# Trains so many batches; returns their real tokens.
Turn = Callable[[int], int]


# In the parent's first process. -----------------------------------------------


def prepare(settings: argparse.Namespace, folder: pathlib.Path) -> None:
    """Write the features of the task, for our process and for torch's."""
    import numpy as np

    from albert_tf.data import inputs
    from albert_tf.finetuning import features, registry
    from albert_tf.text import tokenization

    vocabulary = tokenization.load(
        tokenization.VocabularyOptions(settings.spm_model_file)
    )
    task = registry.make(
        {
            "task_name": settings.task_name,
            "max_seq_length": settings.max_seq_length,
            "version_2_with_negative": False,
        },
        vocabulary,
    )
    source = settings.data_dir
    if settings.task_name != SQUAD:
        source = task.sources(settings.data_dir)["train"]
    examples = task.read(source, "train")[: settings.examples]
    facts = features.describe(task, features.content_sha256(source), "train")
    file = features.open_or_make(task, facts, str(folder), examples)
    path = str(pathlib.Path(file.path).rename(folder / RECORDS))
    batches = inputs.evaluation_dataset([path], task.layout("train"), 100)
    parts = list(batches.as_numpy_iterator())
    arrays = {k: np.concatenate([p[k] for p in parts]) for k in parts[0]}
    real = arrays["is_real_example"] == 1
    np.savez(folder / ARRAYS, **{k: v[real] for k, v in arrays.items()})
    facts = {
        "labels": len(getattr(task, "labels", ())),
        "records": int(real.sum()),
        "tokens": float(arrays["input_mask"][real].sum(1).mean()),
    }
    (folder / FACTS).write_text(json.dumps(facts))


# Implementations. Each imports what it needs in its own process. --------------


def build_albert_tf(
    settings: argparse.Namespace, config: Config, precision: str, kind: str
) -> Turn:
    """Make the loop of this project."""
    import tensorflow as tf

    from albert_tf.data import layouts
    from albert_tf.model.config import AlbertConfig
    from albert_tf.model.heads import classification
    from albert_tf.model.losses import label_objectives
    from albert_tf.model.network.encoder import AlbertModel
    from albert_tf.model.optimizers import optimization
    from albert_tf.tasks.squad import features as squad_features
    from albert_tf.tasks.squad import model as squad_model
    from albert_tf.training import train_step

    facts = read_facts(settings)
    encoder = AlbertModel(AlbertConfig(**config), precision=precision)
    length = settings.max_seq_length
    if settings.task_name == SQUAD:
        model: Any = squad_model.AlbertSquadV1(encoder)
        objective = squad_model.V1
        layout = squad_features.squad_layout(length, is_training=True)
    else:
        model = classification.AlbertClassifier(encoder, facts["labels"], 0.0)
        objective = label_objectives.CLASSIFICATION
        layout = layouts.classification_layout(length)
    optimizer = optimization.AdamW(LEARNING_RATE)
    optimizer.build(model.trainable_variables)
    update = train_step.TrainStep(
        model, optimizer, objective, train_step.Guard(precision)
    )
    loop = train_step.compile_loop(update)
    dataset = make_dataset(settings, layout, kind)
    strategy = model.distribute_strategy
    found, every_length = look_ahead(
        dataset, (1 + settings.rounds) * settings.steps
    )
    tokens = iter(found)
    batches = iter(
        strategy.experimental_distribute_dataset(
            every_length.concatenate(dataset)
        )
    )
    loop(batches, tf.cast(every_length.cardinality(), tf.int32))

    def train(steps: int) -> int:
        loop(batches, tf.constant(steps)).numpy()
        return sum(itertools.islice(tokens, steps))

    return train


def make_dataset(settings: argparse.Namespace, layout: Any, kind: str) -> Any:
    """Return the batches of this project, grouped by length or padded."""
    from albert_tf.data import inputs, length_groups, lengths

    paths = [str(pathlib.Path(settings.folder) / RECORDS)]
    data = paths, layout, settings.batch_size
    if kind == "padded":
        return inputs.training_dataset(*data, seed=1)
    grouping = length_groups.Grouping(lengths.SHORTEST)
    return inputs.grouped_training_dataset(*data, seed=1, grouping=grouping)


def look_ahead(dataset: Any, steps: int) -> tuple[list[int], Any]:
    """Return the real tokens of the first batches, and one of each length.

    Returns:
        The tokens of each, and a dataset of batches that have all its lengths.
    """
    import tensorflow as tf

    tokens, by_length = [], {}
    for batch in dataset.repeat().take(steps):
        mask = batch["input_mask"].numpy()
        tokens.append(int(mask.sum()))
        by_length.setdefault(mask.shape[-1], batch)
    every = tf.data.Dataset.from_generator(
        by_length.values, output_signature=dataset.element_spec
    )
    return tokens, every.apply(
        tf.data.experimental.assert_cardinality(len(by_length))
    )


def torch_batches(settings: argparse.Namespace, kind: str) -> Iterator[Any]:
    """Yield batches as Hugging Face's Trainer makes them, without end."""
    import numpy as np
    import torch
    from transformers.trainer_pt_utils import LengthGroupedSampler

    arrays = dict(np.load(pathlib.Path(settings.folder) / ARRAYS))
    tokens = arrays["input_mask"].sum(1)
    names = {
        "input_ids": "input_ids",
        "attention_mask": "input_mask",
        "token_type_ids": "segment_ids",
    }
    labels = {"labels": "label_ids"}
    if settings.task_name == SQUAD:
        labels = {k: k for k in ("start_positions", "end_positions")}

    def collate(rows: Sequence[int]) -> dict[str, torch.Tensor]:
        longest = tokens[rows].max()
        if kind == "padded":
            longest = settings.max_seq_length
        values = {k: arrays[v][rows, :longest] for k, v in names.items()}
        values |= {k: arrays[v][rows] for k, v in labels.items()}
        return {k: torch.from_numpy(v).long() for k, v in values.items()}

    for seed in itertools.count():
        generator = torch.Generator().manual_seed(seed)
        sampler: Any = torch.utils.data.RandomSampler(
            tokens, generator=generator
        )
        if kind == "grouped":
            sampler = LengthGroupedSampler(
                settings.batch_size,
                lengths=tokens.tolist(),
                generator=generator,
            )
        yield from torch.utils.data.DataLoader(
            range(len(tokens)),
            settings.batch_size,
            sampler=sampler,
            collate_fn=collate,
            drop_last=True,
        )


def build_hugging_face(
    settings: argparse.Namespace, config: Config, precision: str, kind: str
) -> Turn:
    """Make the loop of Hugging Face's Trainer, without its logging."""
    import torch
    import transformers

    hugging_face = side_by_side.make_hugging_face_config(config)
    hugging_face.num_labels = read_facts(settings)["labels"]
    head = transformers.AlbertForSequenceClassification
    if settings.task_name == SQUAD:
        hugging_face.num_labels = 2
        head = transformers.AlbertForQuestionAnswering
    model = head(hugging_face)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), LEARNING_RATE)
    stream = torch_batches(settings, kind)
    cast = torch.autocast(
        "cpu", torch.bfloat16, enabled=precision == "bfloat16"
    )

    def train(steps: int) -> int:
        tokens = 0
        for batch in itertools.islice(stream, steps):
            tokens += int(batch["attention_mask"].sum())
            optimizer.zero_grad()
            with cast:
                loss = model(**batch).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        return tokens

    return train


def build(settings: argparse.Namespace) -> tuple[side_by_side.Turn, str]:
    """Make the work of one implementation: --steps batches."""
    name, precision = settings.serve.rsplit("_", 1)
    kind = name.rsplit("_", 1)[1]
    config = side_by_side.read_config(settings.albert_config_file)
    tokens = read_facts(settings)["tokens"]
    if name.startswith("hugging_face"):
        work = build_hugging_face(settings, config, precision, kind)
        work(WARM_UP_STEPS)
    else:
        work = build_albert_tf(settings, config, precision, kind)
    return lambda: work(settings.steps) / tokens, f"{settings.steps} batches"


def read_facts(settings: argparse.Namespace) -> dict[str, float]:
    """Return `labels`, `records` and the `tokens` of an average example."""
    facts = json.loads((pathlib.Path(settings.folder) / FACTS).read_text())
    return dict(facts)


def main() -> None:
    """Measure, or be a worker."""
    parser = side_by_side.make_parser(
        __doc__, NAMES, "hugging_face_grouped_float32", rounds=3
    )
    add = parser.add_argument
    add("--task_name", default="sst-2", help="A task of GLUE, or squad.")
    add("--data_dir", required=True, help="Folder of GLUE, or SQuAD's file.")
    add("--spm_model_file", required=True, help="The vocabulary.")
    add("--max_seq_length", type=int, default=128)
    add("--batch_size", type=int, default=32)
    add("--examples", type=int, default=8000, help="The first of the file.")
    add("--steps", type=int, default=32, help="Batches of a turn.")
    add("--albert_config_file", default=str(side_by_side.BASE_CONFIG))
    add("--folder", help=argparse.SUPPRESS)
    settings = side_by_side.parse(parser, NAMES, build)
    with tempfile.TemporaryDirectory() as settings.folder:
        prepare(settings, pathlib.Path(settings.folder))
        facts = read_facts(settings)
        print(
            f"{settings.task_name}: {facts['records']:,} records of "
            f"{facts['tokens']:.1f} tokens, at most {settings.max_seq_length}; "
            f"batch {settings.batch_size}",
            flush=True,
        )
        side_by_side.compare(
            "lab.benchmarks.finetuning",
            settings,
            "examples",
            f"--folder={settings.folder}",
        )


if __name__ == "__main__":
    main()
