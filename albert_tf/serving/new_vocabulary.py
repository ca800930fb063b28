"""Another vocabulary for a model: `new_vocab_file` and `keep_pieces_of`."""

import collections
import dataclasses
import os
from collections.abc import Iterator

from absl import logging

from albert_tf.common import errors, files, options, progress, rows
from albert_tf.model import compatibility
from albert_tf.model.config import AlbertConfig
from albert_tf.serving.convert_options import ConvertOptions
from albert_tf.text import (
    huggingface_rules,
    normalization,
    tokenization,
    trimming,
)
from albert_tf.training import run_folder, word_embeddings

_KINDS = {
    "spm_model_file": normalization.SENTENCEPIECE,
    "vocab_file": normalization.WORDPIECE,
}


def check(settings: ConvertOptions) -> None:
    """Refuse files that cannot be used, before a model is read."""
    if settings.new_vocab_file:
        _open(settings.new_vocab_file)
    if settings.keep_pieces_of:
        files.require_file(settings.keep_pieces_of, "keep_pieces_of")


def choose(
    settings: ConvertOptions,
    old_vocabulary: tokenization.VocabularyOptions,
    config: AlbertConfig,
    folder: str,
) -> tuple[tokenization.VocabularyOptions, word_embeddings.PieceSources]:
    """Return the new vocabulary of a model, and where its pieces come from.

    Args:
        folder: For its file, if it is a trimmed one.
    """
    old = compatibility.load_tokenizer(old_vocabulary, config, "the model")
    vocabulary, new = old_vocabulary, old
    if settings.new_vocab_file:
        vocabulary, new = _open(settings.new_vocab_file, old)
    words = collections.Counter[str]()
    if settings.keep_pieces_of:
        words, used_ids = _read_corpus(settings.keep_pieces_of, new)
        name = run_folder.VOCABULARY_NAMES[str(vocabulary.kind)]
        path = os.path.join(folder, name)
        content = {path: trimming.trim(new, used_ids)}
        normalization.write(path, new.normalization, content)
        vocabulary = _named({str(vocabulary.kind): path})
        new = tokenization.load(vocabulary)
    sources = word_embeddings.piece_sources(old, new)
    kept, num_pieces = sources.num_kept, len(sources.ids)
    logging.info(
        "The new vocabulary has %d pieces: %d were kept, %d made of others, "
        "%d of them of unknown ones alone; %d of the old ones were dropped.",
        num_pieces,
        kept,
        num_pieces - kept,
        sum({*ids} == {old.unk_id} for ids in sources.ids) - 1,
        old.vocab_size - kept,
    )
    if words:
        cuts = zip(_cuts(old, words), _cuts(new, words), strict=True)
        counts = zip(words.values(), cuts, strict=True)
        changed = sum(count for count, (before, now) in counts if before != now)
        logging.info(
            "Of the %d words in %s, %d (%.2f%%) are cut in another way.",
            words.total(),
            settings.keep_pieces_of,
            changed,
            100 * changed / words.total(),
        )
    return vocabulary, sources


def _named(values: dict[str, str]) -> tokenization.VocabularyOptions:
    return options.from_dict(tokenization.VocabularyOptions, values)


def _open(
    path: str, old: tokenization.AnyTokenizer | None = None
) -> tuple[tokenization.VocabularyOptions, tokenization.AnyTokenizer]:
    """Open a new vocabulary; nothing beside it: text is that of the old one."""
    files.require_file(path, "new_vocab_file")
    kind = huggingface_rules.option_of(path)
    vocabulary = _named({kind: path})
    if old and normalization.read(path, _KINDS[kind]) is None:
        vocabulary = dataclasses.replace(
            vocabulary,
            do_lower_case=old.do_lower_case,
            keep_accents=old.keep_accents,
        )
    try:
        return vocabulary, tokenization.load(vocabulary)
    except errors.UserError as error:
        message = str(error).replace(
            f"`{kind}={path}`", f"`new_vocab_file={path}`"
        )
        raise errors.UserError(message) from None


def _read_corpus(
    path: str, tokenizer: tokenization.AnyTokenizer
) -> tuple[collections.Counter[str], set[int]]:
    """Return the words between blanks, and the ids of all pieces."""
    words, used_ids = collections.Counter[str](), set[int]()
    done = 0
    with (
        files.open_binary(path) as stream,
        progress.Progress("reading text", files.size(path), "B") as bar,
    ):
        for number, line in enumerate(stream, 1):
            text = rows.decode(line, f"{path}, line {number},")
            words.update(text.split())
            used_ids.update(tokenizer.encode(text))
            done += len(line)
            bar.update(done)
    if not words:
        raise errors.UserError(
            f"`keep_pieces_of={path}` holds no words. Give a text file."
        )
    return words, used_ids


def _cuts(
    tokenizer: tokenization.AnyTokenizer, words: collections.Counter[str]
) -> Iterator[list[str]]:
    texts = [tokenizer.decode([id_]) for id_ in range(tokenizer.vocab_size)]
    for word in words:
        yield [texts[id_] for id_ in tokenizer.encode(word)]
