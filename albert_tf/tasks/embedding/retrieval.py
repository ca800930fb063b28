"""Queries and the texts that answer them: their file, and how many are found.

A file has one JSON object a line: {"id": "7", "text": "..."} for each text, and
{"query": "...", "relevant": ["7"]} for each query; in any order.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from albert_tf.common import errors, rows
from albert_tf.finetuning.packing import TextExample

RECALLS = (1, 10)
# Queries that are compared together, and answers of each.
_BATCH = 256
_MOST_COSINES = 2**26  # At a time: 256 MiB.
_MOST_ANSWERS = 10


@dataclasses.dataclass(frozen=True)
class Entry(TextExample):
    """A text that is searched, or a query.

    Attributes:
        guid: Of a text its id. Of a query see `rows.key_of`.
        texts: One.
        relevant: The ids of what a query should find; of a text none.
    """

    relevant: tuple[Any, ...] = ()


def read(path: str) -> list[Entry]:

    def parse(entry: rows.Row) -> list[Entry]:
        values, where = entry.values, entry.where
        is_query = "query" in values
        entry.require(("query", "relevant") if is_query else ("id", "text"))
        texts = entry.texts(["query" if is_query else "text"])
        if not is_query:
            return [Entry(_checked_id(values["id"], where), texts)]
        relevant = values["relevant"]
        if not isinstance(relevant, list) or not relevant:
            raise errors.UserError(
                f"{where}: 'relevant' is {relevant!r}. Give a list of the ids "
                "of the texts that answer the query, one at least."
            )
        ids = tuple(dict.fromkeys(_checked_id(id_, where) for id_ in relevant))
        return [Entry(entry.guid, texts, relevant=ids)]

    items = rows.read_user_file(path, ["query", "relevant"], parse)
    entries = list(rows.raise_bad_lines(items))
    _check(entries, path)
    return entries


def _checked_id(id_: Any, where: str) -> Any:
    if type(id_) not in (str, int):
        raise errors.UserError(
            f"{where}: the id {id_!r} is neither text nor a whole number. "
            "Correct it."
        )
    return id_


def _check(entries: Sequence[Entry], path: str) -> None:
    ids = set()
    for entry in entries:
        if not entry.relevant and entry.guid in ids:
            raise errors.UserError(
                f"{path} has the id {entry.guid!r} twice. Give every text an "
                "id of its own."
            )
        if not entry.relevant:
            ids.add(entry.guid)
    for entry in entries:
        for id_ in entry.relevant:
            if id_ not in ids:
                raise errors.UserError(
                    f"{path}: the query {entry.texts[0]!r} names the id "
                    f"{id_!r}, but no text has it. Add the text."
                )
    if len(ids) == len(entries):
        raise errors.UserError(
            f"{path} has no queries. Add objects with 'query' and 'relevant'."
        )


def score(vectors: np.ndarray, entries: Sequence[Entry]) -> dict[str, float]:
    """Return `mrr`, `recall_at_1` and `recall_at_10`, means over the queries.

    `mrr` is 1 / the rank of the first relevant text, recall the share of the
    relevant texts among the first ones. For equal cosines see `places`.

    Args:
        vectors: float [entries, width], of length 1.
    """
    numbers = {guid: n for n, guid in enumerate(_ids(entries))}
    return of_ranks(
        [
            places(row, [numbers[id_] for id_ in entry.relevant])
            for entry, row in _cosines(vectors, entries)
        ]
    )


def of_ranks(ranks: Sequence[np.ndarray]) -> dict[str, float]:
    """Return the scores for the ranks of each query's relevant texts."""
    scores = {"mrr": float(np.mean([1 / relevant.min() for relevant in ranks]))}
    for most in RECALLS:
        shares = [(relevant <= most).mean() for relevant in ranks]
        scores[f"recall_at_{most}"] = float(np.mean(shares))
    return scores


def places(row: np.ndarray, chosen: Sequence[int]) -> np.ndarray:
    """Return the ranks of numbers of a row, from 1, the best first.

    Of equal numbers, chosen or not, all orders are equally likely; a rank is
    the mean over them, and the next chosen one stands behind it.
    """
    values = np.sort(row[chosen])[::-1]
    larger = (row > values[:, None]).sum(1)
    equal = (row == values[:, None]).sum(1)
    is_equal = values == values[:, None]
    chosen_equal, before = is_equal.sum(1), np.tril(is_equal, -1).sum(1)
    return larger + (before + 1) * (equal + 1) / (chosen_equal + 1)


def answers(
    vectors: np.ndarray, entries: Sequence[Entry]
) -> Iterator[dict[str, Any]]:
    ids = _ids(entries)
    for entry, row in _cosines(vectors, entries):
        nearest = np.argsort(-row, kind="stable")[:_MOST_ANSWERS]
        prediction = [ids[number] for number in nearest]
        yield {**rows.key_of(entry.guid), "prediction": prediction}


def _ids(entries: Sequence[Entry]) -> list[Any]:
    return [entry.guid for entry in entries if not entry.relevant]


def _cosines(
    vectors: np.ndarray, entries: Sequence[Entry]
) -> Iterator[tuple[Entry, np.ndarray]]:
    is_query = np.array([bool(entry.relevant) for entry in entries])
    asked = [entry for entry in entries if entry.relevant]
    rows = cosines(vectors[is_query], vectors[~is_query])
    yield from zip(asked, rows, strict=True)


def cosines(queries: np.ndarray, texts: np.ndarray) -> Iterator[np.ndarray]:
    """Yield for each query its cosines with all texts."""
    rows = max(1, min(_BATCH, _MOST_COSINES // max(1, len(texts))))
    for start in range(0, len(queries), rows):
        yield from queries[start : start + rows] @ texts.T
