"""What the outputs of a model say about questions: texts, scores, files."""

import dataclasses
import functools
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from albert_tf.common import files, rows, strict_json
from albert_tf.tasks.squad import data, metrics, portable


@dataclasses.dataclass(frozen=True)
class Results:
    """The candidates for the answers of some questions.

    Thresholds are for the scores for "no answer", `null_scores`, which SQuAD
    1.1 does not have. `n_best` is id to the best answers.

    DIFFERS: a question at the threshold is answered, as the search for the
    best one counts it. With `original_threshold` it is not, and the scores,
    which are logits, are taken for probabilities: the search begins at 0
    rather than just below the lowest score, and what is reported counts a
    question with a score above 1 as not answered.
    """

    questions: Sequence[data.Question]
    n_best: Mapping[str, Sequence[portable.Candidate]]
    null_scores: Mapping[str, float] | None
    answer_units: str | None = None
    original_threshold: bool = False

    @property
    def are_labelled(self) -> bool:
        """Whether all questions say what their answer is, or that none is."""
        return all(
            q.answers or (q.answers == () and q.is_impossible)
            for q in self.questions
        )

    @functools.cached_property
    def _units(self) -> str:
        return self.answer_units or metrics.units_of(self.questions)

    @property
    def _texts(self) -> dict[str, str]:
        """Id to the best text, whatever the score for "no answer"."""
        return {id_: entries[0].text for id_, entries in self.n_best.items()}

    @property
    def _lowest(self) -> float:
        """Where the search begins, as a number that JSON can hold."""
        if self.original_threshold:
            return metrics.OFFICIAL_FLOOR
        lowest = min((self.null_scores or {}).values(), default=0.0)
        return math.nextafter(lowest, -math.inf)

    def best_threshold(self) -> float:
        """Return the threshold with the best F1; the questions are labelled."""
        scores = metrics.score_version_2(
            self.questions,
            self._texts,
            self.null_scores,
            floor=self._lowest,
            units=self._units,
        )
        return scores["best_f1_thresh"]

    def texts(self, threshold: float) -> dict[str, str]:
        """Return id to text, "" where there is no answer."""
        if self.null_scores is None:
            return self._texts
        return {
            id_: text
            if portable.is_answered(
                self.null_scores[id_],
                threshold,
                original=self.original_threshold,
            )
            else ""
            for id_, text in self._texts.items()
        }

    def score(self, threshold: float) -> dict[str, float]:
        """Return the official metrics; see `SquadTask.score`."""
        if self.null_scores is None:
            return metrics.score_version_1(
                self.questions, self._texts, self._units
            )
        texts, limit = self._texts, threshold
        if self.original_threshold:
            texts = self.texts(threshold)
            limit = metrics.OFFICIAL_THRESHOLD
        results = metrics.score_version_2(
            self.questions,
            texts,
            self.null_scores,
            threshold=limit,
            floor=self._lowest,
            units=self._units,
        )
        return {**results, "null_score_diff_threshold": threshold}

    def answers(self, threshold: float) -> Iterator[dict[str, Any]]:
        texts = self.texts(threshold)
        for question in self.questions:
            id_ = question.id
            answer: dict[str, Any] = {
                **rows.key_of(question.guid),
                "prediction": texts[id_],
                "n_best": [one.to_dict() for one in self.n_best[id_]],
            }
            if self.null_scores is not None:
                answer["null_score"] = self.null_scores[id_]
            yield answer

    def write(self, threshold: float, output_dir: str) -> None:
        contents: dict[str, Any] = {
            "predictions": self.texts(threshold),
            "nbest_predictions": {
                id_: [one.to_dict() for one in entries]
                for id_, entries in self.n_best.items()
            },
        }
        if self.null_scores is not None:
            contents["null_odds"] = self.null_scores
        for name, content in contents.items():
            text = strict_json.dumps(content, indent=4) + "\n"
            files.write_text(os.path.join(output_dir, f"{name}.json"), text)
        path = os.path.join(output_dir, "predict_results.txt")
        if self.are_labelled:
            scores = self.score(threshold)
            lines = [f"{name} = {scores[name]}\n" for name in sorted(scores)]
            files.write_text(path, "".join(lines))
        elif files.exists(path):  # Of earlier predictions.
            files.remove(path)
