"""SQuAD 1.1 and 2.0: the span of a paragraph that answers a question.

Source: ALBERT appendix A.4; in the original, squad_utils and run_squad_v1/_v2.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from albert_tf.common import errors, ranges, rows
from albert_tf.common.options import checked, names, option, optional, shown
from albert_tf.data import layouts, lengths
from albert_tf.finetuning import base
from albert_tf.tasks.squad import data, features, metrics, portable, results
from albert_tf.text import tokenization

NAME = "squad"
VERSIONS = ("1.1", "2.0")
_THRESHOLD = "null_score_diff_threshold"
_VERSION_2_OPTIONS = ("start_n_top", "end_n_top", _THRESHOLD)
# Where nothing is known about the scores: "no answer" is as likely as not.
_EVEN = 0.0
_LONGEST_OF_EXPORT = 384  # Source: ALBERT appendix A.4.


@dataclasses.dataclass(frozen=True)
@checked
@shown(Data="n_best_size max_answer_length")
class AnswerOptions:
    """How answers are chosen."""

    n_best_size: int = option(
        20,
        "Answers per question in nbest_predictions.json.",
        within=ranges.N_BEST,
        may_change=True,
    )
    max_answer_length: int = option(
        30,
        "Pieces of the longest answer.",
        within=ranges.TOKENS,
        may_change=True,
    )


@dataclasses.dataclass(frozen=True)
@checked
@shown(Model="squad_version", Data="null_score_diff_threshold")
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
    answer_units: str | None = option(
        None,
        "What exact match and F1 compare: words between spaces, as SQuAD's "
        "scripts do, or characters, as those of Chinese and Japanese sets do. "
        "Default: characters where most letters of the paragraphs are of "
        "scripts without spaces.",
        choices=tuple(metrics.UNITS),
        may_change=True,
    )
    original_threshold: bool = option(
        False,
        "Whether the threshold is searched, applied and scored as in the "
        "original, which takes logits for probabilities; for comparisons.",
        may_change=True,
    )
    windows: features.PassageWindows = features.PassageWindows()
    answers: AnswerOptions = AnswerOptions()


class SquadTask(base.Task):
    """SQuAD 1.1 or 2.0. An example is a question, its records are windows."""

    package = __package__
    command = "run_squad"
    read_whole = "context"
    options_class = SquadOptions
    data_options = features.PassageWindows
    export_options = optional(
        SquadOptions,
        (
            "squad_version",
            *_VERSION_2_OPTIONS,
            *names(features.PassageWindows),
            *names(AnswerOptions),
        ),
        "SQuAD",
    )
    name = NAME
    key_metric = "f1"
    has_pairs = True
    outputs_are_positions = True

    def __init__(
        self,
        tokenizer: tokenization.AnyTokenizer,
        max_seq_length: int,
        options: SquadOptions,
        facts: base.Facts | None = None,
    ):
        super().__init__(tokenizer, max_seq_length, options, facts)
        options.windows.check_length(max_seq_length)
        self.has_null = options.squad_version == "2.0"
        self.pooler = "reads" if self.has_null else "keeps"
        # Those of 2.0 are there where the right starts are known.
        kind = "log_probs" if self.has_null else "logits"
        edges = f"start_{kind}", f"end_{kind}"
        self.output_widths = dict.fromkeys(edges, max_seq_length)
        # Enough for the best starts and ends, so that all batches have outputs
        # of the same shapes.
        tops = options.start_n_top, options.end_n_top
        self.shortest = max(lengths.SHORTEST, *tops)
        self._known_threshold = options.null_score_diff_threshold

    @classmethod
    def longest_of(cls, source: Any) -> int | None:
        del source  # The same for all.
        return _LONGEST_OF_EXPORT

    @classmethod
    def check_export(
        cls, given: Mapping[str, Any], run: Mapping[str, Any]
    ) -> None:
        trained = run.get("squad_version")
        version = given.get("squad_version", trained)
        if run and version != trained:
            raise errors.UserError(
                f"`squad_version={version}`, but `run_dir={given['run_dir']}` "
                f"was trained for {trained}. Leave `squad_version` out."
            )
        for name in _VERSION_2_OPTIONS:
            if name in given and version == "1.1":
                raise errors.UserError(
                    f"`{name}={given[name]}` is for SQuAD 2.0, but the model "
                    "is one of 1.1. Leave it out."
                )

    @property
    def threshold(self) -> float:
        """The threshold for "no answer" of questions whose answers are unknown.

        It is the option's; else the last that was remembered; else 0, with a
        warning.
        """
        if self._known_threshold is None:
            logging.warning(
                "Without `null_score_diff_threshold` and without answers to "
                "find it on, questions whose score for no answer is above %g "
                "have none.",
                _EVEN,
            )
            self._known_threshold = _EVEN
        return self._known_threshold

    @property
    def settings(self) -> dict[str, Any]:
        return {**super().settings, **dataclasses.asdict(self.options.windows)}

    def remember(self, scores: Mapping[str, float]) -> None:
        if self.options.null_score_diff_threshold is None:
            self._known_threshold = scores.get(
                _THRESHOLD, self._known_threshold
            )

    def read(self, path: str, split: str) -> list[data.Question]:
        """Read all questions of a file; say what was repaired or left out.

        Questions for training have an answer, or none by `is_impossible`. The
        first answer that stands in its paragraph is learnt; without one the
        question is left out. DIFFERS: the original stops at several answers.
        """
        questions = data.read_split(path, split, has_null=self.has_null)
        if split == base.DEV and self.options.answer_units is None:
            units = metrics.units_of(questions)
            logging.info("%s: scored by %s (`answer_units`)", path, units)
        return questions

    def read_own(self, path: str) -> list[data.Question | rows.BadLine]:
        return data.read_own(path)

    def layout(self, split: str) -> layouts.Layout:
        return features.squad_layout(
            self.max_seq_length, is_training=split == base.TRAIN
        )

    def renumber(self, framed: Sequence[bytes], first: int) -> Sequence[bytes]:
        return features.renumber(framed, first)

    def featurize(
        self, examples: Sequence[data.Question], split: str
    ) -> Iterator[dict[str, np.ndarray]]:
        """Yield the windows of all questions; their numbers begin anew.

        The windows of a part of a file get their numbers in the whole by
        `features.renumber`.
        """
        windows = self._windows(examples)
        self.remark(
            "questions are longer than `max_query_length="
            f"{self.options.windows.max_query_length}` and cut.",
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
            positions = features.find_answers(windows, examples)
        yield from features.make_features(
            windows, self.tokenizer, self.max_seq_length, positions
        )

    def _windows(self, examples: Sequence[data.Question]) -> features.Windows:
        return features.make_windows(
            examples, self.tokenizer, self.options.windows, self.max_seq_length
        )

    def score(
        self, outputs: base.Outputs, examples: Sequence[data.Question]
    ) -> dict[str, float]:
        """Return the official metrics in percent.

        For 1.1 `exact_match` and `f1`; for 2.0 those of
        `metrics.score_version_2` and `null_score_diff_threshold`.
        """
        ranked = self._results(outputs, examples)
        return ranked.score(self._threshold(ranked))

    def score_texts(
        self, texts: Sequence[str], examples: Sequence[data.Question]
    ) -> dict[str, float]:
        """Return the official metrics of answers, "" where there is none."""
        answers = dict(zip((e.id for e in examples), texts, strict=True))
        units = self.options.answer_units or metrics.units_of(examples)
        if self.has_null:
            return metrics.score_version_2(examples, answers, units=units)
        return metrics.score_version_1(examples, answers, units)

    @property
    def alike(self) -> dict[str, Any]:
        return {"squad_version": self.options.squad_version}

    # Exports.

    def score_outputs(
        self, outputs: base.Outputs, examples: Sequence[data.Question]
    ) -> dict[str, float]:
        """Score with the exported threshold, not the best one for these."""
        unknown = [dataclasses.replace(e, answers=None) for e in examples]
        answers = self.answers(outputs, unknown)
        return self.score_texts([a["prediction"] for a in answers], examples)

    def texts(self, examples: Sequence[data.Question]) -> dict[str, Any]:
        return {
            "question": [example.text for example in examples],
            "context": [example.context for example in examples],
        }

    def score_answers(
        self, answers: base.SignatureAnswers, examples: Sequence[data.Question]
    ) -> dict[str, float]:
        texts = [text.decode() for text in base.concatenate(answers, "answer")]
        return self.score_texts(texts, examples)

    def answers(
        self, outputs: base.Outputs, examples: Sequence[data.Question]
    ) -> Iterator[dict[str, Any]]:
        """Yield the text, the n-best list and, for 2.0, the null score.

        The prediction is "" for a question without an answer.
        """
        ranked = self._results(outputs, examples)
        yield from ranked.answers(self._threshold(ranked))

    def write_predictions(
        self,
        outputs: base.Outputs,
        examples: Sequence[data.Question],
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
        ranked = self._results(outputs, examples)
        ranked.write(self._threshold(ranked), output_dir)

    def combine(self, runs: Sequence[base.Outputs]) -> base.Outputs:
        """Average the scores of spans and of "no answer".

        For 2.0 the starts and ends of all models are concatenated. A span that
        several models propose gets the mean of its scores; so does "no
        answer". DIFFERS: for 1.1 the original averages only over the models
        that have a span among their best; here over all of them.
        """
        if not self.has_null:
            edges = "start_logits", "end_logits"
            return {name: np.mean([r[name] for r in runs], 0) for name in edges}
        # One number for each window becomes a column.
        return {
            name: np.concatenate(
                [np.atleast_2d(run[name].T).T for run in runs], axis=1
            )
            for name in runs[0]
        }

    def _results(
        self, outputs: base.Outputs, examples: Sequence[data.Question]
    ) -> results.Results:
        windows, answers = self._windows(examples), self.options.answers
        lists = portable.n_best(
            [question.context for question in examples],
            windows,
            portable.blocks(outputs),
            portable.Search(
                answers.n_best_size, answers.max_answer_length, self.has_null
            ),
        )
        ids = [question.id for question in examples]
        null_scores = None
        if self.has_null:
            scores = portable.null_scores(windows, outputs["cls_logits"])
            null_scores = dict(zip(ids, scores, strict=True))
        n_best = dict(zip(ids, lists, strict=True))
        return results.Results(
            examples,
            n_best,
            null_scores,
            self.options.answer_units,
            self.options.original_threshold,
        )

    def _threshold(self, ranked: results.Results) -> float:
        """Return the threshold for "no answer"; 1.1 needs none.

        It is the option's; else the best one, where the answers are known; else
        the last that was remembered.
        """
        if not self.has_null:
            return _EVEN
        is_open = self.options.null_score_diff_threshold is None
        if is_open and ranked.are_labelled:
            return ranked.best_threshold()
        return self.threshold


TASK = SquadTask
