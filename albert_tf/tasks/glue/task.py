"""The tasks of GLUE: files in a folder, predictions for its leaderboard.

Source: the original's classifier_utils.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.common import errors, files, rows
from albert_tf.finetuning import base
from albert_tf.finetuning.packing import TextExample
from albert_tf.tasks.glue import data, specs
from albert_tf.tasks.text.task import TextTask
from albert_tf.text import tokenization


class GlueTask(TextTask):
    """One of `specs.TASKS`."""

    data_option = "data_dir"

    options: base.NameOptions

    def __init__(
        self,
        tokenizer: tokenization.AnyTokenizer,
        max_seq_length: int,
        options: base.NameOptions,
        facts: base.Facts | None = None,
    ):
        del facts  # The table says what it is now.
        spec = specs.find(options.task_name)
        if not spec:
            names = sorted(task.lower() for task in specs.TASKS)
            raise errors.UserError(
                f"`task_name={options.task_name}` is not known. Allowed are "
                f"{', '.join(names)}, and those of `task_module`."
            )
        self.name = options.task_name.lower()
        self.metrics = spec.metrics
        self.key_metric = spec.metrics[0]
        super().__init__(tokenizer, max_seq_length, options)
        self._spec = spec
        self.has_pairs = spec.has_pairs
        splits = spec.splits
        self.eval_splits = tuple(s for s in splits if s.startswith(base.DEV))
        self.test_splits = tuple(s for s in splits if splits[s].label is None)

    @classmethod
    def find_facts(
        cls, options: base.NameOptions, source: base.FactSource
    ) -> base.Facts:
        """Return the labels, unless a model has them in another order."""
        spec = specs.find(options.task_name)
        if not (spec and spec.labels):
            return base.Facts()
        return base.Facts(source.labels("labels", spec.labels, lambda _: ()))

    @property
    def settings(self) -> dict[str, Any]:
        columns = {
            name: [split.text_a, split.text_b, split.label, split.header]
            for name, split in self._spec.splits.items()
        }
        labels = list(self.labels)
        return {**super().settings, "labels": labels, "columns": columns}

    def sources(self, data_dir: str) -> dict[str, str]:
        """Return the path of each split, such as `DATA_DIR/RTE/dev.tsv`.

        Those that may be missing, and are, have none.
        """
        files.refuse_file(data_dir, "data_dir")
        needed = {base.TRAIN, *self.eval_splits[:1], *self.test_splits[:1]}
        paths = {}
        for split_name, split in self._spec.splits.items():
            names = [split.file, *filter(None, [split.other_file])]
            candidates = [os.path.join(data_dir, name) for name in names]
            there = [path for path in candidates if files.exists(path)]
            if there or split_name in needed:
                paths[split_name] = (there or candidates)[0]
        return paths

    def read(self, path: str, split: str) -> list[TextExample]:
        """Read a split; rows are strict, and quotes are ordinary characters.

        DIFFERS: the original skips rows of QQP that are too short in silence;
        here they are counted and reported. It lower-cases labels; here they
        keep their case.
        """
        examples = list(data.read(self._spec, self.name, path, split))
        rows.require_examples(examples, path)
        return examples

    def read_own(self, path: str) -> list[TextExample | rows.BadLine]:
        """Read a user's texts: TSV with a header, or JSON objects.

        Their names are `text`, `text_pair` where the task has pairs, and, if
        wanted, `id`.
        """
        names = ("text", "text_pair")[: 1 + self.has_pairs]

        def make(entry: rows.Row) -> list[TextExample]:
            return [TextExample(entry.guid, entry.texts(names))]

        return list(rows.read_user_file(path, names, make))

    def start_head(self, model: Any, learnt: base.Examples) -> None:
        """Let the number start at the mean of what is learnt.

        DIFFERS: in the original at 0, and the scores of STS-B have the mean
        2.7: what all examples have in common is then learnt first, and with
        a small encoder nothing else (docs/differences.md).
        """
        if self.is_regression and learnt:
            mean = np.mean([example.label for example in learnt])
            for depth in (None, *model.exit_layers):
                _, bias = model.output_of(depth)
                bias.assign([mean])

    def write_predictions(
        self,
        outputs: base.Outputs,
        examples: Sequence[TextExample],
        split: str,
        output_dir: str,
    ) -> None:
        """Write what is predicted for a split, in three layouts.

        `SPLIT_results.tsv` holds the probabilities (STS-B: the number) and
        `submit_results.tsv`, for the first split, the labels: both as in the
        original. The file of the leaderboard (such as `RTE.tsv`) holds the
        labels under its own name; numbers in it are cut off at the task's
        `bounds`.
        """
        answers = list(self.answers(outputs, examples))
        if self.is_regression:
            rows = [str(answer["prediction"]) for answer in answers]
        else:
            rows = [
                "\t".join(str(p) for p in answer["probabilities"].values())
                for answer in answers
            ]
        _write_lines(output_dir, f"{split}_results.tsv", rows)
        if split == self.test_splits[0]:
            _write_lines(output_dir, "submit_results.tsv", _table(answers))
        if self.is_regression:
            for answer in answers:
                number = np.clip(answer["prediction"], *self._spec.bounds)
                answer["prediction"] = float(number)
        if submission := self._spec.splits[split].submission:
            _write_lines(output_dir, submission, _table(answers))


def _table(answers: Sequence[Mapping[str, Any]]) -> list[str]:
    rows = (f"{answer['id']}\t{answer['prediction']}" for answer in answers)
    return ["index\tprediction", *rows]


def _write_lines(folder: str, name: str, lines: Sequence[str]) -> None:
    text = "".join(f"{line}\n" for line in lines)
    files.write_text(os.path.join(folder, name), text)


TASK = GlueTask
