r"""Make word embeddings to start pretraining from.

    python -m data_prep.make_word_embeddings --input_file=train.tfrecord \
        --albert_config_file=albert_config.json --output_file=embeddings.npy
    python -m albert_tf.run_pretraining \
        --word_embeddings_file=embeddings.npy ...

Counts which pieces stand near each other in the records, as they were before
masking, and gives similar vectors to pieces with similar neighbours. It takes
about a minute of one core for a million records of 64 tokens. A short
pretraining gains much by it, see docs/recipes.md. Not in the original release.
"""

import os
import sys

if not __package__:  # Run by its path: find the packages beside this folder.
    sys.path.insert(0, os.path.dirname(os.path.dirname(__file__)))

import dataclasses
import io
from collections.abc import Iterator, Sequence

import numpy as np
from absl import logging

from albert_tf.common import (
    configs,
    errors,
    files,
    options,
    outputs,
    progress,
    ranges,
    shared_options,
)
from albert_tf.data import layouts, manifests
from albert_tf.model import config
from data_prep.inspection import record_statistics
from data_prep.vocabulary import cooccurrence

# The first ones are read; more do not change the embeddings much.
_MAX_RECORDS = 1_000_000


@dataclasses.dataclass(frozen=True)
@options.checked
@options.shown(
    Model="albert_config_file",
    Data="input_file random_seed",
    Output="output_file overwrite",
)
class WordEmbeddingsOptions:
    """Options of the script."""

    input_file: str = options.option(
        help="TFRecords for pretraining: files or glob patterns, with commas."
    )
    albert_config_file: str = options.option(
        help="JSON file with the architecture, or a released model such as "
        "albert_base_v2. Its vocab_size and embedding_size are used.",
        must_exist=True,
        names=configs.config_names,
    )
    output_file: str = options.option(
        help="NumPy file to write, float32 [vocab_size, embedding_size]."
    )
    stddev: float = options.option(
        0.1,
        "Standard deviation of the numbers in the embeddings.",
        within=ranges.Range(above=0, high=100),
    )
    random_seed: int = options.option(
        12345,
        "For the embeddings of pieces that the records lack.",
        within=ranges.WRITER_SEED,
    )
    overwrite: bool = shared_options.overwrite("--output_file")


def original_pieces(
    features: record_statistics.Features, special: record_statistics.SpecialIds
) -> np.ndarray:
    """Return the pieces of records as they were before masking, int32 [n, S].

    -1 stands for padding, [CLS] and [SEP].
    """
    pieces = features["input_ids"].copy()
    if record_statistics.PREDICTIONS <= features.keys():
        row, position, label = record_statistics.predictions(features)
        pieces[row, position] = label
    is_text = features["input_mask"] != 0
    is_text &= ~np.isin(pieces, (special.cls_id, special.sep_id))
    return np.where(is_text, pieces, -1)


def read_pieces(
    paths: Sequence[str], max_records: int, vocab_size: int
) -> Iterator[np.ndarray]:
    """Yield `original_pieces` of batches, of at most `max_records` in all."""
    num_read, special = 0, None
    with progress.Progress("counting pairs", None, "records") as bar:
        for path in paths:
            layout = None
            for batch in record_statistics.read_batches(path):
                layout = layout or _find_layout(batch[0], path)
                records = batch[: max_records - num_read]
                features = record_statistics.parse_batch(layout, records, path)
                special = special or record_statistics.guess_special_ids(
                    features
                )
                pieces = original_pieces(features, special)
                _check_ids(pieces, vocab_size, path)
                yield pieces
                num_read += len(records)
                bar.update(num_read)
                if num_read >= max_records:
                    return


def _find_layout(record: bytes, path: str) -> layouts.Layout:
    """Return the layout of a file's records, with the allowed values."""
    example = record_statistics.parse_example(record, path)
    layout = record_statistics.find_layout(example)
    if layout is None:
        raise errors.UserError(
            f"`input_file={path}` holds no records for pretraining. Give files "
            "of create_pretraining_data, made with --records=instances."
        )
    size = {feature.name: feature.shape[0] for feature in layout}
    full_layout = layouts.pretraining_layout(
        size["input_ids"], size.get("masked_lm_positions", 0)
    )
    # `_check_ids` compares pieces with the config.
    full_layout = layouts.for_model(full_layout, 2**31, 2**31)
    return tuple(feature for feature in full_layout if feature.name in size)


def _check_ids(pieces: np.ndarray, vocab_size: int, path: str) -> None:
    highest = int(pieces.max(initial=-1))
    if highest >= vocab_size:
        raise errors.UserError(
            f"`input_file={path}` holds the id {highest}; the vocab_size of "
            f"`albert_config_file` is {vocab_size}. Give the config of the "
            "model that is trained on these records."
        )


def run(settings: WordEmbeddingsOptions) -> None:
    paths = files.expand_patterns(
        settings.input_file, "input_file", files.BESIDE_RECORDS
    )
    manifests.check_sizes(paths)
    manifests.check_vocabularies(manifests.vocab_hashes(paths))
    model = config.AlbertConfig.from_json_file(settings.albert_config_file)
    max_size = model.vocab_size // 4
    if model.embedding_size > max_size:
        raise errors.UserError(
            f"`albert_config_file={settings.albert_config_file}` has an "
            f"embedding_size of {model.embedding_size}; with its vocab_size of "
            f"{model.vocab_size}, {max_size} are possible. Start from random "
            "embeddings instead."
        )
    output = settings.output_file
    written = [output, output + manifests.EMBEDDINGS_ENDING]
    outputs.check(settings, "output_file", written)
    files.make_folder(os.path.dirname(output), "output_file")
    # Opened first: whether it can be written shows before a minute of counting.
    with files.replace_atomically(output) as stream:
        pieces = read_pieces(paths, _MAX_RECORDS, model.vocab_size)
        counts = cooccurrence.add_pairs(pieces, model.vocab_size)
        information = cooccurrence.positive_information(counts)
        if not information.nnz:
            raise errors.UserError(
                f"`input_file={settings.input_file}` holds too few different "
                "pieces. Give more text, or start from random embeddings."
            )
        logging.info(
            "Computing embeddings from %d pairs of pieces.", counts.nnz
        )
        table = cooccurrence.embeddings(
            information,
            model.embedding_size,
            settings.stddev,
            settings.random_seed,
        )
        content = io.BytesIO()  # NumPy itself does not say why writing failed.
        np.save(content, table)
        stream.write(content.getvalue())
        manifests.write_vocabulary_of_embeddings(output, paths)
    logging.info("Wrote %s: %d embeddings of %d numbers.", output, *table.shape)


if __name__ == "__main__":
    options.run_script(run, WordEmbeddingsOptions)
