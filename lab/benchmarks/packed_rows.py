"""Time pretraining steps on padded rows, in length groups and on packed rows.

    python -m lab.benchmarks.packed_rows --input_file=train.tfrecord \
        --albert_config_file=configs/models/albert_small.json \
        --max_seq_length=512 --max_predictions_per_seq=77 --train_batch_size=8

Records are read as training reads them. Each shape of a batch is computed in
turn, for several rounds, and the medians are weighted with how often the shape
occurs. Padded: a row for each instance. Grouped: batches of instances of
similar length, as finetuning has them, with predictions cut to what the batch
needs. Packed: several instances in a row (--pack_sequences).
"""

import argparse
import collections
import dataclasses
import itertools
import statistics
import time
from collections.abc import Callable

import tensorflow as tf

from albert_tf.data import inputs, layouts, length_groups, packed_rows
from albert_tf.model import modeling
from albert_tf.model.heads import pretraining
from albert_tf.model.optimizers import optimization
from albert_tf.training import train_step
from lab.benchmarks import side_by_side

Batch = dict[str, tf.Tensor]
SEED = 1


@dataclasses.dataclass
class Shape:
    """One shape of a batch.

    Attributes:
        batch: One of them.
        share: Of the batches of its kind that have this shape.
        instances: In a batch, on average.
        seconds: Wall and CPU seconds of each step.
    """

    batch: Batch
    share: float
    instances: float
    seconds: list[tuple[float, float]]


def padded(settings: argparse.Namespace, layout: layouts.Layout) -> list[Shape]:
    """Return the shape of batches with a row for each instance."""
    size = settings.train_batch_size
    dataset = inputs.training_dataset(
        [settings.input_file], layout, size, seed=SEED
    )
    return [Shape(next(iter(dataset)), 1.0, size, [])]


def grouped(
    settings: argparse.Namespace, layout: layouts.Layout
) -> list[Shape]:
    """Return the shapes of batches of instances of similar length."""
    size = settings.train_batch_size
    names = {"input_ids", "input_mask", "segment_ids", "token_boundary"}
    layout = tuple(
        dataclasses.replace(f, padding=0) if f.name in names else f
        for f in layout
    )
    paths = [settings.input_file]
    dataset = inputs.grouped_training_dataset(
        paths, layout, size, seed=SEED, shortest=16
    )
    count = length_groups.batches_in_window(size, inputs.count_examples(paths))
    found = collections.defaultdict(list)
    for batch in itertools.islice(dataset, count):
        found[batch["input_ids"].shape[1]].append(batch)
    return [
        Shape(_cut_predictions(batches), len(batches) / count, size, [])
        for batches in found.values()
    ]


def _cut_predictions(batches: list[Batch]) -> Batch:
    """Return the first batch, with room for the predictions of any of these."""
    used = max(
        int(tf.reduce_max(tf.reduce_sum(b["masked_lm_weights"], 1)))
        for b in batches
    )
    return {
        name: value[:, :used] if name.startswith("masked_lm") else value
        for name, value in batches[0].items()
    }


def packed(settings: argparse.Namespace, layout: layouts.Layout) -> list[Shape]:
    """Return the shape of batches of rows that instances share."""
    size, paths = settings.train_batch_size, [settings.input_file]
    packing = packed_rows.Packing(layout)
    rows = inputs.count_rows(paths, packing)
    dataset = inputs.packed_training_dataset(
        paths, packing, size, seed=SEED, num_rows=rows
    )
    instances = size * inputs.count_examples(paths) / rows
    return [Shape(next(iter(dataset)), 1.0, instances, [])]


def make_step(settings: argparse.Namespace) -> Callable[[Batch], tf.Tensor]:
    """Return a training step of this project."""
    tf.random.set_seed(SEED)
    config = modeling.AlbertConfig.from_json_file(settings.albert_config_file)
    encoder = modeling.AlbertModel(config, precision=settings.precision)
    model = pretraining.AlbertPretrainer(encoder)
    optimizer = optimization.Lamb(1e-4)
    optimizer.build(model.trainable_variables)
    update = train_step.TrainStep(
        model,
        optimizer,
        pretraining.OBJECTIVE,
        train_step.Guard(settings.precision),
    )
    # One function for each shape: TensorFlow warns of one with many.
    functions = collections.defaultdict(
        lambda: tf.function(lambda batch: update(batch), autograph=False)
    )
    return lambda batch: functions[batch["input_ids"].shape[1], len(batch)](
        batch
    )


def report(kinds: dict[str, list[Shape]]) -> None:
    """Print a Markdown table."""
    print(
        "| Rows | Instances a step | Seconds a step | CPU s "
        "| Instances/s | Speed | by CPU s |\n"
        "| --- |" + " ---: |" * 6
    )
    base: tuple[float, ...] = ()
    for name, shapes in kinds.items():
        instances = sum(s.share * s.instances for s in shapes)
        costs = [
            sum(
                s.share * statistics.median(pair[kind] for pair in s.seconds)
                for s in shapes
            )
            for kind in (0, 1)
        ]
        rates = tuple(instances / cost for cost in costs)
        base = base or rates
        cells = [
            name,
            f"{instances:.1f}",
            f"{costs[0]:.3f}",
            f"{costs[1]:.3f}",
            f"{rates[0]:.2f}",
            *(f"{a / b:.2f}x" for a, b in zip(rates, base, strict=True)),
        ]
        print(f"| {' | '.join(cells)} |")


KINDS = {make.__name__: make for make in (padded, grouped, packed)}


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the options."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--input_file", required=True, help="Records with masks.")
    add("--albert_config_file", required=True)
    add("--max_seq_length", type=int, default=512)
    add("--max_predictions_per_seq", type=int, default=77)
    add("--train_batch_size", type=int, default=8, help="Rows.")
    add("--precision", default="bfloat16", choices=modeling.PRECISIONS)
    add("--rounds", type=int, default=5)
    add(
        "--rows",
        default=",".join(KINDS),
        help="Kinds of rows, with commas. Default: %(default)s",
    )
    return parser


def read_settings(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line, and refuse what cannot be measured.

    Args:
        arguments: Default: those of the process.
    """
    parser = make_parser()
    settings = parser.parse_args(arguments)
    side_by_side.check_paths(parser, settings)
    settings.rows = settings.rows.split(",")
    unknown = sorted(set(settings.rows) - set(KINDS))
    if unknown:
        parser.error(
            f"--rows: there is no {', '.join(unknown)}. There are "
            f"{', '.join(KINDS)}."
        )
    if settings.rounds < 1:
        parser.error(f"--rounds={settings.rounds} is less than 1.")
    return settings


def main() -> None:
    """Measure, and print a table."""
    settings = read_settings()
    layout = layouts.pretraining_layout(
        settings.max_seq_length, settings.max_predictions_per_seq
    )
    kinds = {
        name: make(settings, layout)
        for name, make in KINDS.items()
        if name in settings.rows
    }
    step = make_step(settings)
    shapes = list(itertools.chain.from_iterable(kinds.values()))
    for number in range(settings.rounds + 1):
        for shape in shapes:
            begun = time.perf_counter(), time.process_time()
            step(shape.batch).numpy()
            ended = time.perf_counter(), time.process_time()
            if number:  # The first compiles.
                shape.seconds.append((ended[0] - begun[0], ended[1] - begun[1]))
    report(kinds)


if __name__ == "__main__":
    main()
