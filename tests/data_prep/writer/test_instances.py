"""Stage 2: all instances of a unit, by their keys, on the disk."""

import numpy as np
import pytest

from albert_tf.common import random_streams
from data_prep.writer import instances, segment_pairs, token_blocks

SEED = 77
VOCAB_SIZE = 1000
WORD_START = np.arange(VOCAB_SIZE) % 2 == 0
OPTIONS = segment_pairs.PairOptions(16, 0.3)


def make_block(first_piece, sizes):
    """A block: for each document the lengths of its sentences."""
    lengths = [length for document in sizes for length in document]
    tokens = np.arange(first_piece, first_piece + sum(lengths))
    return token_blocks.TokenBlock(
        (tokens % VOCAB_SIZE).astype(np.uint16),
        np.cumsum(lengths),
        np.cumsum([len(document) for document in sizes]),
        {},
    )


# The second document of the second block is one word: it gives no instance.
BLOCKS = [
    make_block(10, [[3, 4, 5], [6, 2]]),
    make_block(51, [[5, 1, 7, 3, 8, 2, 2, 9], [1], [4, 4, 4], [9, 9, 1]]),
]


@pytest.fixture
def corpus(tmp_path):
    paths = [str(tmp_path / f"block-{number}") for number in range(2)]
    for path, block in zip(paths, BLOCKS, strict=True):
        token_blocks.save(block, path)
    return token_blocks.StoredCorpus(paths, [len(b) for b in BLOCKS])


def make_builder(corpus, options=OPTIONS, seed=SEED):
    return instances.Builder(corpus, options, WORD_START, seed)


def expected(corpus, documents, passes, options=OPTIONS):
    """Sorted (key, segments, label, whether a single sentence); counts."""
    found, counts = [], dict.fromkeys(instances.COUNTS, 0)
    for document in documents:
        for number in passes:
            draws = random_streams.Stream(
                random_streams.derive(SEED, 0, document, number)
            )
            pairs = list(
                segment_pairs.make_pairs(
                    corpus, document, options, draws, WORD_START
                )
            )
            real = [pair for pair in pairs if pair is not None]
            counts["unused_chunks"] += len(pairs) - len(real)
            counts["unused_documents"] += not real
            for place, pair in enumerate(real):
                key = random_streams.derive(SEED, 1, document, number, place)
                segments = (
                    part.tokens[part.begin : part.end].tolist()
                    for part in (pair.first, pair.second)
                )
                facts = pair.label, pair.single_sentence, document
                found.append((key, *segments, *facts))
                counts["tokens_cut"] += pair.tokens_cut
    sizes = [len(one) + len(other) for _, one, other, *_ in found]
    counts["tokens_paired"] = sum(sizes) + counts["tokens_cut"]
    return sorted(found), counts


def unpack(rows, tokens):
    """The same of arrays."""
    found = []
    for row in rows:
        begin, first, second = (
            int(row[name]) for name in ("begin", "first", "second")
        )
        parts = np.split(
            tokens[begin : begin + first + second].astype(int), [first]
        )
        found.append(
            (
                int(row["key"]),
                *(part.tolist() for part in parts),
                int(row["label"]),
                bool(row["single_sentence"]),
                int(row["document"]),
            )
        )
    return found


@pytest.mark.parametrize(
    ("unit", "documents"),
    [
        (instances.Unit(0, range(1), range(3)), range(2)),
        (instances.Unit(1, range(1, 2), range(1)), range(2, 6)),
        (instances.Unit(2, range(1, 2), range(2, 6)), range(2, 6)),
        (instances.Unit(3, range(2), range(1, 3)), range(6)),
    ],
)
def test_instances_of_a_unit(corpus, unit, documents):
    passes = unit.passes
    built = make_builder(corpus).build(unit)
    wanted, counts = expected(corpus, documents, passes)
    assert unpack(built.rows, built.tokens) == wanted
    assert built.counts == counts
    if 1 in unit.blocks:
        assert counts["unused_documents"] == len(passes)
        assert counts["unused_chunks"] and counts["tokens_cut"]
    assert built.tokens.dtype == np.uint16
    # One behind the other, without gaps.
    lengths = [len(one) + len(other) for _, one, other, *_ in wanted]
    assert built.rows["begin"].tolist() == [0, *np.cumsum(lengths)[:-1]]
    assert len(built.tokens) == sum(lengths)


def test_a_document_may_give_instances_and_unused_chunks(tmp_path):
    path = str(tmp_path / "block")
    # Targets of at most 5 pieces: the last sentence, of one word, is alone.
    token_blocks.save(make_block(11, [[3, 3, 1]]), path)
    corpus = token_blocks.StoredCorpus([path], [1])
    options = segment_pairs.PairOptions(8, 0.0)
    built = make_builder(corpus, options).build(
        instances.Unit(0, range(1), range(2))
    )
    wanted, counts = expected(corpus, [0], range(2), options)
    assert unpack(built.rows, built.tokens) == wanted
    assert built.counts == counts
    assert counts["unused_documents"] == 0 and counts["unused_chunks"] == 2


def test_a_unit_without_instances(corpus):
    builder = make_builder(corpus, segment_pairs.PairOptions(16, 0.0))
    built = builder.build(instances.Unit(0, range(1), range(0)))
    assert not len(built.rows) and not len(built.tokens)
    assert built.tokens.dtype == np.uint16


@pytest.fixture
def saved(corpus, tmp_path):
    built = make_builder(corpus).build(instances.Unit(2, range(1, 2), range(4)))
    prefix = str(tmp_path / "unit")
    instances.save(prefix, built)
    return prefix, built


def test_any_neighbours_are_read_alone(saved):
    prefix, built = saved
    everything, count = unpack(built.rows, built.tokens), len(built.rows)
    assert instances.count_rows(prefix) == count > 10
    for begin in range(count + 1):
        for end in range(begin, count + 1):
            rows, tokens = instances.load_rows(
                prefix, begin, end, np.dtype(np.uint16)
            )
            assert unpack(rows, tokens) == everything[begin:end]
            assert len(tokens) == rows["first"].sum() + rows["second"].sum()
            assert tokens.dtype == np.uint16


def test_keys_are_counted_by_their_first_bits(saved):
    prefix, built = saved
    for bits in (1, 3, 8):
        counts = np.zeros(2**bits, int)
        for key in built.rows["key"].tolist():
            counts[key >> (64 - bits)] += 1
        assert instances.count_keys(prefix, bits).tolist() == counts.tolist()
