r"""Show the content of TFRecord files: instances as text, and statistics.

    python -m data_prep.inspect_records \
        --input_file='records/train.tfrecord*' \
        --spm_model_file=vocab/30k-clean.model --num_examples=2

A hidden piece is shown as what it was, an arrow, and what stands there now:

    [paris→MASK]          it became [MASK],
    [paris→KEPT]          it stays, but is to be predicted,
    [paris→RANDOM:tree]   it became a random piece, or was exchanged with
                          another one (records made with --do_permutation).

With --objective, an example that training draws from a passage is shown, too.
For plm the pieces that are asked for follow in their order; for spans <ID>
stands for a span.

Without a vocabulary, ids are shown. Files that end in .gz are unpacked. Any
number of records is read in the memory of a few thousand.
"""

import os
import sys

if not __package__:  # Run by its path: find the packages beside this folder.
    sys.path.insert(0, os.path.dirname(os.path.dirname(__file__)))

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.common import errors, files, options, ranges, streams
from albert_tf.data import arrangements, layouts, manifests
from albert_tf.model import model_options
from albert_tf.text import tokenization
from albert_tf.training import pretraining_options
from data_prep.inspection import record_statistics, record_text
from data_prep.writer import statistics


@dataclasses.dataclass(frozen=True)
@options.checked
@options.shown(
    Data="input_file num_examples statistics",
    Training="objective sentence_objective markers_file",
)
class InspectOptions:
    """Options of the script."""

    input_file: str = options.option(
        help="TFRecord files: comma-separated paths or glob patterns; files "
        "that end in .gz are unpacked.",
        positional=True,
    )
    num_examples: int = options.option(
        5, "Records to show, from the first on.", within=ranges.EXAMPLES_OR_NONE
    )
    statistics: bool = options.option(
        True, "Read all records and print statistics of them."
    )
    objective: str = options.option(
        "none",
        "For passages: an --objective of run_pretraining, of which an example "
        "that training draws is shown, too. It needs a vocabulary.",
        choices=("none", *model_options.OBJECTIVES),
    )
    sentence_objective: str = options.option(
        "none",
        "For --objective: the --sentence_objective of run_pretraining.",
        needs="objective=mlm|rtd",
    )
    markers_file: str | None = options.option(
        None,
        "For --sentence_objective=discourse: the discourse markers.",
        needs="objective=mlm|rtd",
    )
    vocabulary: tokenization.VocabularyOptions = (
        tokenization.VocabularyOptions()
    )

    def __post_init__(self) -> None:
        if self.objective != "none":
            self.vocabulary.require()
            _ = self.recipe

    @property
    def recipe(self) -> pretraining_options.RecipeOptions:
        """That of training, by which an example is drawn from each passage.

        Only where an `objective` is given.
        """
        return pretraining_options.RecipeOptions(
            objective=self.objective,
            sentence_objective=self.sentence_objective,
            passages=pretraining_options.PassageOptions(
                markers_file=self.markers_file
            ),
        )


class Inspector:
    """Shows the first records and counts all of them."""

    def __init__(
        self,
        settings: InspectOptions,
        tokenizer: tokenization.AnyTokenizer | None,
    ) -> None:
        self._settings = settings
        self._tokenizer = tokenizer
        self._text = record_text.PieceText(tokenizer)
        self._special: record_statistics.SpecialIds | None = None
        if tokenizer is not None:
            self._special = record_statistics.SpecialIds(
                tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id
            )
        self._layout: layouts.Layout | None = None
        self._counts: statistics.Counts = {}
        self._num_read = 0

    def read(self, path: str) -> None:
        """Read one file and print its records, as far as they are wanted."""
        for number, batch in enumerate(record_statistics.read_batches(path)):
            if not number:
                self._check_first(batch[0], path)
            num_shown = max(0, self._settings.num_examples - self._num_read)
            read = self._read_pretraining if self._layout else self._read_others
            for row, lines in enumerate(read(batch, path, num_shown), 1):
                print(
                    f"record {self._num_read + row}, {path}", *lines, sep="\n"
                )
            self._num_read += len(batch)
            if self.is_done:
                return

    @property
    def is_done(self) -> bool:
        """Whether nothing more needs to be read."""
        enough = self._num_read >= self._settings.num_examples
        return enough and not self._settings.statistics

    def _check_first(self, record: bytes, path: str) -> None:
        example = record_statistics.parse_example(record, path)
        self._check_passage(example)
        layout = record_statistics.find_layout(example)
        if self._num_read and layout != self._layout:
            raise errors.UserError(
                f"--input_file={path} has another layout than the files before "
                "it: other features, sequence length or number of predictions. "
                "Files of one layout are counted together. Give the others in "
                "a second call."
            )
        self._layout = layout

    def _read_pretraining(
        self, batch: Sequence[bytes], path: str, num_shown: int
    ) -> Iterator[list[str]]:
        """Count the records of a batch; yield the lines of the first ones."""
        assert self._layout is not None
        features = record_statistics.parse_batch(self._layout, batch, path)
        for name in {"input_ids", "masked_lm_ids"} & features.keys():
            self._check_ids(features[name], path)
        if self._special is None:
            self._special = record_statistics.guess_special_ids(features)
            print(
                "Without a vocabulary ids are shown. Taken from the records: "
                f"[CLS] {self._special.cls_id}, [SEP] {self._special.sep_id}, "
                f"[MASK] {self._special.mask_id}."
            )
        for row in range(min(num_shown, len(batch))):
            yield record_text.instance_lines(
                features, row, self._text, self._special
            )
        if self._settings.statistics:
            counts = record_statistics.count(features, self._special)
            self._counts = statistics.add(self._counts, counts)

    def _read_others(
        self, batch: Sequence[bytes], path: str, num_shown: int
    ) -> Iterator[list[str]]:
        """Count passages; yield the lines of the first records of any kind."""
        parsed: Iterable[dict[str, Any]]
        parsed = (
            record_statistics.parse_example(record, path) for record in batch
        )
        drawn = None
        if num_shown and self._settings.objective != "none":
            parsed = list(parsed)
            for passage in parsed:
                self._check_passage(passage)
                self._check_ids(passage["tokens"], path)
            assert self._tokenizer is not None, "Options require it."
            manifest = manifests.find(path)
            drawn = record_text.draw_examples(
                parsed,
                self._settings.recipe,
                self._tokenizer,
                manifest.max_seq_length if manifest else None,
            )
        for row, example in enumerate(parsed):
            is_passage = record_text.is_passage(example)
            if row >= num_shown and not is_passage:
                return
            ids = example.get("tokens" if is_passage else "input_ids", ())
            self._check_ids(np.array(ids, np.int64), path)
            to_lines: Callable[..., list[str]] = record_text.other_lines
            if is_passage:
                to_lines = record_text.passage_lines
                counts = record_text.count_passage(example)
                self._counts = statistics.add(self._counts, counts)
            if row < num_shown:
                lines = to_lines(example, self._text)
                if drawn is not None and self._special:
                    lines += record_text.drawn_lines(
                        drawn,
                        row,
                        self._text,
                        self._special.mask_id,
                        arrangements.parse(self._settings.sentence_objective),
                    )
                yield lines

    def _check_passage(self, example: Mapping[str, Any]) -> None:
        """Refuse other records if `objective` wants examples from passages."""
        objective = self._settings.objective
        if objective != "none" and not record_text.is_passage(example):
            raise errors.UserError(
                f"`objective={objective}` is for passages, but "
                f"`input_file={self._settings.input_file}` has other records. "
                "Leave it out."
            )

    def _check_ids(self, ids: np.ndarray, path: str) -> None:
        if self._tokenizer is None:
            return
        size, highest = self._tokenizer.vocab_size, int(ids.max(initial=0))
        if highest >= size or ids.min(initial=0) < 0:
            kind = self._settings.vocabulary.kind
            raise errors.UserError(
                f"--{kind}={self._settings.vocabulary.path} has {size} pieces; "
                f"--input_file={path} holds ids from {ids.min()} to {highest}. "
                "Ids must be below the number of pieces. Give the vocabulary "
                "that the records were written with, or none to see ids."
            )

    def print_statistics(self) -> None:
        lines = [f"records: {self._num_read:,}, not for pretraining"]
        if "passages" in self._counts:
            lines = record_text.count_lines(self._counts)
        elif self._counts:
            summary = record_statistics.summarize(self._counts)
            lines = record_statistics.to_lines(summary)
        print(*lines, sep="\n")


def run(settings: InspectOptions) -> None:
    streams.require_output()
    paths = files.expand_patterns(
        settings.input_file, "input_file", files.BESIDE_RECORDS
    )
    manifests.check_sizes(paths)
    tokenizer = None
    if settings.vocabulary.kind is not None:
        tokenizer = tokenization.load(settings.vocabulary)
        vocabulary = {"the vocabulary given": {tokenizer.fingerprint}}
        manifests.check_vocabularies(manifests.vocab_hashes(paths) | vocabulary)
    inspector = Inspector(settings, tokenizer)
    try:
        for path in paths:
            if not inspector.is_done:
                inspector.read(path)
        if settings.statistics:
            inspector.print_statistics()
        sys.stdout.flush()
    except BrokenPipeError:
        streams.drop_output()


if __name__ == "__main__":
    options.run_script(run, InspectOptions)
