"""Stage 3: instances of all units, in the order of their keys."""

import dataclasses

import numpy as np
import pytest

from albert_tf.common import random_streams
from albert_tf.data import layouts, marks, masking, tfrecord
from data_prep.writer import assemble, instances
from tests import record_files

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
    settings = {
        "max_seq_length": LENGTH,
        "vocabulary": VOCABULARY,
        "masker": MASKER,
        "layout": LAYOUT,
    }
    return assemble.Assembler(
        tuple(prefixes), counts, **{**settings, **changes}
    )


def plain_values(instance, bits=0):
    """The features of one instance before masking.

    With a bit below the id, that says where words start.
    """
    ids = [CLS << bits, *instance.first, SEP << bits]
    segments = [0] * len(ids)
    if instance.second:
        ids += [*instance.second, SEP << bits]
        segments += [1] * (len(instance.second) + 1)
    padding = [0] * (LENGTH - len(ids))
    tokens, ids = ids, [i >> bits for i in ids]
    starts = [int(VOCABULARY.boundaries[i]) for i in ids]
    if bits:
        starts = [
            int(i in (CLS, SEP) or token & 1)
            for i, token in zip(ids, tokens, strict=True)
        ]
    return {
        "input_ids": ids + padding,
        "input_mask": [1] * len(ids) + padding,
        "segment_ids": segments + padding,
        "token_boundary": starts + padding,
        "next_sentence_labels": [instance.label],
    }


def masked_values(instance):
    values = plain_values(instance)
    length = sum(values["input_mask"])
    masked = MASKER.mask(
        np.array([values["input_ids"]]),
        np.array([length]),
        np.array([instance.key], np.uint64),
    )
    count = int(masked.counts[0])
    return {
        **values,
        "input_ids": masked.input_ids[0],
        "masked_lm_positions": masked.positions[0],
        "masked_lm_ids": masked.labels[0],
        "masked_lm_weights": [1.0] * count + [0.0] * (PREDICTIONS - count),
    }


def ordered(units):
    return sorted(sum(units, []), key=lambda i: i.key)


def framed(layout, rows):
    messages = [record_files.encode(layout, values) for values in rows]
    return tfrecord.frame_batch(messages)


@pytest.mark.parametrize("positions", [assemble._POSITIONS_AT_ONCE, 40, 1])
def test_records_stand_in_the_order_of_the_keys(
    tmp_path, monkeypatch, positions
):
    """Whatever the parts, and however many are masked at once."""
    monkeypatch.setattr(assemble, "_POSITIONS_AT_ONCE", positions)
    units = draw(3)
    assembler = make_assembler(tmp_path, units)
    parts = assemble.make_parts(assembler.counts)
    encoded = [assembler.encode(part) for part in parts]
    wanted = framed(LAYOUT, map(masked_values, ordered(units)))
    for part, result in zip(parts, encoded, strict=True):
        first, last = part.first_record, part.first_record + part.num_records
        assert result.part == part
        assert result.framed == b"".join(wanted[first:last])
        lengths = [len(record) for record in wanted[first:last]]
        assert result.ends.tolist() == np.cumsum(lengths, dtype=int).tolist()
        labels = [i.label for i in ordered(units)[first:last]]
        assert result.counts["instances"] == len(labels)
        assert result.counts["label_1"] == sum(labels)
    assert len(wanted) == sum(part.num_records for part in parts)


@pytest.mark.parametrize("bits", [0, 1])
def test_records_for_masking_in_training(tmp_path, bits):
    """One segment has two markers, also beside pairs, and says so."""
    layout = layouts.without_masks(LAYOUT)
    units = draw(3)
    alone = {"second": [], "label": layouts.NO_LABEL}
    units[0] = [dataclasses.replace(i, **alone) for i in units[0]]
    assembler = make_assembler(
        tmp_path, units, masker=None, layout=layout, mark_bits=bits
    )
    parts = assemble.make_parts(assembler.counts)
    encoded = [assembler.encode(part) for part in parts]
    rows = [plain_values(instance, bits) for instance in ordered(units)]
    wanted = framed(layout, rows)
    assert b"".join(e.framed for e in encoded) == b"".join(wanted)
    assert sum(e.counts["unlabelled"] for e in encoded) == len(units[0])
    labels = [i.label for i in sum(units[1:], [])]
    assert sum(e.counts["label_1"] for e in encoded) == sum(labels)


def test_markers_count_as_tokens_of_passages(tmp_path):
    """Records have pieces and their marks, of the first segment."""
    layout, units = layouts.passage_layout(LENGTH), draw(3)
    rows = {}
    for unit in units:
        end = 0  # Stands for the document, see `make_assembler`.
        for number, one in enumerate(unit):
            first = [piece * 37 for piece in one.first]
            unit[number] = dataclasses.replace(one, first=first)
            end += len(first) + len(one.second)
            padding = [0] * (LENGTH - 2 - len(first))
            rows[one.key] = {
                "tokens": [piece >> marks.BITS for piece in first] + padding,
                "marks": [piece % 2**marks.BITS for piece in first] + padding,
                "document": end,
            }
    assembler = make_assembler(
        tmp_path, units, mark_bits=marks.BITS, layout=layout
    )
    parts = assemble.make_parts(assembler.counts)
    encoded = [assembler.encode(part) for part in parts]
    found = sum(part.counts["tokens"] for part in encoded)
    assert found == sum(len(i.first) + 2 for i in sum(units, []))
    values = {
        name: np.array([rows[key][name] for key in sorted(rows)])
        for name in ("tokens", "marks", "document")
    }
    wanted = tfrecord.frame_batch(tfrecord.encode_batch(layout, values))
    assert b"".join(part.framed for part in encoded) == b"".join(wanted)


def test_an_empty_part_has_counts_all_the_same(tmp_path):
    """So that all parts add up to counts of the same names."""
    units = [[i for i in unit if i.key < 2**62] for unit in draw(3)]
    assembler = make_assembler(tmp_path, units)
    assert not assembler.counts[:, 3].any()
    nothing = assembler.encode(assemble.Part(3, 99, 0))
    something = assembler.encode(assemble.make_parts(assembler.counts)[0])
    assert nothing.framed == b"" and nothing.ends.tolist() == []
    assert nothing.counts.keys() == something.counts.keys()


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
