"""Trimmed vocabularies cut texts whose pieces stay as the whole ones do."""

import itertools

import pytest
import sentencepiece

from albert_tf.text import normalization, tokenization, trimming, wordpiece
from tests.conftest import refused

TEXTS = (
    "The lighthouse keeper counted 1,234 ships in 2012, and 7,5 in 13,000.",
    "Unknown \u2603 and \U00013000 letters; don't panic, naïve café!",
    "今天 the zebra quickly ran",
    "[MASK] [CLS] x",
)


@pytest.mark.parametrize("name", ["tiny", "released", "released_chinese"])
def test_texts_of_pieces_that_stay_are_cut_as_before(request, tmp_path, name):
    whole = request.getfixturevalue(name)
    ids = {id_ for text in TEXTS for id_ in whole.encode(text)}
    is_list = isinstance(whole, wordpiece.WordPieceTokenizer)
    path = tmp_path / ("vocab.txt" if is_list else "spm.model")
    content = {str(path): trimming.trim(whole, ids)}
    normalization.write(str(path), whole.normalization, content)
    kind = "vocab_file" if is_list else "spm_model_file"
    options = tokenization.VocabularyOptions(**{kind: str(path)})
    trimmed = tokenization.load(options)
    assert trimmed.vocab_size < whole.vocab_size
    kept = set(trimmed.pieces)
    assert kept <= set(whole.pieces)
    mark = "##" if is_list else "▁"
    letters = {p for p in whole.pieces if len(p.removeprefix(mark)) == 1}
    assert kept >= letters.difference(" ").union(whole.ids_to_pieces(ids))
    words = " ".join(TEXTS).split()
    for text in (*TEXTS, *map(" ".join, itertools.pairwise(words))):
        cuts = [t.ids_to_pieces(t.encode(text)) for t in (whole, trimmed)]
        assert cuts[1] == cuts[0] or not kept.issuperset(cuts[0])
        masked = [
            t.ids_to_pieces(t.encode_with_masks(text)) for t in (whole, trimmed)
        ]
        assert masked[1] == masked[0] or not kept.issuperset(masked[0])


def test_pieces_that_others_are_made_of_are_not_known(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("the cat sat on the mat and the hat\n" * 20)
    sentencepiece.SentencePieceTrainer.train(
        input=str(text),
        model_prefix=str(tmp_path / "merges"),
        model_type="bpe",
        vocab_size=30,
        pad_id=0,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
        control_symbols="[CLS],[SEP],[MASK]",
    )
    tokenizer = tokenization.Tokenizer(str(tmp_path / "merges.model"))
    with refused("`keep_pieces_of` .* not of type unigram"):
        trimming.trim(tokenizer, {5})
