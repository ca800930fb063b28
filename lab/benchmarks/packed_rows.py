r"""Time pretraining steps on padded and on packed rows.

    python -m lab.benchmarks.packed_rows --input_file=train.tfrecord \
        --albert_config_file=configs/models/albert_small.json \
        --max_seq_length=512 --max_predictions_per_seq=77 --train_batch_size=8

Records are read as training reads them. Padded: a row for each instance.
Packed: several instances in a row (--pack_sequences). A turn is one step.
"""

import argparse

from lab.benchmarks import side_by_side

KINDS = ("padded", "packed")
SEED = 1


def build(settings: argparse.Namespace) -> tuple[side_by_side.Turn, str]:
    """Make a training step of this project on one batch."""
    import tensorflow as tf

    from albert_tf.data import inputs, layouts, packed_rows
    from albert_tf.model.config import AlbertConfig
    from albert_tf.model.network.encoder import AlbertModel

    layout = layouts.pretraining_layout(
        settings.max_seq_length, settings.max_predictions_per_seq
    )
    size, paths = settings.train_batch_size, [settings.input_file]
    if settings.serve == "packed":
        packing = packed_rows.Packing(layout)
        rows = inputs.count_rows(paths, packing)
        dataset = inputs.packed_training_dataset(
            paths, packing, size, seed=SEED, num_rows=rows
        )
        instances = size * inputs.count_examples(paths) / rows
    else:
        dataset = inputs.training_dataset(paths, layout, size, seed=SEED)
        instances = float(size)
    batch = next(iter(dataset))
    tf.random.set_seed(SEED)
    config = AlbertConfig.from_json_file(settings.albert_config_file)
    encoder = AlbertModel(config, precision=settings.precision)
    update, _ = side_by_side.make_pretraining_update(
        encoder, settings.precision
    )
    step = tf.function(lambda: update(batch), autograph=False)

    def turn() -> float:
        step().numpy()
        return instances

    turn()
    return turn, f"{instances:.1f} instances in {size} rows"


def main() -> None:
    """Measure, or be a worker."""
    parser = side_by_side.make_parser(__doc__, KINDS, "padded", rounds=5)
    add = parser.add_argument
    add("--input_file", required=True, help="Records with masks.")
    add("--albert_config_file", required=True)
    add("--max_seq_length", type=int, default=512)
    add("--max_predictions_per_seq", type=int, default=77)
    add("--train_batch_size", type=int, default=8, help="Rows.")
    add("--precision", default="bfloat16", choices=side_by_side.PRECISIONS)
    settings = side_by_side.parse(parser, KINDS, build)
    side_by_side.compare("lab.benchmarks.packed_rows", settings, "instances")


if __name__ == "__main__":
    main()
