"""The questions of a split: which must have answers, and which are left out."""

from collections.abc import Sequence

from absl import logging

from albert_tf.common import errors
from albert_tf.finetuning import base
from albert_tf.finetuning.squad import squad_data

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


def read(path: str, split: str, *, has_null: bool) -> list[squad_data.Question]:
    questions, report = squad_data.read(path, _OPTION[split])
    for line in report.lines(path):
        logging.info("%s", line)
    if not has_null:
        _check_version(questions, path)
    if split in (base.TRAIN, base.DEV):
        _check_labels(questions, path, split)
    if split == base.TRAIN:
        questions = _trainable(questions, path)
    return questions


def _check_version(questions: Sequence[squad_data.Question], path: str) -> None:
    found = [q.id for q in questions if q.is_impossible]
    if found:
        raise errors.UserError(
            f"`squad_version=1.1`, but {len(found):,} questions of {path} "
            f"have no answer (is_impossible; the first id is {found[0]}). "
            "Use `squad_version=2.0`, or give a file of SQuAD 1.1."
        )


def _check_labels(
    questions: Sequence[squad_data.Question], path: str, split: str
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
            "and use `squad_version=2.0`."
        )


def _trainable(
    questions: Sequence[squad_data.Question], path: str
) -> list[squad_data.Question]:
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
