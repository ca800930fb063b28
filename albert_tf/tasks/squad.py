"""SQuAD 1.1 and 2.0: the span of a paragraph that answers a question.

Source: ALBERT appendix A.4; in the original, squad_utils and run_squad_v1/_v2.
"""

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from absl import logging

from albert_tf import errors, files, ranges, records, strict_json, tokenization
from albert_tf.options import checked, option
from albert_tf.tasks import (
    base,
    squad_answers,
    squad_data,
    squad_features,
    squad_metrics,
    text_files,
)

if TYPE_CHECKING:
    import tf_keras as keras

    from albert_tf import modeling, objectives

NAME = "squad"
VERSIONS = ("1.1", "2.0")
_THRESHOLD = "null_score_diff_threshold"
# Where nothing is known about the scores: "no answer" is as likely as not.
_EVEN = 0.0


@dataclasses.dataclass(frozen=True)
@checked
class SquadOptions:
    """Which version of SQuAD, and how answers are found."""

    squad_version: str = option(
        "2.0",
        "1.1: every question has an answer, a linear head. 2.0: questions may "
        "have none, a head with beam search.",
        choices=VERSIONS,
    )
    start_n_top: int = option(
        5,
        "Starts that are followed; 2.0 only.",
        within=ranges.TOKENS,
        may_change=True,
    )
    end_n_top: int = option(
        5,
        "Ends for each start; 2.0 only.",
        within=ranges.TOKENS,
        may_change=True,
    )
    dropout_prob: float = option(
        0.1,
        "Dropout in the part that finds questions without answer.",
        within=ranges.DROPOUT,
    )
    null_score_diff_threshold: float | None = option(
        None,
        "Questions with a higher score have no answer; 2.0 only. Default: the "
        "one with the best F1 on the questions, where their answers are known; "
        "else that of --do_eval.",
        within=ranges.THRESHOLD,
        may_change=True,
    )
    original_threshold: bool = option(
        False,
        "Whether the threshold is searched, applied and scored as in the "
        "original, which takes logits for probabilities; for comparisons.",
        may_change=True,
    )
    windows: squad_features.WindowOptions = dataclasses.field(
        default_factory=squad_features.WindowOptions
    )
    answers: squad_answers.AnswerOptions = dataclasses.field(
        default_factory=squad_answers.AnswerOptions
    )

    @property
    def rule(self) -> squad_answers.ThresholdRule:
        """How the threshold is found and applied."""
        if self.original_threshold:
            return squad_answers.ORIGINAL_RULE
        return squad_answers.RULE


@dataclasses.dataclass(frozen=True)
class _Found:
    """What the outputs of a model say about some questions.

    Attributes:
        n_best: For each question its best answers.
        null_scores: Id to the score for "no answer"; None for SQuAD 1.1.
    """

    n_best: dict[str, list[squad_answers.Candidate]]
    null_scores: dict[str, float] | None

    @property
    def texts(self) -> dict[str, str]:
        """Id to the best text, whatever the score for "no answer"."""
        return {id_: entries[0].text for id_, entries in self.n_best.items()}


class SquadTask(base.Task):
    """SQuAD 1.1 or 2.0. An example is a question, its records are windows."""

    name = NAME
    key_metric = "f1"
    outputs_are_places = True

    def __init__(
        self,
        tokenizer: tokenization.AnyTokenizer,
        max_seq_length: int,
        options: SquadOptions,
    ):
        """Keep what turns questions into windows, and windows into answers.

        Raises:
            errors.UserError: Sequences are too short for questions.
        """
        super().__init__(tokenizer, max_seq_length)
        options.windows.check_length(max_seq_length)
        self._options = options
        self._known_threshold = options.null_score_diff_threshold
        self._has_warned = False

    @property
    def options(self) -> SquadOptions:
        """The version, and how answers are found."""
        return self._options

    @property
    def threshold(self) -> float:
        """The threshold for "no answer" of questions whose answers are unknown.

        It is the option's; else the last that was found; else 0, with a
        warning.
        """
        if self._known_threshold is not None:
            return self._known_threshold
        if not self._has_warned:
            logging.warning(
                "Without --null_score_diff_threshold and without answers to "
                "find it on, questions whose score for no answer is above %g "
                "have none.",
                _EVEN,
            )
        self._has_warned = True
        return _EVEN

    @property
    def settings(self) -> dict[str, Any]:
        """See `base.Task.settings`."""
        return {
            **super().settings,
            **dataclasses.asdict(self._options.windows),
        }

    def remember(self, scores: Mapping[str, float]) -> None:
        """Take the threshold for new questions from an earlier `score`."""
        if self._known_threshold is None:
            self._known_threshold = scores.get(_THRESHOLD)

    @property
    def has_null(self) -> bool:
        """Whether questions may have no answer."""
        return self._options.squad_version == "2.0"

    # Text to records.

    def read(self, path: str, split: str) -> list[squad_data.Question]:
        """Read all questions of a file; say what was repaired or left out.

        Questions for training have an answer, or none by `is_impossible`. The
        first of several answers is learnt; one that does not stand in its
        paragraph cannot be, so its question is left out. DIFFERS: the original
        stops at several answers.

        Raises:
            errors.UserError: The file is missing or not in SQuAD's layout, an
                answer is missing where one is needed, or the file is of the
                other version.
        """
        if split == base.PREDICT:
            return list(text_files.strictly(squad_data.read_own(path)))
        questions, report = squad_data.read(path, _OPTION[split])
        for line in report.lines(path):
            logging.info("%s", line)
        if not self.has_null:
            self._check_version(questions, path)
        if split in (base.TRAIN, base.DEV):
            self._check_labels(questions, path, split)
        if split == base.TRAIN:
            questions = _trainable(questions, path)
        return questions

    def read_own(
        self, path: str
    ) -> list[squad_data.Question | text_files.BadLine]:
        """See `squad_data.read_own`."""
        return squad_data.read_own(path)

    def _check_version(
        self, questions: Sequence[squad_data.Question], path: str
    ) -> None:
        found = [q.id for q in questions if q.is_impossible]
        if found:
            raise errors.UserError(
                f"--squad_version=1.1, but {len(found):,} questions of {path} "
                f"have no answer (is_impossible; the first id is {found[0]}). "
                "Use --squad_version=2.0, or give a file of SQuAD 1.1."
            )

    def _check_labels(
        self, questions: Sequence[squad_data.Question], path: str, split: str
    ) -> None:
        missing = [q.id for q in questions if q.answers is None]
        if missing:
            raise errors.UserError(
                f"{path}: {len(missing):,} questions have no 'answers' (the "
                f"first id is {missing[0]}). {_NEEDS[split]} Give a file with "
                "answers."
            )
        empty = [q.id for q in questions if not (q.answers or q.is_impossible)]
        if empty:
            raise errors.UserError(
                f"{path}: {len(empty):,} questions have an empty list of "
                f"answers (the first id is {empty[0]}), but not "
                f"'is_impossible'. {_NEEDS[split]} Give answers, or mark them "
                "and use --squad_version=2.0."
            )

    def layout(self, split: str) -> records.Layout:
        """Return the layout of a window."""
        return records.squad_layout(
            self.max_seq_length, is_training=split == base.TRAIN
        )

    def renumber(self, framed: Sequence[bytes], first: int) -> Sequence[bytes]:
        """Give windows their numbers in the whole file."""
        return squad_features.renumber(framed, first)

    def featurize(
        self, examples: Sequence[squad_data.Question], split: str
    ) -> Iterator[dict[str, np.ndarray]]:
        """Yield the windows of all questions; their numbers begin anew.

        The windows of a part of a file get their numbers in the whole by
        `squad_features.renumber`.
        """
        windows = self._windows(examples)
        self.remark(
            "questions are longer than --max_query_length="
            f"{self._options.windows.max_query_length} and cut.",
            [examples[row].id for row in windows.cut],
        )
        empty = [
            q.id
            for q, s in zip(examples, windows.spans, strict=True)
            if s.start == s.stop
        ]
        self.remark(
            "questions have no window, since nothing of their paragraph is in "
            "the vocabulary's alphabet.",
            empty,
        )
        positions = None
        if split == base.TRAIN:
            positions = squad_features.find_answers(windows, examples)
        yield from squad_features.make_features(
            windows, self.tokenizer, self.max_seq_length, positions
        )

    def _windows(
        self, examples: Sequence[squad_data.Question]
    ) -> squad_features.Windows:
        return squad_features.make_windows(
            examples, self.tokenizer, self._options.windows, self.max_seq_length
        )

    # The model.

    @property
    def starts_at_once(self) -> int:
        """Starts that are followed in predicting; only by 2.0."""
        return self._options.start_n_top if self.has_null else 0

    @property
    def objective(self) -> "objectives.Objective":
        """Cross-entropy of start and end, for 2.0 of answerability too."""
        from albert_tf.heads import question_answering

        if self.has_null:
            return question_answering.V2_OBJECTIVE
        return question_answering.V1_OBJECTIVE

    def make_model(self, encoder: "modeling.AlbertModel") -> "keras.Model":
        """Put the head of the version on an encoder.

        The pooler has no part in it and keeps its weights, as in the original.
        """
        from albert_tf.heads import question_answering

        if not self.has_null:
            return question_answering.AlbertSquadV1(encoder)
        return question_answering.AlbertSquadV2(
            encoder,
            self._options.start_n_top,
            self._options.end_n_top,
            self._options.dropout_prob,
        )

    # Outputs to results.

    def score(
        self, outputs: base.Outputs, examples: Sequence[squad_data.Question]
    ) -> dict[str, float]:
        """Return the official metrics in percent.

        For 1.1 `exact_match` and `f1`; for 2.0 those of
        `squad_answers.score_with_threshold`. The threshold is remembered for
        questions whose answers are not known.
        """
        return self._score(self._find(outputs, examples), examples)

    def _score(
        self, found: _Found, examples: Sequence[squad_data.Question]
    ) -> dict[str, float]:
        if found.null_scores is None:
            return squad_metrics.score_version_1(examples, found.texts)
        threshold = self._threshold(found, examples)
        self._known_threshold = threshold
        return squad_answers.score_with_threshold(
            examples,
            found.texts,
            found.null_scores,
            threshold,
            self._options.rule,
        )

    def answers(
        self, outputs: base.Outputs, examples: Sequence[squad_data.Question]
    ) -> Iterator[dict[str, Any]]:
        """Yield the text, the n-best list and, for 2.0, the null score.

        The prediction is "" for a question without an answer.
        """
        found = self._find(outputs, examples)
        texts = self._final_texts(found, examples)
        for question in examples:
            id_ = question.id
            entries = [dataclasses.asdict(e) for e in found.n_best[id_]]
            answer: dict[str, Any] = {
                "id": question.given_id,
                "prediction": texts[id_],
                "n_best": entries,
            }
            if found.null_scores is not None:
                answer["null_score"] = found.null_scores[id_]
            yield answer

    def write_predictions(
        self,
        outputs: base.Outputs,
        examples: Sequence[squad_data.Question],
        split: str,
        output_dir: str,
    ) -> None:
        """Write `predictions.json`, `nbest_predictions.json`, `null_odds.json`.

        The first is what the official scripts take: id to text, "" for no
        answer. The second has the n-best list of each question, the third, for
        2.0, the score for "no answer". Where the answers are known,
        `predict_results.txt` has the scores.
        """
        del split  # The names are the original's.
        found = self._find(outputs, examples)
        contents: dict[str, Any] = {
            "predictions": self._final_texts(found, examples),
            "nbest_predictions": {
                id_: [dataclasses.asdict(entry) for entry in entries]
                for id_, entries in found.n_best.items()
            },
        }
        if found.null_scores is not None:
            contents["null_odds"] = found.null_scores
        for name, content in contents.items():
            text = strict_json.dumps(content, indent=4) + "\n"
            files.write_text(os.path.join(output_dir, f"{name}.json"), text)
        if _is_labelled(examples):
            scores = self._score(found, examples)
            lines = [f"{name} = {scores[name]}\n" for name in sorted(scores)]
            path = os.path.join(output_dir, "predict_results.txt")
            files.write_text(path, "".join(lines))

    def combine(self, runs: Sequence[base.Outputs]) -> base.Outputs:
        """Average the scores of spans and of "no answer".

        For 2.0 each model has starts and ends of its own: they stand beside
        one another, and a span that several models propose gets the mean of
        its scores; so do those of "no answer". DIFFERS: for 1.1 the original
        averages only over the models that have a span among their best; here
        over all of them.
        """
        if not self.has_null:
            return _mean(runs, ("start_logits", "end_logits"))
        return {
            name: np.concatenate([_columns(run[name]) for run in runs], axis=1)
            for name in runs[0]
        }

    def _find(
        self, outputs: base.Outputs, examples: Sequence[squad_data.Question]
    ) -> _Found:
        windows = self._windows(examples)
        lists = squad_answers.n_best(
            examples, windows, outputs, self._options.answers
        )
        n_best = dict(zip((q.id for q in examples), lists, strict=True))
        null_scores = None
        if self.has_null:
            null_scores = squad_answers.null_scores(
                examples, windows, outputs["cls_logits"]
            )
        return _Found(n_best, null_scores)

    def _final_texts(
        self, found: _Found, examples: Sequence[squad_data.Question]
    ) -> dict[str, str]:
        """Return id to text, "" where there is no answer."""
        if found.null_scores is None:
            return found.texts
        threshold = self._threshold(found, examples)
        return squad_answers.apply_threshold(
            found.texts, found.null_scores, threshold, self._options.rule
        )

    def _threshold(
        self, found: _Found, examples: Sequence[squad_data.Question]
    ) -> float:
        """Return the threshold for "no answer".

        It is the option's; else the best one, where the answers are known; else
        the last that was found.
        """
        given = self._options.null_score_diff_threshold
        if given is not None:
            return given
        if _is_labelled(examples):
            return squad_answers.find_threshold(
                examples,
                found.texts,
                found.null_scores or {},
                self._options.rule,
            )
        return self.threshold


# The options that name the file of each split.
_OPTION = {
    base.TRAIN: "train_file",
    base.DEV: "predict_file",
    base.TEST: "predict_file",
}
_NEEDS = {
    base.TRAIN: "Training needs them.",
    base.DEV: "Evaluation needs them.",
}


def _trainable(
    questions: Sequence[squad_data.Question], path: str
) -> list[squad_data.Question]:
    """Leave out what cannot be learnt, and say so.

    Raises:
        errors.UserError: Nothing is left.
    """
    several = sum(len(q.answers or ()) > 1 for q in questions)
    if several:
        logging.info(
            "%s: %d questions have several answers; the first is learnt.",
            path,
            several,
        )
    kept = [q for q in questions if not q.answers or q.answers[0].start >= 0]
    if len(kept) < len(questions):
        logging.warning(
            "%s: left out %d questions whose answer does not stand in the "
            "paragraph.",
            path,
            len(questions) - len(kept),
        )
    if not kept:
        raise errors.UserError(
            f"{path}: no answer stands in its paragraph, so nothing is left "
            "to train on. Give a file in which they do."
        )
    return kept


def _is_labelled(examples: Sequence[squad_data.Question]) -> bool:
    """Tell whether all questions say what their answer is, or that none is."""
    return all(
        question.answers or (question.answers == () and question.is_impossible)
        for question in examples
    )


def _columns(values: np.ndarray) -> np.ndarray:
    """Return values [windows, n]; one number for each window is n = 1."""
    return values[:, None] if values.ndim == 1 else values


def _mean(
    runs: Sequence[Mapping[str, np.ndarray]], names: Sequence[str]
) -> dict[str, np.ndarray]:
    return {name: np.mean([run[name] for run in runs], 0) for name in names}
