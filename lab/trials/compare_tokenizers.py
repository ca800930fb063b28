r"""Count lines of text that the library tokenizers gives other ids than here.

    python -m lab.trials.compare_tokenizers --input_file='texts/*.txt' \
        --spm_model_file=30k-clean.model

The tokenizer.json that is compared is the one that convert_checkpoint writes
for Hugging Face. The result is a row of the table in
lab/notes/2026-11-22-tokenizers.md; the first lines with other ids are logged.
With --albert_tokenizer transformers' own AlbertTokenizer is compared instead,
which makes its rules from a folder that holds nothing but the SentencePiece
model.
"""

import dataclasses
import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator

from absl import logging

from albert_tf.common import options
from albert_tf.common.options import option
from albert_tf.text import tokenization, tokenizer_check, tokenizer_json
from data_prep.vocabulary import text
from data_prep.writer import corpus

_LINES = 1000  # At most, of each file.
_SHOWN = 5
# Texts to their ids.
Encode = Callable[[list[str]], list[list[int]]]


@dataclasses.dataclass(frozen=True)
@options.checked
class CompareOptions:
    """Options of compare_tokenizers."""

    vocabulary: tokenization.VocabularyOptions
    input_file: str = option(
        help="Text, UTF-8: files or glob patterns, separated by commas."
    )
    albert_tokenizer: bool = option(
        False,
        "Compare transformers' AlbertTokenizer instead; needs transformers and "
        "--spm_model_file.",
    )


def run(settings: CompareOptions) -> None:
    """Print how many lines get other ids, and how many there are."""
    settings.vocabulary.require()
    tokenizer = tokenization.load(settings.vocabulary)
    encode = _of_tokenizers(tokenizer)
    if settings.albert_tokenizer:
        encode = _of_transformers(settings.vocabulary)
    others, total = 0, 0
    for lines in _lines(settings):
        total += len(lines)
        for line, theirs in zip(lines, encode(lines), strict=True):
            ours = tokenizer.encode_with_masks(line)
            others += ours != theirs
            if ours != theirs and others <= _SHOWN:
                for ids in (ours, theirs):
                    logging.info("%s", " ".join(tokenizer.ids_to_pieces(ids)))
    name = os.path.basename(settings.vocabulary.path or "")
    print(f"| {name} | {others:,} | {total:,} |")


def _lines(settings: CompareOptions) -> Iterator[list[str]]:
    """Yield the first lines of each file."""
    for path in corpus.find_files(corpus.CorpusOptions(settings.input_file)):
        lines = text.read_lines([path])
        yield list(itertools.islice(lines, _LINES))


def _of_tokenizers(tokenizer: tokenization.AnyTokenizer) -> Encode:
    """Return what the library makes of texts with our tokenizer.json."""
    rules = tokenizer_json.make(tokenizer)
    library = tokenizer_check.require_library().Tokenizer.from_str(rules)

    def encode(lines: list[str]) -> list[list[int]]:
        found = library.encode_batch(lines, add_special_tokens=False)
        return [encoding.ids for encoding in found]

    return encode


def _of_transformers(vocabulary: tokenization.VocabularyOptions) -> Encode:
    """Return what transformers makes of texts with the model file alone."""
    import transformers

    with tempfile.TemporaryDirectory() as folder:
        assert vocabulary.spm_model_file
        shutil.copy(vocabulary.spm_model_file, f"{folder}/spiece.model")
        theirs = transformers.AlbertTokenizer.from_pretrained(folder)

    def encode(lines: list[str]) -> list[list[int]]:
        ids: list[list[int]] = theirs(lines, add_special_tokens=False)[
            "input_ids"
        ]
        return ids

    return encode


if __name__ == "__main__":
    options.run_script(run, CompareOptions)
