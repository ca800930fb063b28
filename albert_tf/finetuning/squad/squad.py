"""SQuAD 1.1 and 2.0: the span of a paragraph that answers a question.

Source: ALBERT appendix A.4; in the original, squad_utils and run_squad_v1/_v2.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from albert_tf.common import ranges, rows
from albert_tf.common.options import checked, option, shown
from albert_tf.data import layouts, lengths
from albert_tf.finetuning import base
from albert_tf.finetuning.squad import (
    squad_answers,
    squad_data,
    squad_features,
    squad_metrics,
    squad_results,
)
from albert_tf.text import tokenization

NAME = "squad"
VERSIONS = ("1.1", "2.0")
_THRESHOLD = "null_score_diff_threshold"
# Where nothing is known about the scores: "no answer" is as likely as not.
_EVEN = 0.0


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
        choices=tuple(squad_metrics.UNITS),
        may_change=True,
    )
    original_threshold: bool = option(
        False,
        "Whether the threshold is searched, applied and scored as in the "
        "original, which takes logits for probabilities; for comparisons.",
        may_change=True,
    )
    windows: squad_features.WindowOptions = squad_features.WindowOptions()
    answers: squad_answers.AnswerOptions = squad_answers.AnswerOptions()


class SquadTask(base.Task):
    """SQuAD 1.1 or 2.0. An example is a question, its records are windows."""

    name = NAME
    command = "run_squad"
    options_class = SquadOptions
    key_metric = "f1"
    package = "albert_tf.tasks.others"
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
        names = f"start_{kind}", f"end_{kind}"
        self.output_widths = dict.fromkeys(names, max_seq_length)
        # Enough for the best starts and ends, so that all batches have outputs
        # of the same shapes.
        tops = options.start_n_top, options.end_n_top
        self.shortest = max(lengths.SHORTEST, *tops)
        self._known_threshold = options.null_score_diff_threshold

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
        return {
            **super().settings,
            **dataclasses.asdict(self.options.windows),
        }

    def remember(self, scores: Mapping[str, float]) -> None:
        if self.options.null_score_diff_threshold is None:
            known = self._known_threshold
            self._known_threshold = scores.get(_THRESHOLD, known)

    def read(self, path: str, split: str) -> list[squad_data.Question]:
        """Read all questions of a file; say what was repaired or left out.

        Questions for training have an answer, or none by `is_impossible`. The
        first answer that stands in its paragraph is learnt; without one the
        question is left out. DIFFERS: the original stops at several answers.
        """
        questions = squad_data.read_split(path, split, has_null=self.has_null)
        if split == base.DEV and self.options.answer_units is None:
            units = squad_metrics.units_of(questions)
            logging.info("%s: scored by %s (`answer_units`)", path, units)
        return questions

    def read_own(self, path: str) -> list[squad_data.Question | rows.BadLine]:
        return squad_data.read_own(path)

    def layout(self, split: str) -> layouts.Layout:
        return layouts.squad_layout(
            self.max_seq_length, is_training=split == base.TRAIN
        )

    def renumber(self, framed: Sequence[bytes], first: int) -> Sequence[bytes]:
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
            positions = squad_features.find_answers(windows, examples)
        yield from squad_features.make_features(
            windows, self.tokenizer, self.max_seq_length, positions
        )

    def _windows(
        self, examples: Sequence[squad_data.Question]
    ) -> squad_features.Windows:
        return squad_features.make_windows(
            examples, self.tokenizer, self.options.windows, self.max_seq_length
        )

    def score(
        self, outputs: base.Outputs, examples: Sequence[squad_data.Question]
    ) -> dict[str, float]:
        """Return the official metrics in percent.

        For 1.1 `exact_match` and `f1`; for 2.0 those of
        `squad_metrics.score_version_2` and `null_score_diff_threshold`.
        """
        results = self._results(outputs, examples)
        return results.score(self._threshold(results))

    def score_texts(
        self, texts: Sequence[str], examples: Sequence[squad_data.Question]
    ) -> dict[str, float]:
        """Return the official metrics of answers, "" where there is none."""
        found = dict(zip((e.id for e in examples), texts, strict=True))
        units = self.options.answer_units or squad_metrics.units_of(examples)
        if self.has_null:
            return squad_metrics.score_version_2(examples, found, units=units)
        return squad_metrics.score_version_1(examples, found, units)

    @property
    def alike(self) -> dict[str, Any]:
        return {"squad_version": self.options.squad_version}

    # Exports.

    def score_outputs(
        self, outputs: base.Outputs, examples: Sequence[squad_data.Question]
    ) -> dict[str, float]:
        """Score with the exported threshold, not the best one for these."""
        unknown = [dataclasses.replace(e, answers=None) for e in examples]
        answers = self.answers(outputs, unknown)
        return self.score_texts([a["prediction"] for a in answers], examples)

    def texts(self, examples: Sequence[squad_data.Question]) -> dict[str, Any]:
        return {
            "question": [example.text for example in examples],
            "context": [example.context for example in examples],
        }

    def score_answers(
        self, answers: base.Answers, examples: Sequence[squad_data.Question]
    ) -> dict[str, float]:
        texts = [text.decode() for text in base.joined(answers, "answer")]
        return self.score_texts(texts, examples)

    def answers(
        self, outputs: base.Outputs, examples: Sequence[squad_data.Question]
    ) -> Iterator[dict[str, Any]]:
        """Yield the text, the n-best list and, for 2.0, the null score.

        The prediction is "" for a question without an answer.
        """
        results = self._results(outputs, examples)
        yield from results.answers(self._threshold(results))

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
        results = self._results(outputs, examples)
        results.write(self._threshold(results), output_dir)

    def combine(self, runs: Sequence[base.Outputs]) -> base.Outputs:
        """Average the scores of spans and of "no answer".

        For 2.0 the starts and ends of all models are concatenated. A span that
        several models propose gets the mean of its scores; so does "no
        answer". DIFFERS: for 1.1 the original averages only over the models
        that have a span among their best; here over all of them.
        """
        if not self.has_null:
            names = "start_logits", "end_logits"
            return {name: np.mean([r[name] for r in runs], 0) for name in names}
        # One number for each window becomes a column.
        return {
            name: np.concatenate(
                [np.atleast_2d(run[name].T).T for run in runs], axis=1
            )
            for name in runs[0]
        }

    def _results(
        self, outputs: base.Outputs, examples: Sequence[squad_data.Question]
    ) -> squad_results.Results:
        windows = self._windows(examples)
        lists = squad_answers.n_best(
            examples, windows, outputs, self.options.answers, white_space=False
        )
        null_scores = None
        if self.has_null:
            null_scores = squad_answers.null_scores(
                examples, windows, outputs["cls_logits"]
            )
        n_best = dict(zip((q.id for q in examples), lists, strict=True))
        return squad_results.Results(
            examples,
            n_best,
            null_scores,
            self.options.answer_units,
            self.options.original_threshold,
        )

    def _threshold(self, results: squad_results.Results) -> float:
        """Return the threshold for "no answer"; 1.1 needs none.

        It is the option's; else the best one, where the answers are known; else
        the last that was remembered.
        """
        if not self.has_null:
            return _EVEN
        given = self.options.null_score_diff_threshold
        if given is None and results.are_labelled:
            return results.best_threshold()
        return self.threshold
