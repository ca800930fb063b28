"""A GLUE task: examples to records, and logits to scores and predictions.

Source: the original's classifier_utils.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.common import errors, files, rows
from albert_tf.data import layouts
from albert_tf.finetuning import base, packing, probabilities
from albert_tf.finetuning.glue import glue_data, glue_metrics, glue_tasks
from albert_tf.text import tokenization
from albert_tf.training import confusion


class TextTask(packing.PackedTask):
    """A task with one label or number for each text or pair of texts.

    A label that is not known becomes 0 in records, as in the original.
    """

    package = "albert_tf.tasks.others"
    exit_options = "exit_layers", "exit_heads"

    metrics: Sequence[str]  # See `glue_metrics.score`.

    def __init__(
        self,
        tokenizer: tokenization.AnyTokenizer,
        max_seq_length: int,
        options: Any,
        facts: base.Facts | None = None,
    ):
        """Make a task; without labels it is one of numbers."""
        super().__init__(tokenizer, max_seq_length, options, facts)
        self.is_regression = not self.labels
        usual = "number" if self.is_regression else "label"
        self.problem = self.problem or usual
        self.taught_by = None if self.is_regression else "probabilities"

    def layout(self, split: str) -> layouts.Layout:
        del split  # The same for all.
        return layouts.classification_layout(
            self.max_seq_length,
            num_labels=len(self.labels),
            regression=self.is_regression,
        )

    def pieces(
        self, examples: Sequence[glue_data.TextExample]
    ) -> list[tuple[glue_data.TextExample, Sequence[int], Sequence[int]]]:
        others = ["".join(example.texts[1:]) for example in examples]
        first = self.tokenizer.encode_batch([e.texts[0] for e in examples])
        second = self.tokenizer.encode_batch(others)
        return list(zip(examples, first, second, strict=True))

    def label_ids(
        self, examples: Sequence[glue_data.TextExample]
    ) -> np.ndarray:
        kind = np.float32 if self.is_regression else np.int64
        return np.array([example.label or 0 for example in examples], kind)

    def score(
        self, outputs: base.Outputs, examples: Sequence[glue_data.TextExample]
    ) -> dict[str, float]:
        """Return the task's metrics, and for labels the `loss` too."""
        expected = np.array([example.label for example in examples])
        logits = outputs["logits"]
        if self.is_regression:
            numbers = logits[:, 0]
            return glue_metrics.score(self.metrics, numbers, expected)
        scores = glue_metrics.score(self.metrics, logits.argmax(-1), expected)
        return {**scores, "loss": probabilities.cross_entropy(logits, expected)}

    def confusion(
        self, outputs: base.Outputs, examples: Sequence[glue_data.TextExample]
    ) -> confusion.Confusion | None:
        if self.is_regression:
            return None
        return confusion.Confusion.of(
            outputs["logits"].argmax(-1),
            np.array([example.label for example in examples]),
            self.labels,
        )

    def answers(
        self, outputs: base.Outputs, examples: Sequence[glue_data.TextExample]
    ) -> Iterator[dict[str, Any]]:
        """Yield the label and all probabilities by label, or the number.

        A number is as the model gives it: it may lie outside of the `bounds`.
        """
        logits = outputs["logits"]
        if self.is_regression:
            for example, number in zip(examples, logits[:, 0], strict=True):
                key = rows.key_of(example.guid)
                yield {**key, "prediction": float(number)}
            return
        shares = probabilities.softmax(logits)
        for example, row in zip(examples, shares, strict=True):
            yield {
                **rows.key_of(example.guid),
                "prediction": self.labels[row.argmax()],
                "probabilities": dict(
                    zip(self.labels, row.tolist(), strict=True)
                ),
            }

    def combine(self, runs: Sequence[base.Outputs]) -> base.Outputs:
        if self.is_regression:
            return {"logits": np.mean([one["logits"] for one in runs], 0)}
        return super().combine(runs)

    def objective(self, learnt: base.Examples = ()) -> Any:
        return self._part("model", "objective").objective(self, learnt)

    @property
    def about(self) -> dict[str, Any]:
        """What a `TextService` needs to know."""
        return {"labels": self.labels, "pairs": self.has_pairs}

    @property
    def alike(self) -> dict[str, Any]:
        return {"labels": self.labels}

    # Exports.

    def texts(
        self, examples: Sequence[glue_data.TextExample]
    ) -> dict[str, Any]:
        names = ("text", "text_pair")[: 1 + self.has_pairs]
        texts = (example.texts[: len(names)] for example in examples)
        return dict(
            zip(names, map(list, zip(*texts, strict=True)), strict=True)
        )

    def score_answers(
        self,
        answers: base.Answers,
        examples: Sequence[glue_data.TextExample],
    ) -> dict[str, float]:
        if self.is_regression:
            logits = base.joined(answers, "score")[:, None]
        else:
            logits = self.logits_of(base.joined(answers, "probabilities"))
        return self.score({"logits": logits}, examples)

    def logits_of(self, rows: np.ndarray) -> np.ndarray:
        """Return logits, less a constant, of probabilities."""
        return probabilities.logs(rows)


class GlueTask(TextTask):
    """One of `glue_tasks.TASKS`."""

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
        spec = glue_tasks.find(options.task_name)
        if not spec:
            names = sorted(task.lower() for task in glue_tasks.TASKS)
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
        cls, options: base.NameOptions, known: base.KnownFile
    ) -> base.Facts:
        """Return the labels, unless a model has them in another order."""
        spec = glue_tasks.find(options.task_name)
        if not (spec and spec.labels):
            return base.Facts()
        return base.Facts(known.labels("labels", spec.labels, lambda _: ()))

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
            found = [os.path.join(data_dir, name) for name in names]
            there = [path for path in found if files.exists(path)]
            if there or split_name in needed:
                paths[split_name] = (there or found)[0]
        return paths

    def read(self, path: str, split: str) -> list[glue_data.TextExample]:
        """Read a split; rows are strict, and quotes are ordinary characters.

        DIFFERS: the original skips rows of QQP that are too short in silence;
        here they are counted and reported. It lower-cases labels; here they
        keep their case.
        """
        examples = list(glue_data.read(self._spec, self.name, path, split))
        rows.require_some(examples, path)
        return examples

    def read_own(self, path: str) -> list[glue_data.TextExample | rows.BadLine]:
        """Read a user's texts: TSV with a header, or JSON objects.

        Their names are `text`, `text_pair` where the task has pairs, and, if
        wanted, `id`.
        """
        names = ("text", "text_pair")[: 1 + self.has_pairs]

        def make(entry: rows.Row) -> list[glue_data.TextExample]:
            return [glue_data.TextExample(entry.guid, entry.texts(names))]

        return list(rows.read_own(path, names, make))

    def write_predictions(
        self,
        outputs: base.Outputs,
        examples: Sequence[glue_data.TextExample],
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
