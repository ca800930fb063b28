"""Rows of ids, masks and segments."""

import tensorflow as tf

from albert_tf.text import packing_ops


def pack(first, second=None, max_seq_length=8):
    rows = [first] if second is None else [first, second]
    segments = [tf.ragged.constant(r, tf.int32, ragged_rank=1) for r in rows]
    packed = packing_ops.pack_inputs(segments, max_seq_length, 2, 3)
    assert {tensor.dtype for tensor in packed.values()} == {tf.int32}
    return {name: tensor.numpy().tolist() for name, tensor in packed.items()}


def test_pack_two_segments_and_an_empty_second():
    assert pack([[11, 12, 13], [14]], [[21, 22], []], 7) == {
        "input_ids": [[2, 11, 12, 3, 21, 22, 3], [2, 14, 3, 0, 0, 0, 0]],
        "input_mask": [[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0, 0]],
        "segment_ids": [[0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 0, 0, 0]],
    }


def test_pack_one_segment():
    assert pack([[11, 12, 13, 14, 15], [], [16]], max_seq_length=5) == {
        "input_ids": [[2, 11, 12, 13, 3], [2, 3, 0, 0, 0], [2, 16, 3, 0, 0]],
        "input_mask": [[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0]],
        "segment_ids": [[0, 0, 0, 0, 0]] * 3,
    }


def test_pack_without_any_row():
    assert pack([], [])["input_ids"] == []


def cut_longer_first(first, second, budget):
    """The original's loop."""
    first, second = list(first), list(second)
    while len(first) + len(second) > budget:
        (first if len(first) > len(second) else second).pop()
    return first, second


def test_pack_cuts_as_the_original_loop():
    for max_seq_length in (4, 5, 8, 9):
        lengths = [(a, b) for a in range(11) for b in range(11)]
        firsts = [list(range(100, 100 + a)) for a, _ in lengths]
        seconds = [list(range(200, 200 + b)) for _, b in lengths]
        packed = pack(firsts, seconds, max_seq_length)
        cases = zip(firsts, seconds, strict=True)
        for row, (first, second) in enumerate(cases):
            markers = 3 if second else 2
            a, b = cut_longer_first(first, second, max_seq_length - markers)
            expected = [2, *a, 3] + ([*b, 3] if b else [])
            size = len(expected)
            assert packed["input_ids"][row][:size] == expected
            assert sum(packed["input_mask"][row]) == size
            assert sum(packed["segment_ids"][row]) == size - len(a) - 2
