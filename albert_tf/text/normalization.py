"""Normalization of text before tokenization, and the file that describes it.

The text of records, runs and exported models must be normalized as the text
that the vocabulary was trained on. So the program that trains a vocabulary
writes a description beside it: `vocab.normalization.json` beside `vocab.model`
or `vocab.txt`. Every program that opens the vocabulary reads it.

A vocabulary without such a file is normalized as the original does it.
"""

import dataclasses
import functools
import os
from collections.abc import Mapping
from typing import Any

from absl import logging

from albert_tf.common import errors, files, strict_json
from albert_tf.text import huggingface_rules, keras_hub_rules, wordpiece_rules

ENDING = ".normalization.json"
FORMAT_VERSION = 1
SENTENCEPIECE, WORDPIECE = "sentencepiece", "wordpiece"
SETTINGS = "do_lower_case", "keep_accents", "strip_spurious_marker"
_FIELDS = *SETTINGS, "kind", "longest_word"
# How the vocabularies of each kind are given.
_GIVEN_AS = {
    SENTENCEPIECE: "the file that ends in .model as `spm_model_file`",
    WORDPIECE: "the list that ends in .txt as `vocab_file`",
}
_OF_HUB = {
    SENTENCEPIECE: huggingface_rules.ALBERT,
    WORDPIECE: huggingface_rules.BERT,
}
# SHA-256 of the released vocabularies, 30k-clean.model and vocab_chinese.txt,
# which follow the original's rule.
_RELEASED = frozenset(
    {
        "fefb02b667a6c5c2fe27602d28e5fb3428f66ab89c7d6f388e7c8d44a02d0336",
        "45bbac6b341c319adc98a532532882e91a9cefc0329aa57bac9ae761c27b291c",
    }
)


@dataclasses.dataclass(frozen=True)
class Normalization:
    """How text is normalized before it is tokenized.

    Attributes:
        keep_accents: Whether accents and other combining characters are kept.
            Cased WordPiece vocabularies of the original keep all characters
            also without this.
        strip_spurious_marker: Whether a number that continues a word remains
            part of it when the comma after it is cut off; see
            `tokenization.Tokenizer.encode_pieces`. SentencePiece only.
        kind: `SENTENCEPIECE` or `WORDPIECE`.
        longest_word: Characters; longer words are unknown. WordPiece only.
    """

    do_lower_case: bool = True
    keep_accents: bool = False
    strip_spurious_marker: bool = False
    kind: str = SENTENCEPIECE
    longest_word: int = wordpiece_rules.LONGEST_WORD

    @property
    def unicode_form(self) -> str:
        """The Unicode normalization form, or "none".

        SentencePiece: NFKC with accents, else NFKD, from which all combining
        characters are removed. WordPiece: NFD, from which all characters of
        category Mn are removed, if text is lower-cased and accents are not
        kept; otherwise none.
        """
        if self.kind == SENTENCEPIECE:
            return "NFKC" if self.keep_accents else "NFKD"
        removes = self.do_lower_case and not self.keep_accents
        return "NFD" if removes else "none"

    @property
    def settings(self) -> dict[str, bool]:
        return {name: getattr(self, name) for name in SETTINGS}

    @property
    def of_classes(self) -> dict[str, bool]:
        """The options of AlbertTokenizer and BertTokenizer in transformers."""
        return {
            "do_lower_case": self.do_lower_case,
            "keep_accents": self.unicode_form in ("NFKC", "none"),
            "strip_accents": self.unicode_form in ("NFKD", "NFD"),
        }

    def to_json(self) -> str:
        values = {
            "format_version": FORMAT_VERSION,
            "unicode_form": self.unicode_form,
            **dataclasses.asdict(self),
        }
        if self.kind == SENTENCEPIECE:
            del values["longest_word"]
        return strict_json.dumps(values, indent=2, sort_keys=True) + "\n"


def path_beside(vocabulary: str) -> str:
    """Return "vocab/de.normalization.json" for "vocab/de.model"."""
    return os.path.splitext(vocabulary)[0] + ENDING


def write(
    vocabulary: str,
    normalization: Normalization,
    contents: Mapping[str, bytes] = {},
) -> None:
    """Write a vocabulary's description, with its other files by their paths."""
    described = normalization.to_json().encode()
    files.write_together({**contents, path_beside(vocabulary): described})


def read(vocabulary: str, kind: str) -> Normalization | None:
    """Return what is said beside a vocabulary; None if casing is not."""
    said = _said(vocabulary, kind)
    return Normalization(**said) if "do_lower_case" in said else None


def _said(vocabulary: str, kind: str) -> dict[str, Any]:
    """Return what the description says, or a folder of another project."""
    beside = (
        path_beside(vocabulary),
        *huggingface_rules.paths_beside(vocabulary),
        *keras_hub_rules.paths_beside(vocabulary),
    )
    states = (
        files.size_and_time(path) if files.exists(path) else None
        for path in (vocabulary, *beside)
    )
    return dict(_read_said(vocabulary, kind, tuple(states)))


@functools.lru_cache(maxsize=8)
def _read_said(
    vocabulary: str, kind: str, states: tuple[tuple[int, int] | None, ...]
) -> dict[str, Any]:
    del states  # Files that have changed are read again.
    path = path_beside(vocabulary)
    is_described = files.exists(path)
    of_hub = huggingface_rules.settings_beside(
        vocabulary, _OF_HUB[kind], is_described=is_described
    )
    if not is_described:
        of_preset = keras_hub_rules.settings_beside(
            vocabulary, is_words=kind == WORDPIECE
        )
        return {"kind": kind, **of_hub, **of_preset}
    advice = (
        f"It must be the file that was written when {vocabulary} was trained. "
        "Copy it again; without it, the original's rule is assumed."
    )
    # Earlier versions did not write it.
    values: dict[str, Any] = {"longest_word": wordpiece_rules.LONGEST_WORD}
    values |= strict_json.read_object(path, advice)
    said: dict[str, Any] = {name: values.get(name) for name in _FIELDS}
    stored = Normalization(**said)
    if values.get("kind") in [other for other in _GIVEN_AS if other != kind]:
        raise errors.UserError(
            f"{vocabulary} is given as a vocabulary of {kind}, but {path} says "
            f"that it is of {values['kind']}. Name "
            f"{_GIVEN_AS[values['kind']]}. If that file belongs to another "
            "vocabulary, move it away."
        )
    for name, allowed in (
        ("format_version", (FORMAT_VERSION,)),
        ("kind", (kind,)),
        *((name, (True, False)) for name in SETTINGS),
        ("longest_word", huggingface_rules.LONGEST_WORDS),
        ("unicode_form", (stored.unicode_form,)),
    ):
        value = values.get(name)
        if repr(value) not in map(repr, allowed):
            raise errors.UserError(
                f"{path} has {name} {value!r}; here it must be "
                f"{' or '.join(map(strict_json.dumps, allowed))}. {advice}"
            )
    for name, value in of_hub.items():
        changed = dataclasses.replace(stored, **{name: value})
        # Cased words keep their accents, whatever keep_accents is.
        is_same = changed.unicode_form == stored.unicode_form
        if said[name] != value and not (is_same and name == "keep_accents"):
            raise errors.UserError(
                f"{path} has {name} {strict_json.dumps(said[name])}, but the "
                f"tokenizer_config.json beside it says "
                f"{strict_json.dumps(value)}. Correct the one that was edited."
            )
    return said


def resolve(
    vocabulary: str, kind: str, given: dict[str, bool | None]
) -> Normalization:
    """Return how text is normalized for the vocabulary in a file.

    An option that was given (others are None) may not contradict the
    description beside it.
    """
    wanted = {n: value for n, value in given.items() if value is not None}
    said = _said(vocabulary, kind)
    if "do_lower_case" not in said:
        if len(wanted) < len(given):
            _say_original(vocabulary)
        return Normalization(**{**said, **wanted})
    stored = Normalization(**said)
    place = path_beside(vocabulary)
    if not files.exists(place):  # Of a folder of another project.
        place = f"what lies beside {vocabulary}"
    for name, value in wanted.items():
        known = stored.settings[name]
        if value != known:
            raise errors.UserError(
                f"`{name}={str(value).lower()}` contradicts "
                f"{place}, which has {str(known).lower()}: "
                "text must be normalized as when the vocabulary was trained. "
                "Leave the option out, or give another vocabulary."
            )
    return stored


@functools.cache
def _say_original(vocabulary: str) -> None:
    """Log once that a vocabulary has no description."""
    if not files.exists(vocabulary) or files.sha256(vocabulary) in _RELEASED:
        return
    logging.info(
        "%s has no %s beside it. So text is normalized as in the original "
        "(lower-cased, without accents), unless options change this.",
        vocabulary,
        os.path.basename(path_beside(vocabulary)),
    )
