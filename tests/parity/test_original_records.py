"""Every record of the original, feature by feature and in its order."""

import pathlib

import pytest

from albert_tf import records, tokenization
from data_prep import create_pretraining_data, ngram_masking, segment_pairs

FIXTURE = pathlib.Path(__file__).parents[1] / "fixtures" / "original_tfrecord"


def read_examples(path, compression=""):
    import tensorflow as tf

    dataset = tf.data.TFRecordDataset(str(path), compression_type=compression)
    batch = next(iter(dataset.batch(10_000)))
    layout = records.pretraining_layout(128, 20)
    parsed = records.parse(layout, batch)
    return {name: value.numpy() for name, value in parsed.items()}


@pytest.fixture(scope="module")
def written(tmp_path_factory, shared_dir):
    output = tmp_path_factory.mktemp("records") / "ours.tfrecord"
    create_pretraining_data.run(
        create_pretraining_data.CreatePretrainingDataOptions(
            input_file=str(FIXTURE / "input.txt"),
            output_file=str(output),
            vocabulary=tokenization.VocabularyOptions(
                str(shared_dir / "data/vocab/30k-clean.model")
            ),
            random_seed=12345,
            dupe_factor=2,
            pairs=segment_pairs.PairOptions(max_seq_length=128),
            masking=ngram_masking.MaskingOptions(max_predictions_per_seq=20),
        )
    )
    return read_examples(output)


@pytest.fixture(scope="module")
def original():
    return read_examples(FIXTURE / "original.tfrecord.gz", "GZIP")


@pytest.mark.parametrize(
    "name", [f.name for f in records.pretraining_layout(128, 20)]
)
def test_feature_equals_the_original(written, original, name):
    assert written[name].shape == original[name].shape
    assert original[name].shape[0] == 353
    assert (written[name] == original[name]).all()


def test_original_records_pass_the_check_without_a_manifest(tmp_path):
    import tensorflow as tf

    path = str(tmp_path / "original.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for record in tf.data.TFRecordDataset(
            str(FIXTURE / "original.tfrecord.gz"), compression_type="GZIP"
        ):
            writer.write(record.numpy())
    expected = records.Expected(128, 20, 30000)
    assert records.check_records([path], expected) == []
