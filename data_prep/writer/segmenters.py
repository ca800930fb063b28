"""Word segmentation of text without spaces between words.

N-gram masks hide whole words. In Chinese and Japanese the vocabulary does not
show where words begin, so a segmenter finds them: jieba for Chinese, as for the
Chinese models with whole-word masks; MeCab with the dictionary UniDic for
Japanese, through fugashi. Both are extras. Both use rules and dictionaries of
their packages, so a text always has the same words.
"""

import functools
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from albert_tf.common import imports, packages
from albert_tf.data import masking

metadata = imports.later("importlib.metadata")

NONE = "none"
# The packages of each, as pip names them.
_PACKAGES = {"jieba": ("jieba",), "mecab": ("fugashi", "unidic-lite")}
NAMES = (NONE, *_PACKAGES)

# Cuts a text into words, which may leave out white space.
Cut = Callable[[str], Iterable[str]]


def versions(name: str) -> dict[str, str]:
    """Return the versions of a segmenter's packages; nothing for "none"."""
    if name == NONE:
        return {}
    return {p: metadata.version(p) for p in _PACKAGES[name]}


@functools.cache  # Once in each process: dictionaries are large.
def load(name: str) -> Cut:
    with warnings.catch_warnings():
        # jieba's own regular expressions and imports cause warnings.
        warnings.simplefilter("ignore")
        library = packages.require(
            *(p.replace("-", "_") for p in _PACKAGES[name]),
            install=f"pip install {' '.join(_PACKAGES[name])}",
            argument=f"word_segmenter={name}",
        )
    return {"jieba": _load_jieba, "mecab": _load_mecab}[name](library)


def _load_jieba(jieba: Any) -> Cut:
    tokenizer = jieba.Tokenizer()
    # `initialize` would read words from a file in the folder for temporary
    # files, which anybody may have written.
    dictionary = tokenizer.get_dict_file()
    with dictionary:
        tokenizer.FREQ, tokenizer.total = tokenizer.gen_pfdict(dictionary)
    tokenizer.initialized = True
    return tokenizer.cut


def _load_mecab(fugashi: Any) -> Cut:
    tagger = fugashi.Tagger("-Owakati")

    def cut(text: str) -> Iterable[str]:
        return str(tagger.parse(text.replace("\0", " "))).split()

    return cut


def word_starts(text: str, cut: Cut) -> np.ndarray:
    """Return which characters of a text begin a word.

    Example:
        "今天 很好" of the words "今天", " ", "很", "好":
        [True, False, False, True, True, False]

    The last one, behind the text, is False, and so is white space.
    """
    starts = np.zeros(len(text) + 1, bool)
    end = 0
    for word in cut(text):
        visible = word.strip()
        if not visible:
            continue
        begin = text.find(visible, end)
        if begin < 0:
            continue  # Changed by the segmenter; part of the word before.
        starts[begin] = not masking.joins_what_precedes(visible)
        end = begin + len(visible)
    return starts


def next_visible(text: str) -> np.ndarray:
    """Return the next character, from each one on, that is no white space.

    It is the length of the text where there is none: int [length + 1].
    """
    is_space = np.array([c.isspace() for c in text] + [False])
    after = np.where(is_space, len(text), np.arange(len(text) + 1))
    return np.minimum.accumulate(after[::-1])[::-1]


def mark_pieces(
    text: str, pieces: tuple[list[str], np.ndarray, np.ndarray], cut: Cut
) -> np.ndarray:
    """Return which pieces of a text begin a word.

    A piece that spans two words joins them, and a single "▁" belongs to the
    piece after it. So a mask never covers a part of a word.

    Example:
        text "今天很好" of the words "今天", "很", "好" and the pieces "▁今",
        "天很", "好": [True, False, True]

    The pieces come with where each begins and ends in the text, int [pieces],
    from `encode_with_offsets`. The result is bool [pieces].
    """
    names, begins, ends = pieces
    first = next_visible(text)[begins]
    is_visible = first < ends
    marks = word_starts(text, cut)[first] & is_visible
    is_marker = ~is_visible & np.array([n.startswith("▁") for n in names], bool)
    marks[1:] &= ~is_marker[:-1]
    marks |= is_marker
    marks[:1] = True
    return marks
