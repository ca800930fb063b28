"""SQuAD's official JSON to questions, read strictly.

The first step of a SQuAD run: a file of version 1.1 or 2.0, with or without
answers, becomes a list of `Question`. If an answer is not at its
`answer_start`, it is searched for in the paragraph; `report` counts what was
moved and what was not found. White space at the ends of an answer is no part
of it: there the next word would be learnt.

Source: the layout is that of rajpurkar.github.io/SQuAD-explorer; in the
original, squad_utils.read_squad_examples.
"""

import collections
import dataclasses
import unicodedata
from collections.abc import Sequence
from typing import Any

from absl import logging

from albert_tf.common import errors, files, rows, strict_json
from albert_tf.finetuning import base
from albert_tf.text import words


@dataclasses.dataclass(frozen=True)
class Answer:
    """One answer of an annotator, without white space at its ends.

    Attributes:
        start: Number of its first character in the paragraph; -1 if the text
            does not stand in the paragraph at all.
        is_moved: Whether the file names another place.
    """

    text: str
    start: int
    is_moved: bool = False

    @property
    def end(self) -> int:
        """Number of the last character plus 1."""
        return self.start + len(self.text)


@dataclasses.dataclass(frozen=True)
class Question:
    """One question about a paragraph; its neighbours share the paragraph.

    Attributes:
        guid: See `rows.key_of`; COVID-QA has whole numbers.
        context: The paragraph, the same string for all of its questions.
        answers: The annotators' answers, best first; empty for a question
            without an answer; None where the file does not say.
        is_impossible: Whether the paragraph holds no answer; only SQuAD 2.0
            has such questions.
    """

    guid: Any
    text: str
    context: str
    answers: tuple[Answer, ...] | None
    is_impossible: bool = False

    @property
    def id(self) -> str:
        """Names the question in prediction files, where keys are texts."""
        return str(self.guid)

    @property
    def learnt(self) -> Answer | None:
        """The answer to train on: the first that stands in the paragraph.

        Characters that nobody sees are cut off its ends: SentencePiece takes
        some of them for spaces, as it does U+200B.
        """
        for answer in self.answers or ():
            text = answer.text
            unseen = "".join(
                character
                for character in set(text)
                if character.isspace()
                or unicodedata.category(character) in ("Cc", "Cf")
            )
            start = answer.start + len(text) - len(text.lstrip(unseen))
            if answer.start >= 0 and text.strip(unseen):
                return Answer(text.strip(unseen), start)
        return None


# What is told of questions whose answers are not where the file says.
_MOVED = (
    "an answer that is not where answer_start says; it was moved to the "
    "nearest place where its text stands."
)
_PARTLY_FOUND = (
    "an answer that does not stand in the paragraph, and one that does, which "
    "is learnt."
)
_NOT_FOUND = (
    "no answer that stands in the paragraph. Training leaves these questions "
    "out; evaluation compares texts and keeps them."
)


def report(questions: Sequence[Question], path: str) -> list[str]:
    """Return a line about a file, and one for each fault of its answers."""
    ids: dict[str, list[str]] = {_MOVED: [], _PARTLY_FOUND: [], _NOT_FOUND: []}
    for question in questions:
        answers = question.answers or ()
        if answers and not question.learnt:
            ids[_NOT_FOUND].append(question.id)
        elif any(answer.start < 0 for answer in answers):
            ids[_PARTLY_FOUND].append(question.id)
        elif any(answer.is_moved for answer in answers):
            ids[_MOVED].append(question.id)
    count = len({question.context for question in questions})
    lines = [f"{path}: {len(questions):,} questions about {count:,} paragraphs"]
    for fault, faulty in ids.items():
        if faulty:
            shown = ", ".join(faulty[:3]) + ", ..." * (len(faulty) > 3)
            verb = "question has" if len(faulty) == 1 else "questions have"
            lines.append(f"{path}: {len(faulty):,} {verb} (id {shown}) {fault}")
    return lines


def read(path: str, option: str) -> list[Question]:
    """Read a file of SQuAD 1.1 or 2.0.

    DIFFERS: the original does not compare `answer_start` with the text, so
    that a wrong one trains a wrong span.
    """
    content = strict_json.read(
        files.require_file(path, option),
        "Give the official file, such as dev-v2.0.json, unpacked.",
        f"`{option}={path}`",
    )
    return parse(content, path)


def read_split(path: str, split: str, *, has_null: bool) -> list[Question]:
    is_training = split == base.TRAIN
    questions = read(path, "train_file" if is_training else "predict_file")
    for line in report(questions, path):
        logging.info("%s", line)
    impossible = [q.id for q in questions if q.is_impossible]
    if impossible and not has_null:
        raise errors.UserError(
            f"`squad_version=1.1`, but {len(impossible):,} questions of {path} "
            f"have no answer (is_impossible; the first id is {impossible[0]}). "
            "Use `squad_version=2.0`, or give a file of SQuAD 1.1."
        )
    if split in (base.TRAIN, base.DEV):
        _check_labels(questions, path, split)
    if not is_training:
        return questions
    several = sum(len(q.answers or ()) > 1 for q in questions)
    if several:
        logging.info(
            "%s: %d questions have several answers; the first that stands in "
            "the paragraph is learnt.",
            path,
            several,
        )
    kept = [q for q in questions if not q.answers or q.learnt]
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


def _check_labels(questions: Sequence[Question], path: str, split: str) -> None:
    use = "Training" if split == base.TRAIN else "Evaluation"
    missing = [q.id for q in questions if q.answers is None]
    if missing:
        raise errors.UserError(
            f"{path}: {len(missing):,} questions have no 'answers' (the "
            f"first id is {missing[0]}). {use} needs them. Give a file with "
            "answers."
        )
    empty = [q.id for q in questions if not (q.answers or q.is_impossible)]
    if empty:
        raise errors.UserError(
            f"{path}: {len(empty):,} questions have an empty list of "
            f"answers (the first id is {empty[0]}), but not "
            f"'is_impossible'. {use} needs them. Give answers, or mark them "
            "and use `squad_version=2.0`."
        )


def read_own(path: str) -> list[Question | rows.BadLine]:
    """Read a user's questions, without the answers that a file may have.

    The file has SQuAD's layout, or it is one of `rows.read` with
    `question`, `context` and, if wanted, `id`. A file in SQuAD's layout is read
    strictly; elsewhere a question that cannot be used, or has an id of an
    earlier one, is a bad line.
    """
    seen: set[str] = set()

    def make(entry: rows.Row) -> list[Question]:
        values, where = entry.values, entry.where
        if "data" in values and 1 in entry.key.values():
            return [
                dataclasses.replace(one, answers=None, is_impossible=False)
                for one in parse(values, path)
            ]
        context = rows.get(values, "context", str, where)
        if not context.strip():
            raise errors.UserError(
                f"{where}: the context is empty, so the question cannot be "
                "answered. Write the text, or remove the question."
            )
        text = rows.get(values, "question", str, where)
        if "id" in values:
            rows.get(values, "id", (str, int), where)
        question = Question(entry.guid, text, context, None)
        if question.id in seen:
            raise errors.UserError(
                f"{where}: an earlier question has the id {question.id}, too. "
                "Answers are kept by id, so each needs its own. Rename it."
            )
        seen.add(question.id)
        return [question]

    questions = list(rows.read_user_file(path, ["question", "context"], make))
    if not questions:
        raise _no_questions(path)
    return questions


def parse(content: Any, path: str) -> list[Question]:
    questions: list[Question] = []
    articles = rows.get(content, "data", list, path)
    for article_number, article in enumerate(articles, 1):
        where = f"{path}, article {article_number}"
        paragraphs = rows.get(article, "paragraphs", list, where)
        for number, paragraph in enumerate(paragraphs, 1):
            place = f"{where}, paragraph {number}"
            entries = rows.get(paragraph, "qas", list, place)
            context = rows.get(paragraph, "context", str, place)
            if not context.strip():
                ids = [e.get("id") for e in entries if isinstance(e, dict)]
                raise errors.UserError(
                    f"{place}: the context is empty, so its questions (ids "
                    f"{', '.join(map(str, ids)) or 'none'}) cannot be "
                    "answered. Write the text, or remove the paragraph."
                )
            questions += [
                _question(entry, context, f"{place}, question {n}")
                for n, entry in enumerate(entries, 1)
            ]
    counts = collections.Counter(question.id for question in questions)
    twice = [id_ for id_, count in counts.items() if count > 1]
    if twice:
        raise errors.UserError(
            f"{path}: {len(twice)} ids belong to several questions, the first "
            f"is {twice[0]}. Predictions are kept by id, so each needs its "
            "own. Rename them."
        )
    if not questions:
        raise _no_questions(path)
    return questions


def _question(entry: Any, context: str, where: str) -> Question:
    guid = rows.get(entry, "id", (str, int), where)
    where = f"{where} (id {guid})"
    text = rows.get(entry, "question", str, where)
    is_impossible = False
    if "is_impossible" in entry:
        is_impossible = rows.get(entry, "is_impossible", bool, where)
    if "answers" not in entry:
        return Question(guid, text, context, None, is_impossible)
    answers = []
    for written in rows.get(entry, "answers", list, where):
        phrase = rows.get(written, "text", str, where)
        start = rows.get(written, "answer_start", int, where)
        start += len(phrase) - len(phrase.lstrip())
        answers.append(place_answer(context, phrase.strip(), start))
    if is_impossible and answers:
        raise errors.UserError(
            f"{where}: is_impossible is true, but there are answers. Remove "
            "them (SQuAD 2.0 keeps them as plausible_answers), or set "
            "is_impossible to false."
        )
    return Question(guid, text, context, tuple(answers), is_impossible)


def place_answer(context: str, text: str, start: int) -> Answer:
    """Find the text of an answer in the paragraph.

    Example:
        place_answer("to be or not to be", "be", 3) = Answer("be", 3)
        place_answer("to be or not to be", "be", 14) = Answer("be", 16, True)
        place_answer("to be or not to be", "bee", 3) = Answer("bee", -1, True)

    Returns:
        The answer at `start`, else at the nearest place where the text stands
        (the earlier one of two), else with start -1. An empty text stands
        nowhere.
    """
    place = words.nearest(context, text, start)
    return Answer(text, place, is_moved=bool(text) and place != start)


def _no_questions(path: str) -> errors.UserError:
    return errors.UserError(
        f"{path} has no questions. Give the official file, such as "
        "dev-v2.0.json."
    )
