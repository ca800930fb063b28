"""Every record of the original, feature by feature and in order."""

import random

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data import layouts, masking, parsing, record_check
from data_prep.writer import (
    corpus,
    decoding,
    segment_pairs,
    token_blocks,
)
from tests.parity.conftest import TEXT_SETS
from tests.reference import ngram_masking

RECORDED = "original_tfrecord/original.tfrecord.gz"
# Tokens of a sequence, predictions, and how many records there are.
RUNS = {"own_text": (64, 10, 1434), "real_text": (128, 20, 353)}


@pytest.fixture(scope="module", params=TEXT_SETS)
def run(request):
    return request.getfixturevalue(request.param), *RUNS[request.param]


def read_documents(text_set):
    tokenizer = text_set.tokenizer()
    options = corpus.CorpusOptions(str(text_set.corpus))
    documents = []
    for block in corpus.CorpusReader(
        corpus.find_files(options), options
    ).read_blocks():
        lines, facts = decoding.decode_lines(block, options)
        tokens = token_blocks.tokenize(lines, tokenizer, facts)
        documents += [tokens.document(i) for i in range(len(tokens))]
    return documents, tokenizer


@pytest.fixture(scope="module")
def written(run):
    """Records made again with the original's two random generators.

    Documents and pairs are the writer's own; masking is the reference's, which
    draws in the original's order.
    """
    text_set, length, predictions, _ = run
    documents, tokenizer = read_documents(text_set)
    vocabulary = masking.Vocabulary.from_pieces(
        tokenizer.pieces,
        cls_id=tokenizer.cls_id,
        sep_id=tokenizer.sep_id,
        mask_id=tokenizer.mask_id,
        starts_word=masking.english_starts_word,
    )
    draws = random.Random(12345)
    length_draws = np.random.RandomState(12345)
    masker = ngram_masking.Masker(
        masking.MaskingOptions(max_predictions_per_seq=predictions), vocabulary
    )
    options = segment_pairs.PairOptions(
        max_seq_length=length, single_segment_policy="random"
    )
    draws.shuffle(documents)
    instances = []
    for _ in range(2):
        for index in range(len(documents)):
            for pair in segment_pairs.make_pairs(
                documents,
                index,
                options,
                draws,
                vocabulary.boundaries.astype(bool),
            ):
                first, second = (
                    tokens[begin:end].tolist()
                    for tokens, begin, end in (pair.first, pair.second)
                )
                tokens = [2, *first, 3, *second, 3]
                masked = masker.mask(tokens, draws, length_draws)
                instances.append((len(first), len(second), pair.label, masked))
    draws.shuffle(instances)
    return lay_out(instances, layouts.pretraining_layout(length, predictions))


def lay_out(instances, layout):
    arrays = {
        feature.name: np.zeros([len(instances), *feature.shape])
        for feature in layout
    }
    for row, (first, second, label, masked) in enumerate(instances):
        length, count = first + second + 3, len(masked.positions)
        for name, values in (
            ("input_ids", masked.input_ids),
            ("input_mask", [1] * length),
            ("segment_ids", [0] * (first + 2) + [1] * (second + 1)),
            ("token_boundary", masked.token_boundary),
            ("masked_lm_positions", masked.positions),
            ("masked_lm_ids", masked.labels),
            ("masked_lm_weights", [1] * count),
            ("next_sentence_labels", [label]),
        ):
            arrays[name][row, : len(values)] = values
    return arrays


@pytest.fixture(scope="module")
def original(run):
    text_set, length, predictions, _ = run
    path = str(text_set.recordings / RECORDED)
    dataset = tf.data.TFRecordDataset(path, compression_type="GZIP")
    batch = next(iter(dataset.batch(10_000)))
    parsed = parsing.parse(
        layouts.pretraining_layout(length, predictions), batch
    )
    return {name: value.numpy() for name, value in parsed.items()}


@pytest.mark.parametrize(
    "name", [f.name for f in layouts.pretraining_layout(128, 20)]
)
def test_feature_equals_the_original(run, written, original, name):
    *_, count = run
    assert written[name].shape == original[name].shape
    assert original[name].shape[0] == count
    assert (written[name] == original[name]).all()


def test_original_records_pass_the_check_without_a_manifest(run, tmp_path):
    text_set, length, predictions, _ = run
    path = str(tmp_path / "original.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for record in tf.data.TFRecordDataset(
            str(text_set.recordings / RECORDED), compression_type="GZIP"
        ):
            writer.write(record.numpy())
    vocab_size = text_set.tokenizer().vocab_size
    expected = record_check.Expected(length, predictions, vocab_size)
    assert record_check.check_records([path], expected) == []
