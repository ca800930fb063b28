"""RACE's articles to questions.

Source: in the original, race_utils.RaceProcessor.
"""

import dataclasses
import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from albert_tf.common import errors, files, rows, strict_json
from albert_tf.tasks.race.portable import LETTERS

LEVELS = ("middle", "high")
_LAYOUT = "{train,dev,test}/{middle,high}/N.txt"
# Takes the end of a sentence that begins with the number of names, and these.
Remark = Callable[[str, Sequence[str]], None]


@dataclasses.dataclass(frozen=True)
class RaceQuestion:
    """One question about an article.

    Attributes:
        guid: The article's id and the number of the question, from 0: such as
            `high19088.txt-0`; see `rows.key_of`.
        level: `middle` or `high`; empty if it is not known.
        question: The question, or a sentence with a gap, `_`.
        options: An empty one stands for none, as in an exported model.
        label: Index of the right option; None where it is not known.
    """

    guid: Any
    level: str
    article: str
    question: str
    options: tuple[str, ...]
    label: int | None

    @property
    def real(self) -> list[int]:
        """Indices of the options that are not empty."""
        return [i for i, option in enumerate(self.options) if option]


@dataclasses.dataclass(frozen=True)
class Reader:
    """Reads questions; `remark` takes what was left out."""

    levels: tuple[str, ...]
    num_options: int
    pad_options: bool
    remark: Remark

    def read(self, path: str) -> list[RaceQuestion]:
        """Read all questions of a split: middle first, files by number.

        Each level's folder holds one file for each article, `N.txt`, or all of
        them in `all.txt`, one JSON object a line. An `all.txt` in the split's
        folder itself (for your own data, without levels), or a single file, is
        read in the same way; in a user's own file, `answers` may be missing.
        What else lies there is reported, unless its name begins with a dot.
        """
        if not files.exists(path):
            raise errors.UserError(
                f"{path} does not exist. RACE has {_LAYOUT}: give the folder "
                "that holds them as `data_dir`, and do not ask for a split "
                "that it lacks."
            )
        if files.list_folder(path):
            paths = list(self._find(path))
        else:
            paths = [("", path)]
        examples: list[RaceQuestion] = []
        no_articles: list[str] = []
        no_questions: list[str] = []
        for level, file in paths:
            articles = list(rows.read_objects(file))
            if not articles:
                no_articles.append(file)
            for entry in articles:
                questions = list(self._parse(entry, level, needs_answers=True))
                if not questions:
                    no_questions.append(entry.where)
                examples += questions
        self.remark("files have no article.", no_articles)
        self.remark("articles have no questions.", no_questions)
        if not examples:
            raise _no_questions(path)
        return self._of_levels(examples, path)

    def read_own(self, path: str) -> list[RaceQuestion | rows.BadLine]:
        """Read a user's articles, with or without answers.

        The questions of an article that cannot be used are one bad line.
        """
        no_questions: list[str] = []

        def make(entry: rows.Row) -> list[RaceQuestion]:
            questions = list(self._parse(entry, "", needs_answers=False))
            if not questions:
                no_questions.append(entry.where)
            if isinstance(entry.guid, str):
                return questions
            key = rows.key_of(entry.guid)
            places = [{**key, "question": n} for n in range(len(questions))]
            return [
                dataclasses.replace(question, guid=rows.LineKey(place))
                for question, place in zip(questions, places, strict=True)
            ]

        inputs = ["article", "questions", "options"]
        examples = list(rows.read_user_file(path, inputs, make))
        self.remark("articles have no questions.", no_questions)
        if not examples:
            raise _no_questions(path)
        return examples

    def _of_levels(
        self, examples: list[RaceQuestion], path: str
    ) -> list[RaceQuestion]:
        """Leave out questions of other levels, and of none if not all count.

        Those of a file in which none has a level are kept: a model of one level
        is asked about it.
        """
        if set(self.levels) == set(LEVELS):
            return examples
        is_known = any(one.level for one in examples)
        if not is_known and not files.list_folder(path):
            self.remark(
                "questions are read although no article's id says its level.",
                [one.guid for one in examples],
            )
            return examples
        kept = [one for one in examples if one.level in self.levels]
        if not kept:
            raise errors.UserError(
                f"{path} has no article whose id begins with "
                f"{' or '.join(self.levels)}, which says its level. Give them "
                "such ids, or leave `middle_only` and `high_only` out."
            )
        self.remark(
            "questions are left out: the id of their article says no level.",
            [one.guid for one in examples if not one.level],
        )
        return kept

    def _find(self, folder: str) -> Iterator[tuple[str, str]]:
        names = files.list_folder(folder)
        if "all.txt" in names and not set(LEVELS) & set(names):
            paths = article_files(folder, self.remark)
            yield from (("", path) for path in paths)
            return
        _report_others(folder, names, LEVELS, self.remark)
        for level in self.levels:
            inner = os.path.join(folder, level)
            paths = article_files(inner, self.remark)
            if not paths:
                raise errors.UserError(
                    f"{inner} has neither all.txt nor files like 13.txt. RACE "
                    f"has {_LAYOUT}; name the folder that holds them (or use "
                    "`middle_only`, `high_only`)."
                )
            yield from ((level, path) for path in paths)

    def _parse(
        self, entry: rows.Row, level: str, *, needs_answers: bool
    ) -> Iterator[RaceQuestion]:
        article = entry.values
        name = str(article.get("id", os.path.basename(entry.where)))
        where = f"{entry.where} (id {name})"
        text = rows.get(article, "article", str, where)
        questions = rows.get(article, "questions", list, where)
        options = rows.get(article, "options", list, where)
        answers = None
        if needs_answers or "answers" in article:
            answers = rows.get(article, "answers", list, where)
        if not text.strip():
            raise errors.UserError(
                f"{where}: the article is empty, so its questions cannot be "
                "answered. Write the text, or remove the file."
            )
        if len(questions) != len(options) or (
            answers is not None and len(questions) != len(answers)
        ):
            raise errors.UserError(
                f"{where}: {len(questions)} questions, {len(options)} lists "
                f"of options and {len(answers or ())} answers. Correct the "
                "file."
            )
        if not level and (prefix := re.match("|".join(LEVELS), name)):
            level = prefix[0]  # Of an id such as `high12.txt`.
        for number, question in enumerate(questions):
            at = f"{where}, question {number}"
            _check_text(question, at)
            self._check_options(options[number], at)
            yield RaceQuestion(
                guid=f"{name}-{number}",
                level=level,
                article=text,
                question=question,
                options=tuple(options[number]),
                label=answers and _label(answers[number], options[number], at),
            )

    def _check_options(self, options: Any, where: str) -> None:
        num_options = self.num_options
        options = options if isinstance(options, list) else []
        count = len(options) - options.count("")
        wrong = f"{where}: {count} options instead of {num_options}"
        if "" in options:
            wrong += ", since an empty one stands for none"
        if count < 2 or len(options) > num_options:
            raise errors.UserError(
                f"{wrong}. Correct the file, or use "
                f"`num_options={max(len(options), 2)}` with `pad_options`."
            )
        for text in options:
            _check_text(text, f"{where}: an option")
        if count < num_options and not self.pad_options:
            raise errors.UserError(
                f"{wrong}. Correct the file, or use `pad_options` to fill up "
                "such questions with options that are never chosen."
            )


def article_files(folder: str, remark: Remark) -> list[str]:
    """Return the files of a level's folder: all.txt, or N.txt by number."""
    names = files.list_folder(folder)
    chosen = [n for n in names if re.fullmatch(r"\d+\.txt", n)]
    chosen.sort(key=lambda n: int(n.removesuffix(".txt")))
    if "all.txt" in names:
        chosen = ["all.txt"]
    if chosen:
        _report_others(folder, names, chosen, remark)
    return [os.path.join(folder, name) for name in chosen]


def _report_others(
    folder: str, names: Sequence[str], chosen: Sequence[str], remark: Remark
) -> None:
    read = set(chosen)
    others = [n for n in names if n not in read and not n.startswith(".")]
    remark(
        "files or folders are left out: a level is read from all.txt or, "
        "without it, from files like 13.txt.",
        [os.path.join(folder, name) for name in others],
    )


def _no_questions(path: str) -> errors.UserError:
    return errors.UserError(
        f"{path} has no questions. Give a file or folder that has some."
    )


def _check_text(value: Any, name: str) -> None:
    if not isinstance(value, str):
        raise errors.UserError(
            f"{name} is {strict_json.brief(value)}; it must be a text. Write "
            "it in quotes."
        )


def _label(answer: Any, options: Sequence[str], where: str) -> int:
    pairs = zip(LETTERS, options, strict=False)
    letters = [letter for letter, option in pairs if option]
    if answer not in letters:
        raise errors.UserError(
            f"{where}: the answer {answer!r} is not one of "
            f"{', '.join(letters)}. Correct the file."
        )
    return LETTERS.index(answer)
