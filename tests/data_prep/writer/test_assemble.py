"""Stage 3: instances of all units, in the order of their keys."""

import dataclasses
import io

import numpy as np
import pytest

from albert_tf.common import random_streams
from albert_tf.data import examples, layouts, marks, masking, tfrecord
from data_prep.writer import assemble, instances
from tests.conftest import digest

CLS, SEP, MASK = 2, 3, 4
LENGTH, PREDICTIONS = 16, 4
VOCABULARY = masking.Vocabulary.from_pieces(
    ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
    + [f"▁{n}" if n % 3 else "ing" for n in range(95)],
    cls_id=CLS,
    sep_id=SEP,
    mask_id=MASK,
    starts_word=masking.english_starts_word,
)
LAYOUT = layouts.pretraining_layout(LENGTH, PREDICTIONS)
MASKER = masking.Masker(
    masking.MaskingOptions(
        max_predictions_per_seq=PREDICTIONS, masked_lm_prob=0.3
    ),
    VOCABULARY,
)
# Units of different sizes; the last has no instance.
SIZES = (9, 4, 3, 0)
BITS = 2


@dataclasses.dataclass(frozen=True)
class Instance:
    key: int
    first: list
    second: list
    label: int


def draw(special):
    """Instances of all units, each unit sorted by keys."""
    generator = np.random.default_rng(5)

    def one(number):
        first = int(generator.integers(1, LENGTH - special - 1))
        # The first instance fills the sequence.
        second = int(generator.integers(1, LENGTH - special - first + 1))
        second = LENGTH - special - first if not number else second
        pieces = generator.integers(5, 100, first + second).tolist()
        return Instance(
            random_streams.derive(1, number),
            pieces[:first],
            pieces[first:],
            number % 2,
        )

    numbers = iter(range(sum(SIZES)))
    return [
        sorted((one(next(numbers)) for _ in range(size)), key=lambda i: i.key)
        for size in SIZES
    ]


def make_assembler(folder, units, **changes):
    prefixes = []
    for number, unit in enumerate(units):
        tokens = [i.first + i.second for i in unit]
        ends = np.cumsum([len(t) for t in tokens], dtype=int)
        rows = [
            (i.key, end - len(t), len(i.first), len(i.second), i.label, 0, end)
            for i, t, end in zip(unit, tokens, ends.tolist(), strict=True)
        ]
        built = instances.Built(
            np.array(rows, instances.ROW),
            np.array(sum(tokens, []), np.uint16),
            {},
        )
        prefixes.append(str(folder / f"unit-{number}"))
        instances.save(prefixes[-1], built)
    counts = np.stack([instances.count_keys(p, BITS) for p in prefixes])
    parts = {"masker": MASKER, "layout": LAYOUT, **changes}
    return assemble.Assembler(
        tuple(prefixes), counts, LENGTH, VOCABULARY, **parts
    )


def encode(folder, units, **changes):
    """The frames of all parts, and their counts as plain values."""
    assembler = make_assembler(folder, units, **changes)
    parts = assemble.make_parts(assembler.counts)
    encoded = [assembler.encode(part) for part in parts]
    assert [result.part for result in encoded] == parts
    counts = [
        {name: np.array(n).tolist() for name, n in result.counts.items()}
        for result in encoded
    ]
    return [result.framed for result in encoded], counts, encoded


@pytest.mark.parametrize("positions", [assemble._POSITIONS_AT_ONCE, 40, 1])
def test_records_stand_in_the_order_of_the_keys(
    tmp_path, monkeypatch, positions
):
    """Whatever the parts, and however many are masked at once."""
    monkeypatch.setattr(assemble, "_POSITIONS_AT_ONCE", positions)
    units = draw(3)
    frames, counts, encoded = encode(tmp_path, units)
    assert digest(frames) == "75a834304bd5"
    assert digest(counts) == "fc8567a86fc6"
    ordered = sorted(sum(units, []), key=lambda i: i.key)
    for result in encoded:
        first, count = result.part.first_record, result.part.num_records
        labels = [i.label for i in ordered[first : first + count]]
        records = [*tfrecord.read_frames(io.BytesIO(result.framed))]
        found = [examples.decode(record) for record in records]
        assert [f["next_sentence_labels"].tolist() for f in found] == [
            [label] for label in labels
        ]
        sizes = [len(record) + 16 for record in records]
        assert result.ends.tolist() == np.cumsum(sizes, dtype=int).tolist()
        assert result.counts["instances"] == len(labels)
        assert result.counts["label_1"] == sum(labels)


PLAIN = {"masker": None, "layout": layouts.without_masks(LAYOUT)}
PASSAGES = {"layout": layouts.passage_layout(LENGTH), "mark_bits": marks.BITS}


@pytest.mark.parametrize(
    ("changes", "scale", "records"),
    [
        (PLAIN, 1, "dd24a0ae5eb6"),
        ({**PLAIN, "mark_bits": 1}, 1, "8c256ddde37f"),
        (PASSAGES, 37, "b6f251ad77ec"),  # Ids with marks below them.
    ],
)
def test_records_for_masking_in_training(tmp_path, changes, scale, records):
    """One segment has two markers, also beside pairs, and says so."""
    units = draw(3)
    alone = {"second": [], "label": layouts.NO_LABEL}
    units[0] = [dataclasses.replace(i, **alone) for i in units[0]]
    for instance in sum(units, []):
        instance.first[:] = [scale * piece for piece in instance.first]
    frames, counts, _ = encode(tmp_path, units, **changes)
    assert digest(frames, counts) == records


def test_an_empty_part_has_counts_all_the_same(tmp_path):
    """So that all parts add up to counts of the same names."""
    units = [[i for i in unit if i.key < 2**62] for unit in draw(3)]
    frames, counts, encoded = encode(tmp_path, units)
    assert frames[3] == b"" and encoded[3].ends.tolist() == []
    assert counts[3].keys() == counts[0].keys() and any(counts[0].values())


def test_parts_follow_one_another():
    parts = assemble.make_parts(np.array([[2, 0, 1], [3, 0, 4]]))
    assert parts == [
        assemble.Part(0, 0, 5),
        assemble.Part(1, 5, 0),
        assemble.Part(2, 5, 5),
    ]


def test_files_have_equal_numbers_of_records():
    assert assemble.divide_evenly(10, 3) == [0, 3, 6, 10]
    assert assemble.divide_evenly(3, 3) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("first", "count", "expected"),
    [
        (3, 4, [(0, 0, 2), (1, 2, 4)]),
        (0, 12, [(0, 0, 5), (1, 5, 10), (2, 10, 12)]),
        (5, 5, [(1, 0, 5)]),
        (4, 1, [(0, 0, 1)]),
        (9, 2, [(1, 0, 1), (2, 1, 2)]),
        (7, 0, []),
    ],
)
def test_neighbours_are_divided_between_files(first, count, expected):
    bounds = [0, 5, 10, 12]
    assert list(assemble.divide(first, count, bounds)) == expected
