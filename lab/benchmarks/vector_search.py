r"""Search in vectors of fewer numbers, as bytes or bits: bytes, recall, time.

    pip install faiss-cpu==1.15.1 usearch==2.26.6
    python -m lab.benchmarks.vector_search vectors.npy

The file has vectors of length 1, float32 [texts, width]; the last thousand are
queries. A row each for the dimensions and precisions of `export`: bytes of a
vector; recall at 10, the share of the ten nearest by whole vectors that are
among the ten nearest; the same where 40 are found and the ten best of them
chosen by the query in float32 with what is stored, or with stored bytes of all
dimensions (bytes of both); milliseconds for a query in one thread. faiss looks
at all vectors, usearch builds its graph.
"""

import argparse
import itertools
import time
from collections.abc import Callable

import faiss
import numpy as np
from usearch.index import Index

from albert_tf.common import packed_vectors

QUERIES, NEAREST, CHOSEN_FROM = 1000, 10, 40
Search = Callable[[np.ndarray, int], np.ndarray]


def by_faiss(packed: np.ndarray, precision: str) -> Search:
    width = packed.shape[1]
    if precision == packed_vectors.BINARY:
        bits = faiss.IndexBinaryFlat(8 * width)
        bits.add(packed)
        return lambda queries, count: bits.search(queries, count)[1]
    index = faiss.IndexFlatIP(width)
    if precision == packed_vectors.INT8:
        kind = faiss.ScalarQuantizer.QT_8bit_direct_signed
        index = faiss.IndexScalarQuantizer(
            width, kind, faiss.METRIC_INNER_PRODUCT
        )
        index.is_trained = True
    index.add(packed.astype(np.float32))
    return lambda queries, count: index.search(
        queries.astype(np.float32), count
    )[1]


def by_usearch(packed: np.ndarray, precision: str) -> Search:
    kinds = {
        packed_vectors.FLOAT: ("f32", "ip"),
        packed_vectors.INT8: ("i8", "ip"),
        packed_vectors.BINARY: ("b1", "hamming"),
    }
    dtype, metric = kinds[precision]
    ndim = packed.shape[1] * (8 if dtype == "b1" else 1)
    index = Index(ndim=ndim, metric=metric, dtype=dtype)
    index.add(np.arange(len(packed)), packed, threads=1)
    return lambda queries, count: index.search(queries, count, threads=1).keys


def recall(found: np.ndarray, expected: np.ndarray) -> float:
    pairs = zip(found[:, :NEAREST], expected, strict=True)
    shares = [np.isin(right, row).mean() for row, right in pairs]
    return 100 * float(np.mean(shares))


def rescored(
    found: np.ndarray, queries: np.ndarray, texts: np.ndarray
) -> np.ndarray:
    """Sort what is found by the products of float vectors."""
    cosines = np.einsum("qd,qkd->qk", queries, texts[found])
    return np.take_along_axis(found, np.argsort(-cosines, axis=1), axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("vectors")
    parser.add_argument("--dimensions", default="64,128,256")
    given = parser.parse_args()
    faiss.omp_set_num_threads(1)
    vectors = np.load(given.vectors)
    texts, queries = vectors[:-QUERIES], vectors[-QUERIES:]
    expected = by_faiss(texts, packed_vectors.FLOAT)(queries, NEAREST)
    width = texts.shape[1]
    as_bytes = packed_vectors.VectorOptions(None, packed_vectors.INT8)
    whole = as_bytes.rounded(texts).astype(np.float32)
    print(
        "| Dimensions | Precision | Bytes | Recall | With 40 | And bytes "
        "| faiss, ms | usearch | ms |"
    )
    print("| ---: | --- " + "| ---: " * 7 + "|")
    sizes = [width, *map(int, given.dimensions.split(","))]
    precisions = packed_vectors.PRECISIONS
    for size, precision in itertools.product(sizes, precisions):
        form = packed_vectors.VectorOptions(size, precision)
        packed, asked = form.pack(texts), form.pack(queries)
        cells = [str(size), precision, str(packed[0].nbytes)]
        kept = packed_vectors.VectorOptions(size).pack(queries)
        stored = packed_vectors.unpack(packed).astype(np.float32)
        for make in (by_faiss, by_usearch):
            search = make(packed, precision)
            start = time.process_time()
            found = search(asked, NEAREST)
            spent = time.process_time() - start
            cells.append(f"{recall(found, expected):.1f}")
            if make is by_faiss:
                many = search(asked, CHOSEN_FROM)
                best = rescored(many, kept, stored)
                cells.append(f"{recall(best, expected):.1f}")
                best = rescored(many, queries, whole)
                cost = packed[0].nbytes + width
                cells.append(f"{recall(best, expected):.1f} ({cost})")
            cells.append(f"{1000 * spent / QUERIES:.2f}")
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
