"""A part of answer.py, copied beside it: answers in contexts, as SQuAD's."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from albert_tf.finetuning import overlaps, probabilities
from albert_tf.finetuning.squad import squad_spans

_NO_WINDOW = 1e6  # The score for "no answer" in a context without pieces.

_Outputs = Sequence[Mapping[str, np.ndarray]]


class _Context(NamedTuple):
    text: str
    starts: np.ndarray
    ends: np.ndarray
    windows: tuple[tuple[int, int], ...]
    first: int  # Position of the first piece of each window.
    question_truncated: bool


class Task:
    """How requests become pieces, and outputs for these answers."""

    def __init__(self, about: Mapping[str, Any], tokenizer: Any) -> None:
        self._longest, self._options = about["max_seq_length"], about["options"]
        self._may_be_none = about["service"] == "AnswerServiceV2"
        self._tokenizer = tokenizer

    def lay_out(
        self, question: str, context: str
    ) -> tuple[list[tuple[list[int], list[int]]], _Context]:
        """Return the pieces of each window, and what the answer needs."""
        asked = self._tokenizer.encode(question)
        query = asked[: self._options["max_query_length"]]
        ids, starts, ends = self._tokenizer.encode_with_offsets(context)
        limit = self._longest - 3 - len(query)
        stride = self._options["doc_stride"]
        windows = overlaps.split(len(ids), limit, stride)
        rows = [(query, ids[i : i + n].tolist()) for i, n in windows]
        is_cut, first = len(query) < len(asked), len(query) + 2
        return rows, _Context(context, starts, ends, windows, first, is_cut)

    def conclude(self, rest: _Context, found: _Outputs) -> dict[str, Any]:
        """Return the answer, from the outputs for each window.

        As `answer_service` does, with its n-best lists.
        """
        size = self._options["n_best_size"]
        empty = -2e6 if self._may_be_none else 0.0
        best = self._best(rest, found) or {"": (0, empty)}
        places, scores = map(list, zip(*best.values(), strict=True))
        starts = [len(rest.text[:place].encode()) for place in places]
        ends = [
            start + len(text.encode())
            for start, text in zip(starts, best, strict=True)
        ]
        answer: dict[str, Any] = {"question_truncated": rest.question_truncated}
        for name, values in (
            ("answer", [*best]),
            ("score", scores),
            ("start", starts),
            ("end", ends),
            ("probabilities", probabilities.softmax(np.array(scores)).tolist()),
        ):
            plural = f"{name}s" if name in ("answer", "score") else name
            filling = [type(values[0])()] * (size - len(values))
            answer[f"n_best_{plural}"] = values + filling
            if name != "probabilities":
                answer[name] = values[0]
        return {**answer, **self._null(found)} if self._may_be_none else answer

    def _null(self, found: _Outputs) -> dict[str, Any]:
        """Return what is said about "no answer"."""
        score = min([_NO_WINDOW, *(float(o["cls_logits"]) for o in found)])
        limit = self._options["null_score_diff_threshold"]
        answered = score <= limit
        if self._options["original_threshold"]:
            answered = score < limit
        return {
            "no_answer_score": score,
            "no_answer_probability": probabilities.sigmoid(np.array(score)),
            **({} if answered else {"answer": "", "start": 0, "end": 0}),
        }

    def _best(
        self, rest: _Context, found: _Outputs
    ) -> dict[str, tuple[int, float]]:
        """Return different answers, the best first: first character, score."""
        size = self._options["n_best_size"]
        parts = [(np.zeros(0, np.int64),) * 3]
        counts = overlaps.max_context(rest.windows)
        for (begin, n), kept, outputs in zip(
            rest.windows, counts, found, strict=True
        ):
            _, first, last, one, two = squad_spans.find(
                {name: value[None] for name, value in outputs.items()},
                np.array([rest.first]),
                np.array([n]),
                n_best_size=size,
                max_answer_length=self._options["max_answer_length"],
            )
            values = first + begin, last + begin, one + two
            parts.append(tuple(each[kept[first]] for each in values))
        first, last, score = map(np.concatenate, zip(*parts, strict=True))
        best: dict[str, tuple[int, float]] = {}
        for i in np.argsort(-score, kind="stable"):
            if len(best) == size:
                break
            # As in the original, nothing ends before the first character.
            start, end = rest.starts[first[i]], max(rest.ends[last[i]], 1)
            part = rest.text[start:end]
            if text := part.strip():
                lost = len(part) - len(part.lstrip())
                best.setdefault(text, (int(start) + lost, float(score[i])))
        return best
