"""RACE: reading comprehension with four options for each question.

Source: ALBERT appendix A.4; in the original, race_utils.
"""

import dataclasses
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from albert_tf.common import errors, files, ranges, rows
from albert_tf.common.options import checked, option, optional, shown
from albert_tf.data import layouts
from albert_tf.finetuning import base, packing, probabilities
from albert_tf.tasks.race import data, portable
from albert_tf.text import tokenization

NAME = "race"
# Questions that are featurized together; each has several sequences.
_BATCH = 32


@dataclasses.dataclass(frozen=True)
@checked
@shown(Data="max_qa_length num_options")
class RaceOptions:
    """How questions are read and turned into sequences."""

    max_qa_length: int = option(
        128,
        "Tokens of question and option together; of longer ones the last are "
        "kept.",
        within=ranges.TOKENS,
    )
    num_options: int = option(
        4,
        "Options of a question.",
        within=ranges.Range(2, len(portable.LETTERS)),
    )
    pad_options: bool = option(
        False,
        "Whether questions with fewer than --num_options options are filled up "
        "with empty ones that are never chosen. Otherwise they are refused.",
    )
    middle_only: bool = option(False, "Whether to leave out high.")
    high_only: bool = option(False, "Whether to leave out middle.")
    dropout_prob: float = option(
        0.1, "Dropout before the last layer.", within=ranges.DROPOUT
    )

    def __post_init__(self) -> None:
        if self.middle_only and self.high_only:
            raise errors.UserError(
                "`middle_only` and `high_only` leave nothing. Drop one."
            )

    @property
    def levels(self) -> tuple[str, ...]:
        if self.middle_only:
            return data.LEVELS[:1]
        return data.LEVELS[1:] if self.high_only else data.LEVELS


class RaceTask(base.Task):
    """RACE."""

    package = __package__
    command = "run_race"
    export_options = optional(
        RaceOptions, ("num_options", "max_qa_length"), "RACE"
    )
    name = NAME
    options_class = RaceOptions
    key_metric = "accuracy"
    problem = "choice"
    has_pairs = True
    data_option = "data_dir"
    reads_folders = True

    def __init__(
        self,
        tokenizer: tokenization.AnyTokenizer,
        max_seq_length: int,
        options: RaceOptions,
        facts: base.Facts | None = None,
    ):
        super().__init__(tokenizer, max_seq_length, options, facts)
        self.sequences_at_once = options.num_options
        if not 0 < options.max_qa_length <= max_seq_length - 4:
            raise errors.UserError(
                f"`max_qa_length={options.max_qa_length}` leaves no tokens for "
                f"the article in `max_seq_length={max_seq_length}`. Use 1 to "
                f"{max_seq_length - 4}."
            )

    @property
    def settings(self) -> dict[str, Any]:
        names = "max_qa_length", "num_options", "middle_only", "high_only"
        return {
            **super().settings,
            **{name: getattr(self.options, name) for name in names},
        }

    def sources(self, data_dir: str) -> dict[str, str]:
        """Return the folder of each split.

        They are in `data_dir`, or in `data_dir/RACE` as in the original.
        """
        files.refuse_file(data_dir, "data_dir")
        inner = os.path.join(data_dir, "RACE")
        folder = inner if files.exists(inner) else data_dir
        splits = base.TRAIN, base.DEV, base.TEST
        return {split: os.path.join(folder, split) for split in splits}

    def read(self, path: str, split: str) -> list[data.RaceQuestion]:
        return self._reader().read(path)

    def read_own(self, path: str) -> list[data.RaceQuestion | rows.BadLine]:
        return self._reader().read_own(path)

    def _reader(self) -> data.Reader:
        one = self.options
        return data.Reader(
            one.levels, one.num_options, one.pad_options, self.remark
        )

    def layout(self, split: str) -> layouts.Layout:
        return layouts.choice_layout(
            self.max_seq_length, self.options.num_options
        )

    def featurize(
        self, examples: Sequence[data.RaceQuestion], split: str
    ) -> Iterator[dict[str, np.ndarray]]:
        """Yield one record for each question.

        Options that fill up, and empty ones, are all padding.
        """
        limit = self.options.max_qa_length
        cut_choices: list[str] = []
        cut_articles: list[str] = []
        for start in range(0, len(examples), _BATCH):
            part = examples[start : start + _BATCH]
            places: list[tuple[int, int]] = []
            pairs: list[packing.Pair] = []
            encoded = zip(part, self._encode(part), strict=True)
            for row, (example, one) in enumerate(encoded):
                if one.choice_is_cut:
                    cut_choices.append(example.guid)
                if one.article_is_cut:
                    cut_articles.append(example.guid)
                places += [(row, column) for column in example.real]
                pairs += one.pairs
            shape = len(part), *self.layout(split)[0].shape
            values = {name: np.zeros(shape, np.int64) for name in packing.NAMES}
            packed = packing.pack(pairs, self.tokenizer, self.max_seq_length)
            for name, sequences in packed.items():
                values[name][*np.transpose(places)] = sequences
            yield {
                **values,
                "label_ids": np.array([e.label or 0 for e in part], np.int64),
                "is_real_example": np.ones(len(part), np.int64),
            }
        self.remark(
            f"questions have a choice longer than `max_qa_length={limit}`, "
            "which is cut at its beginning.",
            cut_choices,
        )
        self.remark(
            "questions have an article that does not fit beside the choice "
            f"into `max_seq_length={self.max_seq_length}`; it is cut at its "
            "end.",
            cut_articles,
        )

    def choices(self, example: data.RaceQuestion) -> list[str]:
        """Return the question with each option that is not empty.

        As in the original, texts for WordPiece are not cleaned before.
        """
        clean: Callable[[str], str] = str
        if isinstance(self.tokenizer, tokenization.Tokenizer):
            clean = self.tokenizer.clean
        options = [example.options[number] for number in example.real]
        return portable.fill(example.question, options, clean)

    def _encode(
        self, examples: Sequence[data.RaceQuestion]
    ) -> Iterator[portable.Sequences]:
        articles = list(dict.fromkeys(e.article for e in examples))
        ids = dict(
            zip(articles, self.tokenizer.encode_batch(articles), strict=True)
        )
        for example in examples:
            yield portable.cut(
                ids[example.article],
                self.tokenizer.encode_batch(self.choices(example)),
                self.max_seq_length,
                self.options.max_qa_length,
            )

    def score(
        self, outputs: base.Outputs, examples: Sequence[data.RaceQuestion]
    ) -> dict[str, float]:
        """Return `accuracy`, `accuracy_middle`, `accuracy_high` and `loss`.

        A level that has no questions has no accuracy.
        """
        labels = np.array([example.label for example in examples])
        levels = np.array([example.level for example in examples])
        correct = outputs["logits"].argmax(-1) == labels
        scores = {"accuracy": float(correct.mean())}
        for level in data.LEVELS:
            if (levels == level).any():
                scores[f"accuracy_{level}"] = float(
                    correct[levels == level].mean()
                )
        loss = probabilities.cross_entropy(outputs["logits"], labels)
        return {**scores, "loss": loss}

    def answers(
        self, outputs: base.Outputs, examples: Sequence[data.RaceQuestion]
    ) -> Iterator[dict[str, Any]]:
        shares = probabilities.softmax(outputs["logits"])
        for example, row in zip(examples, shares, strict=True):
            columns = zip(
                portable.LETTERS, example.options, row.tolist(), strict=False
            )
            yield {
                **rows.key_of(example.guid),
                "prediction": portable.LETTERS[row.argmax()],
                "probabilities": {k: p for k, text, p in columns if text},
            }

    @property
    def alike(self) -> dict[str, Any]:
        return {"num_options": self.options.num_options}

    # Exports.

    def texts(self, examples: Sequence[data.RaceQuestion]) -> dict[str, Any]:
        count = self.options.num_options
        return {
            "article": [example.article for example in examples],
            "question": [example.question for example in examples],
            "options": [
                [*example.options, *[""] * (count - len(example.options))]
                for example in examples
            ],
        }

    def score_answers(
        self,
        answers: base.SignatureAnswers,
        examples: Sequence[data.RaceQuestion],
    ) -> dict[str, float]:
        rows = base.concatenate(answers, "probabilities")
        return self.score({"logits": probabilities.safe_log(rows)}, examples)

    def write_predictions(
        self,
        outputs: base.Outputs,
        examples: Sequence[data.RaceQuestion],
        split: str,
        output_dir: str,
    ) -> None:
        """Write `SPLIT_predictions.jsonl` and `predict_results.txt`.

        The first has one object for each question, the second the scores, as
        in the original; RACE's test questions have their answers.
        """
        super().write_predictions(outputs, examples, split, output_dir)
        scores = self.score(outputs, examples)
        text = "".join(f"{name} = {scores[name]}\n" for name in sorted(scores))
        files.write_text(os.path.join(output_dir, "predict_results.txt"), text)


TASK = RaceTask
