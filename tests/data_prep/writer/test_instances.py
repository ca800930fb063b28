"""Stage 2: all instances of a unit, by their keys, on the disk."""

import numpy as np
import pytest

from data_prep.writer import instances, segment_pairs, token_blocks
from tests.conftest import digest

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
    return instances.InstanceBuilder(corpus, options, WORD_START, seed)


@pytest.mark.parametrize(
    ("unit", "counts", "built"),
    [
        (instances.Unit(0, range(1), range(3)), "9baafe1b24b6", "65437a439416"),
        (
            instances.Unit(1, range(1, 2), range(1)),
            "e2ec548a9068",
            "c553310a19b7",
        ),
        (
            instances.Unit(2, range(1, 2), range(2, 6)),
            "81d4a5116f66",
            "026b67222b03",
        ),
        (
            instances.Unit(3, range(2), range(1, 3)),
            "7bbc4127b270",
            "6ee251180c0c",
        ),
    ],
)
def test_instances_of_a_unit(corpus, unit, counts, built):
    """Sorted by keys, which follow from document, pass and place."""
    found = make_builder(corpus).build(unit)
    assert digest(found.rows, found.tokens) == built
    assert digest(sorted(found.counts.items())) == counts
    assert found.rows["key"].tolist() == sorted(found.rows["key"].tolist())
    if 1 in unit.blocks:
        assert found.counts["unused_documents"] == len(unit.passes)
        assert found.counts["unused_chunks"] and found.counts["tokens_cut"]
    assert found.tokens.dtype == np.uint16
    # One behind the other, without gaps.
    lengths = found.rows["first"] + found.rows["second"]
    assert found.rows["begin"].tolist() == [0, *np.cumsum(lengths)[:-1]]
    assert len(found.tokens) == lengths.sum()


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
    begins = [*built.rows["begin"].tolist(), len(built.tokens)]
    count = len(built.rows)
    assert instances.count_rows(prefix) == count > 10
    for begin in range(count + 1):
        for end in range(begin, count + 1):
            rows, tokens = instances.load_rows(
                prefix, begin, end, np.dtype(np.uint16)
            )
            expected = built.rows[begin:end].copy()
            expected["begin"] -= np.uint64(begins[begin])
            assert rows.tolist() == expected.tolist()
            assert tokens.dtype == np.uint16
            wanted = built.tokens[begins[begin] : begins[end]]
            assert tokens.tolist() == wanted.tolist()


def test_keys_are_counted_by_their_first_bits(saved):
    prefix, built = saved
    for bits in (1, 3, 8):
        counts = np.zeros(2**bits, int)
        for key in built.rows["key"].tolist():
            counts[key >> (64 - bits)] += 1
        assert instances.count_keys(prefix, bits).tolist() == counts.tolist()
