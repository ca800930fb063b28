"""lab/trials/compare_words.py: cosines, and words that cannot be compared."""

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf

from albert_tf.common import errors
from albert_tf.model import modeling
from lab.trials import compare_words
from tests.conftest import tiny_config


def test_cosines_leave_out_a_vector_with_itself():
    vectors = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    assert compare_words.mean_cosine(vectors, vectors) == pytest.approx(1.4 / 3)
    assert compare_words.mean_cosine(vectors, vectors[:1]) == pytest.approx(
        1.6 / 3
    )


def test_words_of_a_model(tmp_path, tiny_vocab, tiny_tokenizer, capsys):
    vocabulary = sentencepiece.SentencePieceProcessor(model_file=tiny_vocab)
    whole = [
        piece[1:]
        for piece in vocabulary.id_to_piece(list(range(5, 300)))
        if piece.startswith("▁") and piece[1:].isalpha()
    ]
    words = [w for w in whole if len(tiny_tokenizer.encode(w)) == 1][:4]
    config = tiny_config(
        vocab_size=tiny_tokenizer.vocab_size, max_position_embeddings=512
    )
    (tmp_path / "albert_config.json").write_text(config.to_json())
    encoder = modeling.AlbertModel(config)
    # All words of one kind point one way, those of the other the other way.
    table = np.random.default_rng(0).normal(size=(config.vocab_size, 8))
    for word, way in zip(words, (100, 100, -100, -100), strict=True):
        table[tiny_tokenizer.encode(word)[0]] = way
    encoder.embeddings.word_embeddings.assign(table)
    tf.train.Checkpoint(model=encoder).write(str(tmp_path / "model.ckpt-best"))

    def compare(**values):
        compare_words.run(
            compare_words.CompareOptions(
                init_checkpoint=str(tmp_path),
                spm_model_file=tiny_vocab,
                **values,
            )
        )

    compare(words=",".join(words[:2]), others=",".join(words[2:]))
    numbers = [float(line.split()[-1]) for line in _lines(capsys)]
    assert numbers[:3] == pytest.approx([1, 1, -1], abs=0.01)
    assert abs(numbers[3]) < 0.5
    with pytest.raises(errors.UserError, match="'xyzxyz', which is not one"):
        compare(words="xyzxyz,a", others=words[0])
    with pytest.raises(errors.UserError, match="--words needs two words"):
        compare(words=words[0], others=words[1])


def _lines(capsys):
    return capsys.readouterr().out.splitlines()
