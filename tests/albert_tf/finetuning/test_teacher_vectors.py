"""Vectors that a student learns, from files."""

import numpy as np
import pytest

from albert_tf.data import examples, layouts, tfrecord
from albert_tf.finetuning import saved_outputs, teacher_vectors
from tests.conftest import refused


@pytest.fixture(autouse=True)
def _parts(monkeypatch):
    monkeypatch.setattr(saved_outputs, "PART", 4)


def table(rows=10, width=6, dtype=np.float32):
    return np.random.default_rng(width).normal(size=(rows, width)).astype(dtype)


def written(folder, *tables):
    paths = [folder / f"{number}.npy" for number in range(len(tables))]
    for path, rows in zip(paths, tables, strict=True):
        np.save(path, rows)
    return ",".join(map(str, paths))


def all_rows(targets):
    return np.concatenate([part["embedding"] for part in targets.parts()])


def plain_unit(rows):
    return rows / np.sqrt((rows.astype(np.float64) ** 2).sum(1))[:, None]


def test_rows_side_by_side_have_equal_shares(tmp_path):
    tables = table(width=6, dtype=np.float16) * 50, table(width=4)
    found = teacher_vectors.FileVectors(written(tmp_path, *tables))
    assert (found.width, found.names) == (10, ["embedding"])
    rows = all_rows(found)
    one, other = map(plain_unit, tables)
    np.testing.assert_allclose(
        rows @ rows.T, (one @ one.T + other @ other.T) / 2, atol=1e-6
    )


def test_reduced_vectors_are_the_best_of_their_width(tmp_path):
    rows = table(width=6) @ np.diag([9, 5, 3, 1, 0.1, 0.01]).astype(np.float32)
    given = teacher_vectors.FileVectors(written(tmp_path, rows))
    reduced = saved_outputs.ReducedVectors(given, 3)
    left, lengths, _ = np.linalg.svd(plain_unit(rows), full_matrices=False)
    expected = plain_unit(left[:, :3] * lengths[:3])
    found = all_rows(reduced)
    np.testing.assert_allclose(
        found @ found.T, expected @ expected.T, atol=1e-5
    )
    assert reduced.layout[0].shape == (3,)
    assert reduced.key != given.key
    whole = all_rows(saved_outputs.ReducedVectors(given, 6))
    np.testing.assert_allclose(
        whole @ whole.T, all_rows(given) @ all_rows(given).T, atol=1e-5
    )


def test_first_numbers_of_reduced_vectors_are_vectors_of_their_own():
    rows = plain_unit(table(rows=300, width=48) * 0.9 ** np.arange(48))
    directions = saved_outputs.main_directions(rows.T @ rows, 40)
    np.testing.assert_allclose(directions.T @ directions, np.eye(40), atol=1e-5)
    _, _, singular = np.linalg.svd(rows, full_matrices=False)
    first = directions[:, :32]
    np.testing.assert_allclose(
        first @ first.T, singular[:32].T @ singular[:32], atol=1e-5
    )
    lengths = np.linalg.norm(rows @ first, axis=0)
    assert lengths.max() < 4 * lengths.min()  # Singular values: 26 times.


def spoiled(row, value):
    rows = table()
    rows[row] = value
    return rows


REFUSALS = {
    "not finite": ([spoiled(8, np.inf)], "0.npy`?: row 9 is not finite"),
    "NaN": ([table(width=4), spoiled(0, np.nan)], "1.npy`?: row 1 is not"),
    "zero": ([spoiled(5, 0)], "row 6 is 0 only"),
    "equal": ([np.ones([10, 3], np.float32)], "all rows are equal"),
    "one axis": ([table()[0]], r"holds float32 \[6\], not"),
    "whole numbers": ([np.ones([10, 3], np.int8)], r"holds int8 \[10, 3\]"),
    "objects": ([np.array([None])], "not a whole NumPy file"),
    "of other texts": ([table(10), table(9, 4)], "1.npy has 9 rows, but .*10"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_is_no_vector_of_a_text_is_refused(tmp_path, case):
    tables, message = REFUSALS[case]
    with refused(message):
        teacher_vectors.FileVectors(written(tmp_path, *tables))


def test_another_number_of_texts_is_refused(tmp_path):
    found = teacher_vectors.FileVectors(written(tmp_path, table()))
    found.require_rows(10)
    with refused("10 rows, where 11 are needed"):
        found.require_rows(11)


def test_one_text_is_enough(tmp_path):
    found = teacher_vectors.FileVectors(written(tmp_path, table(1)))
    assert all_rows(found).shape == (1, 6)


def test_each_record_gets_the_row_of_its_text(tmp_path):
    found = teacher_vectors.FileVectors(written(tmp_path, table()))
    layout = (layouts.Feature("a", (), "int64"),)
    framed = tfrecord.frame_batch(
        tfrecord.encode_batch(layout, {"a": np.arange(10)})
    )
    records = examples.decode_batch(
        layout + found.layout,
        [
            tfrecord.unframe(record)
            for batch in found.add_to_records([framed[:3], framed[3:]])
            for record in batch
        ],
    )
    np.testing.assert_array_equal(records["a"], np.arange(10))
    np.testing.assert_allclose(
        records["teacher_embedding"], plain_unit(table()), atol=1e-6
    )
