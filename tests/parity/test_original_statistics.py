"""Statistics of the writer's records against the original's.

The original's records with the same options were recorded; see the fixtures'
README. Two runs of the original differ as much from each other, because some of
its draws are unseeded.
"""

import dataclasses
import json
import lzma
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data import layouts, masking, parsing
from data_prep import create_pretraining_data
from data_prep.inspection import record_statistics
from data_prep.writer import corpus, segment_pairs
from tests.parity.conftest import TextSet


@dataclasses.dataclass(frozen=True)
class Run:
    """`tolerances`: how far a statistic, or its mean over seeds, may be off."""

    text: pathlib.Path
    text_set: TextSet
    names: tuple[str, ...]
    lengths: tuple[int, int]
    dupe_factor: int
    tolerances: dict[str, float]


# A few standard errors. Shares of 270,000 predictions have 0.001, of some tens
# of thousand runs 0.003. How many documents draw a short target decides about
# lengths, numbers and labels together: over ten seeds of ours the mean length
# is 115.5 with a standard deviation of 0.55, the number of records 15,648 with
# 120, the share of label 1 0.550 with 0.006.
OF_REAL_TEXT = {
    "well_formed": 0,
    "label_1": 0.02,
    "mask_keep_random": 0.004,
    "word_runs": 0.006,
    "masked_share": 0.001,
    "mean_relative_position": 0.003,
    "unsorted_positions": 0,
    # Tokens. Percentiles of whole numbers move by one at most.
    "length": 5,
    "mean_length": 1.8,
    "segment_a": 1.5,
    "predictions": 1,
    "mean_predictions": 0.3,
    "examples": 470,
}
# Means over three seeds, of 130,000 predictions each. From seed to seed of the
# original the mean length is 57.7 to 58.2, the number of records 14,433 to
# 14,799, the share of label 1 0.585 to 0.602.
OF_OWN_TEXT = OF_REAL_TEXT | {
    "masked_share": 0.002,
    "length": 2.5,
    "mean_length": 0.6,
    "mean_predictions": 0.1,
    "examples": 400,
}


@pytest.fixture(scope="module")
def own_run(own_text):
    names = tuple(f"corpus_seq64_pred10_dupe20_seed{n}.json" for n in (1, 2, 3))
    return Run(own_text.corpus, own_text, names, (64, 10), 20, OF_OWN_TEXT)


@pytest.fixture(scope="module")
def real_run(real_text, tmp_path_factory):
    packed = real_text.data / "corpora/movie_reviews.txt.xz"
    text = tmp_path_factory.mktemp("reviews") / "text.txt"
    text.write_bytes(lzma.decompress(packed.read_bytes()))
    names = ("movie_reviews_seq128_pred20_dupe1.json",)
    return Run(text, real_text, names, (128, 20), 1, OF_REAL_TEXT)


def statistics_of_ours(run, seed, folder):
    output = str(folder / f"{seed}.tfrecord")
    max_seq_length, max_predictions_per_seq = run.lengths
    create_pretraining_data.run(
        create_pretraining_data.CreatePretrainingDataOptions(
            text=corpus.CorpusOptions(str(run.text)),
            output_file=output,
            dupe_factor=run.dupe_factor,
            num_workers=1,
            random_seed=seed,
            vocabulary=run.text_set.vocabulary("sentencepiece"),
            pairs=segment_pairs.PairOptions(
                max_seq_length=max_seq_length, single_segment_policy="random"
            ),
            masks=masking.MaskingOptions(
                max_predictions_per_seq=max_predictions_per_seq
            ),
        )
    )
    layout = layouts.pretraining_layout(*run.lengths)
    parts = [
        parsing.parse(layout, serialized)
        for serialized in tf.data.TFRecordDataset(output).batch(8192)
    ]
    features = {
        feature.name: np.concatenate([part[feature.name] for part in parts])
        for feature in layout
    }
    special = record_statistics.SpecialIds(2, 3, 4)
    counts = record_statistics.count(features, special)
    found = record_statistics.summarize(counts)
    return {**found, "examples": len(features["input_ids"])}


@pytest.fixture(scope="module", params=["own_run", "real_run"])
def all_three(request, tmp_path_factory):
    run = request.getfixturevalue(request.param)
    recorded = [
        json.loads(run.text_set.read(f"original_writer_stats/{name}"))
        for name in run.names
    ]
    folder = tmp_path_factory.mktemp("statistics")
    ours = [
        statistics_of_ours(run, 12345 + i, folder) for i in range(len(recorded))
    ]
    return run, recorded, ours


@pytest.mark.parametrize("name", OF_OWN_TEXT)
def test_statistic_equals_the_original(all_three, name):
    run, *both = all_three
    theirs, ours = (
        np.mean([seed[name] for seed in seeds], axis=0) for seeds in both
    )
    np.testing.assert_allclose(ours, theirs, atol=run.tolerances[name], rtol=0)
