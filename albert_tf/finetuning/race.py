"""RACE: reading comprehension with four options for each question.

Source: ALBERT appendix A.4; in the original, race_utils.
"""

import dataclasses
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from albert_tf.common import errors, files, ranges, rows
from albert_tf.common.options import checked, option
from albert_tf.data import layouts
from albert_tf.finetuning import base, packing, probabilities, race_data
from albert_tf.text import tokenization

NAME = "race"
# Questions that are featurized together; each has several sequences.
_BATCH = 32


@dataclasses.dataclass(frozen=True)
@checked
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
        within=ranges.Range(2, len(race_data.LETTERS)),
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
            return race_data.LEVELS[:1]
        return race_data.LEVELS[1:] if self.high_only else race_data.LEVELS


class RaceTask(base.Task):
    """RACE."""

    name = NAME
    key_metric = "accuracy"
    package = "albert_tf.tasks.others"
    problem = "choice"
    has_pairs = True
    data_option = "data_dir"
    reads_folders = True

    def __init__(
        self,
        tokenizer: tokenization.AnyTokenizer,
        max_seq_length: int,
        options: RaceOptions,
    ):
        super().__init__(tokenizer, max_seq_length)
        self.options = options
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

    def read(self, path: str, split: str) -> list[race_data.RaceQuestion]:
        return self._reader().read(path)

    def read_own(
        self, path: str
    ) -> list[race_data.RaceQuestion | rows.BadLine]:
        return self._reader().read_own(path)

    def _reader(self) -> race_data.Reader:
        one = self.options
        return race_data.Reader(
            one.levels, one.num_options, one.pad_options, self.remark
        )

    def layout(self, split: str) -> layouts.Layout:
        return layouts.choice_layout(
            self.max_seq_length, self.options.num_options
        )

    def featurize(
        self, examples: Sequence[race_data.RaceQuestion], split: str
    ) -> Iterator[dict[str, np.ndarray]]:
        """Yield one record for each question.

        Each option: `[CLS] article [SEP] question and option [SEP]`. Of
        question and option the last `max_qa_length` pieces are kept, then the
        article is cut at its end. Options that fill up, and empty ones, are all
        padding.
        """
        limit, most = self.options.max_qa_length, self.max_seq_length - 3
        cut_choices: list[str] = []
        cut_articles: list[str] = []
        for start in range(0, len(examples), _BATCH):
            part = examples[start : start + _BATCH]
            places: list[tuple[int, int]] = []
            pairs: list[packing.Pair] = []
            for row, (article, choices) in enumerate(self._encode(part)):
                options = part[row].options
                real = [i for i, option in enumerate(options) if option]
                longest = max(len(choices[i]) for i in real)
                if longest > limit:
                    cut_choices.append(part[row].guid)
                if len(article) + min(longest, limit) > most:
                    cut_articles.append(part[row].guid)
                for column in real:
                    choice = choices[column][-limit:]
                    places.append((row, column))
                    pairs.append((article[: most - len(choice)], choice))
            shape = len(part), *self.layout(split)[0].shape
            values = {name: np.zeros(shape, np.int64) for name in packing.NAMES}
            found = packing.pack(pairs, self.tokenizer, self.max_seq_length)
            for name, sequences in found.items():
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

    def choices(self, example: race_data.RaceQuestion) -> list[str]:
        """Return the question with each option: in its gaps, or behind it.

        Both are cleaned before, if the vocabulary is one of SentencePiece: so
        a full-width low line is a gap too, and an option brings no spaces into
        it.

        Source: original release, race_utils.RaceProcessor.process_text, which
        does not clean for WordPiece. DIFFERS: there each low line of a row of
        them is replaced.

        Example:
            question = "He is ___ .", options = ("old", "tall")
            result = ["he is old .", "he is tall ."]
        """
        question, *options = texts = example.question, *example.options
        if isinstance(self.tokenizer, tokenization.Tokenizer):
            question, *options = map(self.tokenizer.clean, texts)
        parts = re.split(race_data.GAP, question)
        if len(parts) > 1:
            return [option.join(parts) for option in options]
        return [f"{question} {option}" for option in options]

    def _encode(
        self, examples: Sequence[race_data.RaceQuestion]
    ) -> Iterator[tuple[list[int], list[list[int]]]]:
        articles = list(dict.fromkeys(e.article for e in examples))
        ids = dict(
            zip(articles, self.tokenizer.encode_batch(articles), strict=True)
        )
        for example in examples:
            choices = self.tokenizer.encode_batch(self.choices(example))
            yield ids[example.article], choices

    def score(
        self, outputs: base.Outputs, examples: Sequence[race_data.RaceQuestion]
    ) -> dict[str, float]:
        """Return `accuracy`, `accuracy_middle`, `accuracy_high` and `loss`.

        A level that has no questions has no accuracy.
        """
        labels = np.array([example.label for example in examples])
        levels = np.array([example.level for example in examples])
        correct = outputs["logits"].argmax(-1) == labels
        scores = {"accuracy": float(correct.mean())}
        for level in race_data.LEVELS:
            if (levels == level).any():
                scores[f"accuracy_{level}"] = float(
                    correct[levels == level].mean()
                )
        loss = probabilities.cross_entropy(outputs["logits"], labels)
        return {**scores, "loss": loss}

    def answers(
        self, outputs: base.Outputs, examples: Sequence[race_data.RaceQuestion]
    ) -> Iterator[dict[str, Any]]:
        shares = probabilities.softmax(outputs["logits"])
        for example, row in zip(examples, shares, strict=True):
            columns = zip(
                race_data.LETTERS, example.options, row.tolist(), strict=False
            )
            yield {
                **rows.key_of(example.guid),
                "prediction": race_data.LETTERS[row.argmax()],
                "probabilities": {k: p for k, text, p in columns if text},
            }

    @property
    def alike(self) -> dict[str, Any]:
        return {"num_options": self.options.num_options}

    # Exports.

    def texts(
        self, examples: Sequence[race_data.RaceQuestion]
    ) -> dict[str, Any]:
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
        answers: base.Answers,
        examples: Sequence[race_data.RaceQuestion],
    ) -> dict[str, float]:
        rows = base.joined(answers, "probabilities")
        return self.score({"logits": probabilities.logs(rows)}, examples)

    def write_predictions(
        self,
        outputs: base.Outputs,
        examples: Sequence[race_data.RaceQuestion],
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
