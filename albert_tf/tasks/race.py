"""RACE: reading comprehension with four options for each question.

Source: ALBERT appendix A.4; in the original, race_utils.
"""

import dataclasses
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from albert_tf import errors, files, ranges, records, strict_json, tokenization
from albert_tf.options import checked, option
from albert_tf.tasks import base, glue, probabilities, text_files

if TYPE_CHECKING:
    import tf_keras as keras

    from albert_tf import modeling, objectives

NAME = "race"
LEVELS = ("middle", "high")
BLANK = "_"
# Questions that are featurized together; each has several sequences.
_BATCH = 32
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_IDS = ("input_ids", "input_mask", "segment_ids")
_LAYOUT = "{train,dev,test}/{middle,high}/N.txt"


@dataclasses.dataclass(frozen=True)
@checked
class RaceOptions:
    """How questions are read and put before the model."""

    max_qa_length: int = option(
        128,
        "Tokens of question and option together; of longer ones the last are "
        "kept.",
        within=ranges.TOKENS,
    )
    num_options: int = option(
        4, "Options of a question.", within=ranges.Range(2, len(LETTERS))
    )
    pad_options: bool = option(
        False,
        "Whether questions with fewer than --num_options options are filled up "
        "with empty ones that are never chosen. Otherwise they are refused.",
    )
    middle_only: bool = option(False, "Whether to leave out high.")
    high_only: bool = option(False, "Whether to leave out middle.")
    options_at_once: int = option(
        0,
        "Options that go through the encoder together, for less memory: a "
        "divisor of --num_options. 0 means all.",
        within=ranges.Range(0, len(LETTERS)),
        may_change=True,
    )
    dropout_prob: float = option(
        0.1, "Dropout before the last layer.", within=ranges.DROPOUT
    )

    def __post_init__(self) -> None:
        if self.options_at_once and self.num_options % self.options_at_once:
            raise errors.UserError(
                f"--options_at_once={self.options_at_once} does not divide "
                f"--num_options={self.num_options}. Use a divisor, or 0 for "
                "all at once."
            )
        if self.middle_only and self.high_only:
            raise errors.UserError(
                "--middle_only and --high_only leave nothing. Drop one."
            )

    @property
    def levels(self) -> tuple[str, ...]:
        """The wanted ones of `LEVELS`, in their order."""
        if self.middle_only:
            return LEVELS[:1]
        return LEVELS[1:] if self.high_only else LEVELS


@dataclasses.dataclass(frozen=True)
class Example:
    """One question about an article.

    Attributes:
        guid: The article's id and the number of the question, from 0: such as
            `high19088.txt-0`.
        level: `middle` or `high`; empty if it is not known.
        article: The article.
        question: The question, or a sentence with a gap, `_`.
        options: Possible answers.
        label: Index of the right option; None where it is not known.
    """

    guid: str
    level: str
    article: str
    question: str
    options: tuple[str, ...]
    label: int | None


class RaceTask(base.Task):
    """RACE."""

    name = NAME
    key_metric = "accuracy"

    def __init__(
        self,
        tokenizer: tokenization.AnyTokenizer,
        max_seq_length: int,
        options: RaceOptions,
    ):
        """Keep what turns questions into ids.

        Raises:
            errors.UserError: `max_qa_length` leaves no room for the article.
        """
        super().__init__(tokenizer, max_seq_length)
        self.options = options
        if not 0 < options.max_qa_length <= max_seq_length - 4:
            raise errors.UserError(
                f"--max_qa_length={options.max_qa_length} leaves no room for "
                f"the article in --max_seq_length={max_seq_length}: between 1 "
                f"and {max_seq_length - 4} tokens are possible."
            )

    @property
    def settings(self) -> dict[str, Any]:
        """See `base.Task.settings`."""
        names = "max_qa_length", "num_options", "middle_only", "high_only"
        return {
            **super().settings,
            **{name: getattr(self.options, name) for name in names},
        }

    def sources(self, data_dir: str) -> dict[str, str]:
        """Return the folder of each split.

        They lie in `data_dir`, or in `data_dir/RACE` as in the original.
        """
        inner = os.path.join(data_dir, "RACE")
        folder = inner if files.exists(inner) else data_dir
        splits = base.TRAIN, base.DEV, base.TEST
        return {split: os.path.join(folder, split) for split in splits}

    def read(self, path: str, split: str) -> list[Example]:
        """Read all questions of a split: middle first, files by number.

        Each level's folder holds one file for each article, `N.txt`, or all of
        them in `all.txt`, one JSON object a line. An `all.txt` in the split's
        folder itself (data of one's own has no levels), or a single file, is
        read in the same way; in a user's own file, `answers` may be missing.
        What else lies there is reported, unless its name begins with a dot.

        Raises:
            errors.UserError: A folder is missing, a file is not in the official
                layout, or a question has another number of options.
        """
        if split != base.PREDICT and not files.exists(path):
            raise errors.UserError(
                f"{path} does not exist. RACE has {_LAYOUT}: give the folder "
                "that holds them as --data_dir, and do not ask for a split "
                "that it lacks."
            )
        if split == base.PREDICT:
            return list(text_files.strictly(self.read_own(path)))
        if text_files.list_folder(path):
            places = list(self._find(path))
        else:
            places = [("", path)]
        examples = list(self._read_files(places))
        if not examples:
            raise _no_questions(path)
        return examples

    def read_own(self, path: str) -> list[Example | text_files.BadLine]:
        """Read a user's articles, with or without answers.

        The questions of an article that cannot be used are one bad line.

        Raises:
            errors.UserError: See `text_files.read_own`; or there is no
                question.
        """
        no_questions: list[str] = []

        def make(
            where: str, number: int, article: Mapping[str, Any]
        ) -> list[Example]:
            del number
            found = list(self._parse(where, "", article, needs_answers=False))
            if not found:
                no_questions.append(where)
            return found

        found = list(text_files.read_own(path, make, ()))
        self.remark("articles have no questions.", no_questions)
        if not found:
            raise _no_questions(path)
        return found

    def _read_files(
        self, places: Sequence[tuple[str, str]]
    ) -> Iterator[Example]:
        """Yield the questions of files; report where there are none."""
        no_articles: list[str] = []
        no_questions: list[str] = []
        for level, place in places:
            articles = list(text_files.read_objects(place))
            if not articles:
                no_articles.append(place)
            for where, article in articles:
                questions = list(
                    self._parse(where, level, article, needs_answers=True)
                )
                if not questions:
                    no_questions.append(where)
                yield from questions
        self.remark("files have no article.", no_articles)
        self.remark("articles have no questions.", no_questions)

    def _find(self, folder: str) -> Iterator[tuple[str, str]]:
        """Yield level and path of each file of a split."""
        names = text_files.list_folder(folder)
        if "all.txt" in names and not set(LEVELS) & set(names):
            self._report_others(folder, names, ["all.txt"])
            yield "", os.path.join(folder, "all.txt")
            return
        self._report_others(folder, names, LEVELS)
        for level in self.options.levels:
            place = os.path.join(folder, level)
            names = text_files.list_folder(place)
            numbered = [n for n in names if re.fullmatch(r"\d+\.txt", n)]
            numbered.sort(key=lambda n: int(n.removesuffix(".txt")))
            chosen = ["all.txt"] if "all.txt" in names else numbered
            if not chosen:
                raise errors.UserError(
                    f"{place} has neither all.txt nor files like 13.txt. RACE "
                    f"has {_LAYOUT}; name the folder that holds them (or use "
                    "--middle_only, --high_only)."
                )
            self._report_others(place, names, chosen)
            for name in chosen:
                yield level, os.path.join(place, name)

    def _report_others(
        self, folder: str, names: Sequence[str], chosen: Sequence[str]
    ) -> None:
        """Report what is not read; systems leave hidden files everywhere."""
        known = set(chosen)
        others = [n for n in names if n not in known and not n.startswith(".")]
        self.remark(
            "files or folders are left out: a level is read from all.txt or, "
            "without it, from files like 13.txt.",
            [os.path.join(folder, name) for name in others],
        )

    def _parse(
        self,
        where: str,
        level: str,
        article: Mapping[str, Any],
        *,
        needs_answers: bool,
    ) -> Iterator[Example]:
        """Yield the questions of one article.

        Raises:
            errors.UserError: It is not in the official layout.
        """
        name = str(article.get("id", os.path.basename(where)))
        where = f"{where} (id {name})"
        text, questions, options = (
            _checked(article, key, kind, where)
            for key, kind in (
                ("article", str),
                ("questions", list),
                ("options", list),
            )
        )
        if not text.strip():
            raise errors.UserError(
                f"{where}: the article is empty, so its questions cannot be "
                "answered. Write the text, or remove the file."
            )
        answers = None
        if needs_answers or "answers" in article:
            answers = _checked(article, "answers", list, where)
        if len(questions) != len(options) or (
            answers is not None and len(questions) != len(answers)
        ):
            raise errors.UserError(
                f"{where}: {len(questions)} questions, {len(options)} lists of "
                f"options and {len(answers or ())} answers. Correct the file."
            )
        level = level or _level_of(name)
        for number, question in enumerate(questions):
            at = f"{where}, question {number}"
            _check_text(question, at)
            self._check_options(options[number], at)
            yield Example(
                guid=f"{name}-{number}",
                level=level,
                article=text,
                question=question,
                options=tuple(options[number]),
                label=answers and _label(answers[number], options[number], at),
            )

    def _check_options(self, options: Any, where: str) -> None:
        wanted = self.options.num_options
        count = len(options) if isinstance(options, list) else 0
        if count < 2 or count > wanted:
            raise errors.UserError(
                f"{where}: {count} options instead of {wanted}. Correct the "
                f"file, or use --num_options={max(count, 2)} with "
                "--pad_options."
            )
        for text in options:
            _check_text(text, f"{where}: an option")
        if count < wanted and not self.options.pad_options:
            raise errors.UserError(
                f"{where}: {count} options instead of {wanted}. Correct the "
                "file, or use --pad_options to fill up such questions with "
                "options that are never chosen."
            )

    def layout(self, split: str) -> records.Layout:
        """Return the layout of a multiple-choice record.

        The sequences of a question lie one behind the other, as in the
        original; a batch has them as [questions, options, S].
        """
        del split
        sequences = (self.options.num_options, self.max_seq_length)
        return (
            *(records.Feature(name, sequences, "int64") for name in _IDS),
            records.Feature("label_ids", (), "int64"),
            records.Feature("is_real_example", (), "int64"),
        )

    def featurize(
        self, examples: Sequence[Example], split: str
    ) -> Iterator[dict[str, np.ndarray]]:
        """Yield one record for each question.

        Each option: `[CLS] article [SEP] question and option [SEP]`. Of
        question and option the last `max_qa_length` pieces are kept, then the
        article is cut at its end. Options that fill up are all padding.
        """
        del split
        limit, room = self.options.max_qa_length, self.max_seq_length - 3
        cut_choices: list[str] = []
        cut_articles: list[str] = []
        for start in range(0, len(examples), _BATCH):
            part = examples[start : start + _BATCH]
            shape = (3, len(part), *self.layout(base.TRAIN)[0].shape)
            packed = np.zeros(shape, np.int64)
            for row, (article, choices) in enumerate(self._encode(part)):
                longest = max(map(len, choices))
                if longest > limit:
                    cut_choices.append(part[row].guid)
                if len(article) + min(longest, limit) > room:
                    cut_articles.append(part[row].guid)
                for column, choice in enumerate(choices):
                    values = self._pack(article, choice)
                    packed[:, row, column] = [values[name] for name in _IDS]
            yield {
                **dict(zip(_IDS, packed, strict=True)),
                "label_ids": np.array([e.label or 0 for e in part], np.int64),
                "is_real_example": np.ones(len(part), np.int64),
            }
        self.remark(
            f"questions have a choice longer than --max_qa_length={limit}, "
            "which is cut at its beginning.",
            cut_choices,
        )
        self.remark(
            "questions have an article that does not fit beside the choice "
            f"into --max_seq_length={self.max_seq_length}; it is cut at its "
            "end.",
            cut_articles,
        )

    def choices(self, example: Example) -> list[str]:
        """Return the question with each option: in its gaps, or behind it.

        Both are cleaned before, if the vocabulary is one of SentencePiece: so
        a full-width low line is a gap too, and an option brings no spaces into
        it.

        Source: original release, race_utils.RaceProcessor.process_text, which
        does not clean for WordPiece.

        Example:
            question = "He is _ .", options = ("old", "tall")
            result = ["he is old .", "he is tall ."]
        """
        question, *options = map(
            self._clean, (example.question, *example.options)
        )
        if BLANK in question:
            return [question.replace(BLANK, option) for option in options]
        return [f"{question} {option}" for option in options]

    def _clean(self, text: str) -> str:
        if isinstance(self.tokenizer, tokenization.Tokenizer):
            return self.tokenizer.clean(text)
        return text

    def _encode(
        self, examples: Sequence[Example]
    ) -> Iterator[tuple[list[int], list[list[int]]]]:
        """Yield the ids of each question's article and choices."""
        articles = list(dict.fromkeys(e.article for e in examples))
        ids = dict(
            zip(articles, self.tokenizer.encode_batch(articles), strict=True)
        )
        for example in examples:
            choices = self.tokenizer.encode_batch(self.choices(example))
            yield ids[example.article], choices

    def _pack(
        self, article: Sequence[int], choice: Sequence[int]
    ) -> dict[str, np.ndarray]:
        choice = choice[-self.options.max_qa_length :]
        room = self.max_seq_length - 3 - len(choice)
        return glue.pack(
            article[:room], choice, self.tokenizer, self.max_seq_length
        )

    @property
    def sequences_at_once(self) -> int:
        """Options of a question that go through the encoder together."""
        return self.options.options_at_once or self.options.num_options

    @property
    def objective(self) -> "objectives.Objective":
        """Cross-entropy over the options."""
        from albert_tf.heads import classification

        return classification.OBJECTIVE

    def make_model(self, encoder: "modeling.AlbertModel") -> "keras.Model":
        """Put a new scorer of options on an encoder."""
        from albert_tf.heads import classification

        return classification.AlbertMultipleChoice(
            encoder,
            self.options.dropout_prob,
            choices_at_once=self.options.options_at_once or None,
        )

    def score(
        self, outputs: base.Outputs, examples: Sequence[Example]
    ) -> dict[str, float]:
        """Return `accuracy`, `accuracy_middle`, `accuracy_high` and `loss`.

        A level that has no questions has no accuracy.
        """
        labels = np.array([example.label for example in examples])
        levels = np.array([example.level for example in examples])
        hits = outputs["logits"].argmax(-1) == labels
        scores = {"accuracy": float(hits.mean())}
        for level in LEVELS:
            if (levels == level).any():
                scores[f"accuracy_{level}"] = float(
                    hits[levels == level].mean()
                )
        loss = probabilities.cross_entropy(outputs["logits"], labels)
        return {**scores, "loss": loss}

    def answers(
        self, outputs: base.Outputs, examples: Sequence[Example]
    ) -> Iterator[dict[str, Any]]:
        """Yield the chosen letter and the probability of each letter."""
        rows = probabilities.softmax(outputs["logits"])
        for example, row in zip(examples, rows, strict=True):
            letters = LETTERS[: len(example.options)]
            yield {
                "id": example.guid,
                "prediction": LETTERS[row.argmax()],
                "probabilities": dict(zip(letters, row.tolist(), strict=False)),
            }

    def write_predictions(
        self,
        outputs: base.Outputs,
        examples: Sequence[Example],
        split: str,
        output_dir: str,
    ) -> None:
        """Write `SPLIT_predictions.jsonl` and `predict_results.txt`.

        The first has one object for each question, the second the scores, as
        in the original; RACE's test questions have their answers.
        """
        answers = self.answers(outputs, examples)
        text = "".join(strict_json.dumps(a) + "\n" for a in answers)
        path = os.path.join(output_dir, f"{split}_predictions.jsonl")
        files.write_text(path, text)
        scores = self.score(outputs, examples)
        text = "".join(f"{name} = {scores[name]}\n" for name in sorted(scores))
        files.write_text(os.path.join(output_dir, "predict_results.txt"), text)

    def combine(self, runs: Sequence[base.Outputs]) -> base.Outputs:
        """Average the probabilities of the options."""
        return {"logits": probabilities.average([r["logits"] for r in runs])}


def _checked(
    article: Mapping[str, Any], key: str, kind: type, where: str
) -> Any:
    """Return a value of an article.

    Raises:
        errors.UserError: There is none, or none of this kind.
    """
    value = article.get(key)
    if not isinstance(value, kind):
        name = "text" if kind is str else "list"
        raise errors.UserError(
            f"{where} has no {name} {key!r}. An article of RACE has "
            "'article', 'questions', 'options', 'answers' and 'id'."
        )
    return value


def _no_questions(path: str) -> errors.UserError:
    return errors.UserError(
        f"{path} has no questions. Give a file or folder that has some."
    )


def _check_text(value: Any, what: str) -> None:
    """Make sure that a question or an option is a text.

    Raises:
        errors.UserError: It is something else, such as a number.
    """
    if not isinstance(value, str):
        raise errors.UserError(
            f"{what} is {strict_json.shown(value)}; it must be a text. Write "
            "it in quotes."
        )


def _label(answer: Any, options: Sequence[str], where: str) -> int:
    """Return the index that a letter means.

    Raises:
        errors.UserError: There is no such option.
    """
    letters = list(LETTERS[: len(options)])
    if answer not in letters:
        raise errors.UserError(
            f"{where}: the answer {answer!r} is not one of "
            f"{', '.join(letters)}. Correct the file."
        )
    return letters.index(answer)


def _level_of(article_id: str) -> str:
    """Return the level that an id such as `high12.txt` begins with."""
    found = re.match("|".join(LEVELS), article_id)
    return found[0] if found else ""
