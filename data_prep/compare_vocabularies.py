r"""Compare vocabularies on text that they were not trained on.

    python -m data_prep.compare_vocabularies --input_file=dev.txt \
        --vocabularies=vocab-8k.model,vocab-16k.model

prints a table with one row a vocabulary: pieces a word and characters a piece
(longer pieces make shorter sequences), the share of unknown pieces, and the
share of words that are one piece. A file that ends in .txt is a WordPiece
vocabulary, any other a SentencePiece model; each cleans text as the file
beside it says.
"""

import dataclasses
import itertools
import os
import sys

if not __package__:  # Run by its path: find the packages beside this folder.
    sys.path.insert(0, os.path.dirname(os.path.dirname(__file__)))

import numpy as np

from albert_tf.common import errors, options, ranges
from albert_tf.text import tokenization
from data_prep.vocabulary import text
from data_prep.writer import corpus, segmenters


@dataclasses.dataclass(frozen=True)
@options.checked
class CompareOptions:
    """Options of compare_vocabularies."""

    input_file: str = options.option(
        help="Held-out text, UTF-8: files or glob patterns, separated by "
        "commas."
    )
    vocabularies: str = options.option(
        help="SentencePiece models, or WordPiece vocabularies (.txt), "
        "separated by commas."
    )
    word_segmenter: str = options.option(
        segmenters.NONE,
        "What finds words in text without spaces; none: words stand between "
        "spaces.",
        choices=segmenters.NAMES,
    )
    max_lines: int = options.option(
        20000, "Read at most that many lines.", within=ranges.Range(1, 10**9)
    )


@dataclasses.dataclass(frozen=True)
class Report:
    """What a vocabulary makes of a text.

    Attributes:
        pieces: Number of pieces.
        unknown: Those that are unknown.
        characters: Characters of the text that are not white space.
        words: Words of the text.
        whole_words: Words that are one piece.
    """

    pieces: int
    unknown: int
    characters: int
    words: int
    whole_words: int


def report(
    lines: list[str],
    tokenizer: tokenization.AnyTokenizer,
    cut: segmenters.Cut = str.split,
) -> Report:
    """Count what a vocabulary makes of some lines.

    Args:
        lines: The text.
        tokenizer: The vocabulary.
        cut: Cuts a line into words.
    """
    found = np.zeros(5, np.int64)
    for line in lines:
        ids, begins, ends = tokenizer.encode_with_offsets(line)
        names = tokenizer.ids_to_pieces(ids.tolist())
        marks = segmenters.mark_pieces(line, (names, begins, ends), cut)
        is_alone = marks & np.append(marks[1:], True)[: len(marks)]
        is_known = ids != tokenizer.unk_id
        found += (
            len(ids),
            int((~is_known).sum()),
            len("".join(line.split())),
            int(segmenters.word_starts(line, cut).sum()),
            int((is_alone & is_known).sum()),
        )
    return Report(*found.tolist())


def table(reports: dict[str, Report], sizes: dict[str, int]) -> str:
    """Return reports as a Markdown table.

    Args:
        reports: By the name of the vocabulary.
        sizes: Pieces of each vocabulary.
    """
    rows = [
        "| Vocabulary | Pieces | Pieces a word | Characters a piece | Unknown "
        "pieces | Words in one piece |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, one in reports.items():
        words, pieces = max(1, one.words), max(1, one.pieces)
        rows.append(
            f"| {name} | {sizes[name]:,} | {one.pieces / words:.2f} | "
            f"{one.characters / pieces:.2f} | {one.unknown / pieces:.2%} | "
            f"{one.whole_words / words:.1%} |"
        )
    return "\n".join(rows)


def run(wanted: CompareOptions) -> None:
    """Print the table.

    Raises:
        errors.UserError: Files are missing or unusable, or there is no text.
    """
    segmenters.require(wanted.word_segmenter)
    paths = [p.strip() for p in wanted.vocabularies.split(",") if p.strip()]
    tokenizers = {path: _load(path) for path in paths}
    found = corpus.find_files(corpus.CorpusOptions(wanted.input_file))
    filled = (line for line in text.read_lines(found) if line.strip())
    lines = list(itertools.islice(filled, wanted.max_lines))
    if not lines:
        raise errors.UserError(
            "holds no text. Give other files.", "input_file", wanted.input_file
        )
    cut: segmenters.Cut = str.split
    if wanted.word_segmenter != segmenters.NONE:
        cut = segmenters.load(wanted.word_segmenter)
    reports = {p: report(lines, t, cut) for p, t in tokenizers.items()}
    sizes = {path: t.vocab_size for path, t in tokenizers.items()}
    print(table(reports, sizes))


def _load(path: str) -> tokenization.AnyTokenizer:
    name = "vocab_file" if path.endswith(".txt") else "spm_model_file"
    return tokenization.load(
        options.from_dict(tokenization.VocabularyOptions, {name: path})
    )


if __name__ == "__main__":
    options.run_script(run, CompareOptions)
